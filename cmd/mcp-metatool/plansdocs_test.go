package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

var updatePlans = flag.Bool("updateplans", false, "write the recordings in docs/plans.md anew")

// varying matches what differs between two recordings: ids, digests, times, the clock and
// the seed.
var varying = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}(?: UTC|Z)|clock [0-9]+, seed [0-9]+`)

// isTime matches the times among them.
var isTime = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]`)

// digestFlag is the digest of the newest plan in a command.
var digestFlag = regexp.MustCompile(`--digest \w+`)

// unrecorded matches lines that are not in recordings: progress, and log records, such as one of a
// server that a slow machine did not give the time to end by itself.
var unrecorded = regexp.MustCompile(`(?m)^(progress |time=[0-9]{4}-).*\n`)

// TestPlanRecordings runs the commands of the recordings in docs/plans.md and compares what
// they print. What varies must be the same in all places where it is the same on the page.
func TestPlanRecordings(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands are run by sh")
	}
	startsProgram(t)
	page := filepath.Join("..", "..", "docs", "plans.md")
	blocks := readBlocks(t, page)
	var script, saved string
	recorded := 0
	for _, b := range blocks {
		switch b.language {
		case "python":
			script = b.text
		case "console":
			recorded++
			got := recordPlan(t, script, b.text)
			saved += got
			if got != b.text && *updatePlans {
				text, err := os.ReadFile(page)
				if err == nil {
					err = os.WriteFile(page, []byte(strings.Replace(string(text), b.text, got, 1)), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			} else if got != b.text {
				t.Errorf("%s is not what is printed (-updateplans writes it):\n%s", page, got)
			}
		}
	}
	for _, want := range []string{"was applied (run", "a plan is applied once at most", "the answer of tracker.get_issue has changed", "not made"} {
		if !strings.Contains(saved, want) {
			t.Errorf("the recordings do not show %q", want)
		}
	}
	if recorded != 2 {
		t.Errorf("%d recordings", recorded)
	}
}

// recordPlan runs the commands of a recording in a new folder, and returns the recording,
// with what varies as in the old one.
func recordPlan(t *testing.T, script, old string) string {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.toml": "startup_wait = \"1m\"\n[upstream.tracker]\ncommand = \"tracker\"\n",
		"issues.json": `{"issues":[{"number":1,"title":"Rewrite the parser","body":"It is slow."}]}`,
		"split.star":  script,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shell := func(line string) (string, error) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "MCP_METATOOL_DIR="+filepath.Join(dir, "store"), "MCP_METATOOL_CONFIG="+filepath.Join(dir, "config.toml"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	save := `{"name":"split","description":"Makes a part of an issue.","inputSchema":{"type":"object","properties":{"number":{"type":"integer"}},"required":["number"]},"code":` + string(wire.Quote(script)) + `}`
	if err := os.WriteFile(filepath.Join(dir, "save.json"), []byte(save), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shell("mcp-metatool run save_tool --params @save.json"); err != nil {
		t.Fatal(err, out)
	}
	var recording strings.Builder
	actual := map[string]string{} // what varies, by what the page has in its place
	shown := map[string]string{}
	parts := strings.Split("\n"+old, "\n$ ")
	for _, part := range parts[1:] {
		command, before, _ := strings.Cut(part, "\n")
		out, _ := shell(digestFlag.ReplaceAllString(command, "--digest "+actual["digest"])) // some fail
		out = unrecorded.ReplaceAllString(out, "")
		if d := regexp.MustCompile(`digest   ([0-9a-f]{64})`).FindStringSubmatch(out); d != nil {
			actual["digest"] = d[1]
		}
		var olds []string
		if !*updatePlans {
			olds = varying.FindAllString(before, -1)
		}
		n := 0
		out = varying.ReplaceAllStringFunc(out, func(s string) string {
			if n < len(olds) && isTime.MatchString(s) && isTime.MatchString(olds[n]) { // two can be the same or not
				n++
				return olds[n-1]
			}
			if n < len(olds) && len(olds[n]) == len(s) && shown[s] == "" && actual[olds[n]] == "" {
				shown[s], actual[olds[n]] = olds[n], s
			}
			n++
			if shown[s] == "" {
				shown[s], actual[s] = s, s
			}
			return shown[s]
		})
		recording.WriteString("$ " + digestFlag.ReplaceAllString(command, "--digest "+shown[actual["digest"]]) + "\n" + out)
	}
	return strings.TrimRight(recording.String(), "\n") + "\n"
}
