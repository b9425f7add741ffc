package stdlibtest

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// python evaluates scripts. It reads {"setup", "scripts"} and writes their outcomes.
const python = `
import json, sys
job = json.load(sys.stdin)
out = []
for script in job["scripts"]:
    scope = {}
    exec(job["setup"], scope)
    try:
        try:
            code = compile(script, "test", "eval")
        except SyntaxError:
            exec(script, scope)
            value = scope["r"]
        else:
            value = eval(code, scope)
        text = repr(value)
    except Exception as e:
        name = type(e).__name__
        if name in ("error", "Error"):
            name = type(e).__module__.lstrip("_") + "." + name
        text = "!" + name
    out.append(text)
json.dump(out, sys.stdout)
`

// Python returns the outcomes of scripts in Python, in the form of Outcome. It skips
// the test where there is no Python of at least 3.11.
func Python(t testing.TB, setup string, scripts []string) []string {
	t.Helper()
	path := testenv.Program(t, "python3")
	if exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 11))").Run() != nil {
		testenv.Lacks(t, "python3", "python3 is older than 3.11")
	}
	job, err := json.Marshal(map[string]any{"setup": setup, "scripts": scripts})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-W", "ignore", "-c", python)
	cmd.Env = []string{"PYTHONIOENCODING=utf-8", "PYTHONHASHSEED=0", "TZ=UTC", "PATH=/usr/bin:/bin"}
	cmd.Stdin = bytes.NewReader(job)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("python3: %v\n%s", err, &stderr)
	}
	var out []string
	if err := json.Unmarshal(text, &out); err != nil || len(out) != len(scripts) {
		t.Fatalf("python3 gave %d outcomes for %d scripts: %v", len(out), len(scripts), err)
	}
	return out
}

// Same runs scripts here and in Python and compares the outcomes. Where the interpreter
// fails with an error of its own, any error of Python will do. Floats may differ by a
// relative tolerance.
func Same(t *testing.T, env starlark.StringDict, setup string, tolerance float64, scripts []string) {
	t.Helper()
	const shown = 12
	failures := 0
	for i, want := range Python(t, setup, scripts) {
		got := Outcome(env, scripts[i])
		if got == want || strings.HasPrefix(got, "!?") && strings.HasPrefix(want, "!") || tolerance > 0 && near(got, want, tolerance) {
			continue
		}
		if failures++; failures <= shown {
			t.Errorf("%s\n  here   %s\n  Python %s", scripts[i], got, want)
		}
	}
	if failures > shown {
		t.Errorf("%d more differ", failures-shown)
	}
	t.Logf("%d scripts", len(scripts))
}

var number = regexp.MustCompile(`-?\d+(\.\d+)?([eE][-+]?\d+)?`)

// near reports whether two texts differ only in numbers, and these by little.
func near(a, b string, tolerance float64) bool {
	if number.ReplaceAllString(a, "#") != number.ReplaceAllString(b, "#") {
		return false
	}
	x, y := number.FindAllString(a, -1), number.FindAllString(b, -1)
	for i := range x {
		p, err1 := strconv.ParseFloat(x[i], 64)
		q, err2 := strconv.ParseFloat(y[i], 64)
		if err1 != nil || err2 != nil || math.Abs(p-q) > tolerance*math.Max(math.Abs(p), math.Abs(q)) {
			return false
		}
	}
	return true
}
