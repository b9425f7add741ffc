package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// TestJUnitParses checks that the XML is well-formed, token by token, and that all texts
// are in it.
func TestJUnitParses(t *testing.T) {
	text := render(t, "junit", Options{}, sample(t))
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	var root junitSuites
	if err := xml.Unmarshal([]byte(text), &root); err != nil {
		t.Fatal(err)
	}
	if root.Tests != 9 || root.Failures != 3 || root.Errors != 2 || len(root.Suites) != 4 {
		t.Errorf("root = %+v", root.junitTotals)
	}
	var sum junitCounts
	for _, s := range root.Suites {
		if s.Tests != len(s.Cases) {
			t.Errorf("%s has %d tests, says %d", s.Name, len(s.Cases), s.Tests)
		}
		sum.Tests, sum.Failures, sum.Errors, sum.Skipped = sum.Tests+s.Tests, sum.Failures+s.Failures, sum.Errors+s.Errors, sum.Skipped+s.Skipped
	}
	if sum.Time = root.Time; sum.junitTotals != root.junitTotals || sum.Skipped != 2 {
		t.Errorf("suites have %+v, the root %+v", sum, root.junitTotals)
	}
	c := root.Suites[1].Cases[0]
	if c.Name != display.EscapeLine(hostile) || !strings.Contains(c.SystemOut, "]]> <b>&amp; 100%") || !strings.Contains(c.Failure.Text, `\x1b[31mred`) {
		t.Errorf("case = %+v", c)
	}
}

func TestJSONParses(t *testing.T) {
	text := render(t, "json", Options{}, sample(t))
	var doc struct {
		Version int
		Files   []jsonFile
		Summary jsonSummary
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if doc.Version != 1 || len(doc.Files) != 4 || doc.Summary.ExitCode != 2 || doc.Summary.Checks != 8 {
		t.Errorf("%+v", doc.Summary)
	}
	if got, want := doc.Files[1].Results[0].Name, strings.ToValidUTF8(hostile, "\ufffd"); got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	if strings.Contains(render(t, "json", Options{}, []File{{Results: []Result{{}}}}), "null") {
		t.Error("an empty list is null")
	}
}

// tapPoint is a test point as a reader of TAP sees it.
type tapPoint struct {
	ok                bool
	number            int
	text, skip, block string
	isSkip            bool
}

var tapLine = regexp.MustCompile(`^(ok|not ok) (\d+) - (.*)$`)

// readTAP parses TAP 14 without subtests.
func readTAP(text string) (points []tapPoint, plan int, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != "TAP version 14" {
		return nil, 0, fmt.Errorf("first line %q", lines[0])
	}
	plan = -1
	for i := 1; i < len(lines); i++ {
		line := lines[i]
		m := tapLine.FindStringSubmatch(line)
		switch {
		case m != nil:
			p := tapPoint{ok: m[1] == "ok"}
			p.number, _ = strconv.Atoi(m[2])
			p.text, p.skip, p.isSkip = readTAPText(m[3])
			points = append(points, p)
		case line == "  ---" && len(points) > 0:
			end := i + 1
			for end < len(lines) && lines[end] != "  ..." {
				if lines[end] != "" && !strings.HasPrefix(lines[end], "  ") {
					return nil, 0, fmt.Errorf("line %d is not indented: %q", end, lines[end])
				}
				end++
			}
			points[len(points)-1].block = strings.Join(lines[i+1:end], "\n")
			i = end
		case strings.HasPrefix(line, "1.."):
			if plan >= 0 {
				return nil, 0, fmt.Errorf("two plans")
			}
			if plan, err = strconv.Atoi(strings.Fields(line[3:])[0]); err != nil {
				return nil, 0, err
			}
		case strings.HasPrefix(line, "# "):
		default:
			return nil, 0, fmt.Errorf("line %d: %q", i, line)
		}
	}
	return points, plan, nil
}

// readTAPText splits a line at the first # that is not escaped.
func readTAPText(s string) (text, skip string, isSkip bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '#':
			directive := strings.TrimSpace(s[i+1:])
			rest, ok := strings.CutPrefix(directive, "SKIP")
			return strings.TrimSpace(b.String()), strings.TrimSpace(rest), ok
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), "", false
}

func TestTAPParses(t *testing.T) {
	text := render(t, "tap", Options{}, sample(t))
	points, plan, err := readTAP(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if plan != 9 || len(points) != 9 {
		t.Fatalf("plan %d, %d points", plan, len(points))
	}
	for i, p := range points {
		if p.number != i+1 || p.block == "" {
			t.Errorf("point %+v", p)
		}
	}
	if p := points[2]; !p.ok || !p.isSkip || p.skip != "does not match --filter" {
		t.Errorf("skipped: %+v", p)
	}
	if p := points[7]; p.ok || p.isSkip || p.text != "odd, name: 100%.toml: "+display.EscapeLine(hostile) {
		t.Errorf("hostile: %+v", p)
	}
	scalars := readYAML(t, points[7].block)
	for key, want := range map[string]string{
		"what": "expect.text", "message": display.Escape(hostile), "want": display.Escape(hostile), "got": display.Escape(" " + hostile + "\n\n"),
		"output": display.Escape(hostile), "file": "odd, name: 100%.toml", "path": display.Escape(`$["` + hostile + `"]`), "status": "failed",
	} {
		if scalars[key] != want {
			t.Errorf("%s is %q, want %q", key, scalars[key], want)
		}
	}
}

var yamlLine = regexp.MustCompile(`^( *)(?:- )?([a-z_]+): (.*)$`)

// readYAML returns the scalars of a diagnostic by their keys; of several with the same key,
// the last.
func readYAML(t *testing.T, block string) map[string]string {
	t.Helper()
	scalars := map[string]string{}
	lines := strings.Split(block, "\n")
	for i := 0; i < len(lines); i++ {
		m := yamlLine.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		key, value := m[2], m[3]
		if !strings.HasPrefix(value, "|2") {
			if s, err := strconv.Unquote(value); err == nil {
				value = s
			}
			scalars[key] = value
			continue
		}
		// The block continues while lines are indented deeper than the key.
		indent := strings.Index(lines[i], key) + 2
		var text []string
		for i+1 < len(lines) && (lines[i+1] == "" || strings.HasPrefix(lines[i+1], strings.Repeat(" ", indent))) {
			i++
			text = append(text, strings.TrimPrefix(lines[i], strings.Repeat(" ", indent)))
		}
		scalars[key] = strings.Join(text, "\n")
		if value == "|2+" {
			scalars[key] += "\n"
		}
	}
	return scalars
}

// runner returns the commands that GitHub's runner would obey in a log.
func runner(log string) (commands []string) {
	stop := ""
	for line := range strings.SplitSeq(log, "\n") {
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case stop != "":
			if trimmed == "::"+stop+"::" {
				stop = ""
			}
		case strings.HasPrefix(trimmed, "::stop-commands::"):
			stop = strings.TrimPrefix(trimmed, "::stop-commands::")
		case strings.HasPrefix(trimmed, "::") || strings.Contains(line, "##["):
			commands = append(commands, line)
		}
	}
	if stop != "" {
		commands = append(commands, "still stopped at the end")
	}
	return commands
}

