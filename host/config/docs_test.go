package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const reference = "../../docs/configuration.md"

// example is a fenced block of TOML or JSON.
var example = regexp.MustCompile("(?ms)^```(toml|json)\n(.*?)^```$")

// TestExamplesOfReference loads every example of docs/configuration.md.
func TestExamplesOfReference(t *testing.T) {
	text := readReference(t)
	examples := example.FindAllStringSubmatchIndex(text, -1)
	if len(examples) < 5 {
		t.Fatalf("only %d examples found in %s", len(examples), reference)
	}
	for _, at := range examples {
		format, body := text[at[2]:at[3]], text[at[4]:at[5]]
		line := 1 + strings.Count(text[:at[4]], "\n")
		t.Run(fmt.Sprintf("line %d", line), func(t *testing.T) {
			opts := testOptions(write(t, filepath.Join(t.TempDir(), "config."+format), body), t.TempDir(), nil)
			opts.Getenv = func(key string) (string, bool) { // all are set but ours
				if strings.HasPrefix(key, "MCP_METATOOL_") {
					return "", false
				}
				return "value-of-" + key, true
			}
			c, err := Load(opts)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Upstreams) == 0 {
				t.Error("no upstream in it")
			}
		})
	}
}

// TestReferenceHasEveryKey asks for the known keys of every table, by giving
// each an unknown one, and looks them up in the reference.
func TestReferenceHasEveryKey(t *testing.T) {
	const unknown = "this-is-near-to-nothing"
	text := readReference(t)
	files := map[string]string{
		"c.toml": "X = 1\n[execution]\nX = 1\n[store]\nX = 1\n[http]\nX = 1\n[journal]\nX = 1\n[builtins]\nX = 1\n" +
			"[upstream.x]\ncommand = \"x\"\nX = 1\n[upstream.y]\nurl = \"http://x\"\noauth = { X = 1 }\n[upstream.z]\ncommand = \"x\"\nprobe = { call = \"x\", X = 1 }\n",
		"c.json": `{"X": 1, "execution": {"X": 1}, "store": {"X": 1}, "http": {"X": 1}, "journal": {"X": 1}, "builtins": {"X": 1}, "upstreamServers": [
			{"name": "x", "command": "x", "X": 1}, {"name": "y", "url": "http://x", "oauth": {"X": 1}},
			{"name": "z", "command": "x", "probe": {"call": "x", "X": 1}}]}`,
	}
	known := regexp.MustCompile(`\(known here: (.*)\)`)
	for name, body := range files {
		file := write(t, filepath.Join(t.TempDir(), name), strings.ReplaceAll(body, "X", unknown))
		_, err := Load(testOptions(file, t.TempDir(), nil))
		var all interface{ Unwrap() []error }
		if !errors.As(err, &all) || len(all.Unwrap()) != 9 {
			t.Fatalf("%s: want nine unknown keys, got: %v", name, err)
		}
		for _, problem := range all.Unwrap() {
			match := known.FindStringSubmatch(problem.Error())
			if match == nil {
				t.Fatalf("no list of keys in %q", problem)
			}
			for _, key := range strings.Split(match[1], ", ") {
				if !regexp.MustCompile(`["\x60.\[]` + key + `["\x60.\]]`).MatchString(text) {
					t.Errorf("%s: key %q is not in %s", name, key, reference)
				}
			}
		}
	}
	for _, variable := range []string{EnvConfig, EnvDir, EnvTimeout, EnvDebug} {
		if !strings.Contains(text, "| `"+variable+"` |") {
			t.Errorf("%s is not in %s", variable, reference)
		}
	}
}

// TestReferenceHasTheDefaults compares the defaults in the tables with those in
// the code.
func TestReferenceHasTheDefaults(t *testing.T) {
	text := readReference(t)
	c := newConfig()
	for _, row := range []struct{ key, value string }{
		{"startup_wait", strconv.Quote(units.FormatDuration(c.StartupWait))},
		{"timeout", strconv.Quote(units.FormatDuration(c.Execution.Timeout))},
		{"timeout", fmt.Sprintf("\"%ds\"", int(DefaultUpstreamTimeout.Seconds()))},
		{"max_timeout", strconv.Quote(units.FormatDuration(DefaultMaxTimeout))},
		{"restart", `"always"`},
		{"timeout", strconv.Quote(units.FormatDuration(DefaultProbeTimeout))},
		{"start", `"eager"`},
		{"isolation", `"shared"`},
		{"listen", strconv.Quote(c.HTTP.Listen)},
		{"path", strconv.Quote(c.HTTP.Path)},
		{"session_ttl", strconv.Quote(units.FormatDuration(c.HTTP.SessionTTL))},
		{"max_sessions", fmt.Sprint(c.HTTP.MaxSessions)},
		{"resume_window", strconv.Quote(units.FormatDuration(c.HTTP.ResumeWindow))},
		{"test_tool", fmt.Sprint(c.Builtins.On("test_tool"))},
		{"runs", fmt.Sprint(c.Builtins.On("runs"))},
		{"enabled", fmt.Sprint(c.Journal.Enabled)},
		{"required", fmt.Sprint(c.Journal.Required)},
		{"sync", strconv.Quote(string(c.Journal.Sync))},
		{"max_size", strconv.Quote(strings.Replace(units.FormatSize(c.Journal.MaxSize), "MiB", "MB", 1))},
		{"max_total", strconv.Quote(strings.Replace(units.FormatSize(c.Journal.MaxTotal), "GiB", "GB", 1))},
		{"max_age", strconv.Quote(units.FormatDuration(c.Journal.MaxAge))},
		{"proxied", strconv.Quote(string(c.Journal.Proxied))},
		{"max_memory", strconv.Quote(strings.Replace(units.FormatSize(c.Execution.MaxMemory), "MiB", "MB", 1))},
		{"max_fuel", fmt.Sprint(c.Execution.MaxFuel)},
		{"max_calls", fmt.Sprint(c.Execution.MaxCalls)},
		{"max_parallel", fmt.Sprint(c.Execution.MaxParallel)},
		{"undo_timeout", strconv.Quote(units.FormatDuration(c.Execution.UndoTimeout))},
		{"max_queued", fmt.Sprint(c.Execution.MaxQueued)},
		{"max_message", strconv.Quote(strings.Replace(units.FormatSize(uint64(c.MaxMessage)), "MiB", "MB", 1))},
	} {
		if want := fmt.Sprintf("| `%s` | `%s` |", row.key, row.value); !strings.Contains(text, want) {
			t.Errorf("no row %s in %s", want, reference)
		}
	}
}

func readReference(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), "\r\n", "\n")
}