func TestGitHubCommands(t *testing.T) {
	log := render(t, "github", Options{Verbose: true}, sample(t))
	got := runner(log)
	want := []string{
		"::error file=checks/smoke.toml,line=17,col=5,title=summary tool::expect.result at $.open: other value (checks/smoke.toml:17:5)%0A",
		"::error file=checks/smoke.toml,line=40,col=1,title=server::the server did not start",
		"::error file=checks/smoke.toml,line=50,title=nothing known::failed",
		"::error file=odd%2C name%3A 100%25.toml,line=3,title=]]> <b>&amp; 100%25 %3A%3Aerror file=x%3A%3Ay ",
		"::error file=wrong.toml,line=7,col=3,title=file cannot be run::file: wrong.toml:7:3: unknown key%0A::error::x",
		"::error file=wrong.toml,title=file cannot be run::second",
	}
	if len(got) != len(want) {
		t.Fatalf("%d commands:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("command %q\nwant %q", got[i], want[i])
		}
	}
}

func TestGitHubToken(t *testing.T) {
	token := func() string {
		w, err := New("github", &bytes.Buffer{}, Options{Getenv: func(string) string { return "" }})
		if err != nil {
			t.Fatal(err)
		}
		return w.(*gitHub).token
	}
	if a, b := token(), token(); a == b || len(a) != 32 {
		t.Errorf("tokens %q, %q", a, b)
	}
}

func TestGitHubPaths(t *testing.T) {
	root := t.TempDir()
	g := &gitHub{workspace: root}
	for in, want := range map[string]string{
		"a/b.toml": "a/b.toml", filepath.Join(root, "a", "b.toml"): "a/b.toml", filepath.Dir(root): filepath.Dir(root),
	} {
		if got := g.relative(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestStepSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary.md")
	env := func(name string) string {
		return map[string]string{"GITHUB_STEP_SUMMARY": path, "GITHUB_OUTPUT": path + ".out"}[name]
	}
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	render(t, "github", Options{Getenv: env}, sample(t))
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(string(got), "before\n")
	if !ok {
		t.Error("what was in the summary is gone")
	}
	golden(t, "summary.golden", text)

	// The outputs are numbers.
	got, err = os.ReadFile(path + ".out")
	if want := "checks=8\npassed=2\nfailed=3\nbroken=1\nskipped=2\ncoverage=50.0\n"; err != nil || string(got) != want {
		t.Errorf("outputs %q (%v), want %q", got, err, want)
	}

	// A summary that is too long for GitHub is cut.
	many := File{Path: "f"}
	for range 5000 {
		many.Results = append(many.Results, Result{Name: strings.Repeat("n", 300), Status: Failed, Output: "x"})
	}
	if text := markdown([]File{many}, Summary{}); len(text) > 1<<20 || !strings.HasSuffix(text, "see the log.\n") {
		t.Errorf("%d bytes", len(text))
	}
	// An error is returned if the file cannot be written.
	path = filepath.Join(path, "none")
	w, err := New("github", io.Discard, Options{Getenv: env})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(Summary{}); err == nil || !strings.Contains(err.Error(), "GITHUB_STEP_SUMMARY") {
		t.Errorf("err = %v", err)
	}
}

// TestErrorIsShownOnce checks that the text of a failed tool, which is both a problem and the
// output, is shown once.
func TestErrorIsShownOnce(t *testing.T) {
	const said = "no sea area\nof that name"
	files := []File{{Path: "a.toml", Results: []Result{
		{Name: "fails", File: "a.toml", Status: Failed, Problems: []Problem{{Message: "the tool failed", Got: said}}, Output: said},
		{Name: "other", File: "a.toml", Status: Failed, Problems: []Problem{{Message: "other value", Got: "3"}}, Output: "three sheets"},
	}}}
	for _, format := range Formats {
		if format == "json" { // data, which always has all members
			continue
		}
		text, want := render(t, format, Options{}, files), 1
		if format == "github" {
			want = 2 // in the log and in the annotation
		}
		if n := strings.Count(text, "no sea area"); n != want {
			t.Errorf("%s shows the error %d times:\n%s", format, n, text)
		}
		if !strings.Contains(text, "three sheets") {
			t.Errorf("%s does not show another output:\n%s", format, text)
		}
	}
}
