package stdlibtest

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// python evaluates scripts. The program reads lines of {"setup", "scripts"}, and writes a line with
// their outcomes for each.
const python = `
import json, sys
for line in sys.stdin:
    job = json.loads(line)
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
    print(json.dumps(out), flush=True)
`

// asked is the Python process of a test binary. The process ends with the input, which ends with
// the binary.
type asked struct {
	in  *json.Encoder
	out *json.Decoder
}

// start starts Python. The error describes the fault of the Python found.
var start = sync.OnceValues(func() (*asked, error) {
	if exec.Command("python3", "-c", "import sys; sys.exit(sys.version_info < (3, 11))").Run() != nil {
		return nil, errors.New("python3 is older than 3.11")
	}
	cmd := exec.Command("python3", "-W", "ignore", "-c", python)
	cmd.Env = []string{"PYTHONIOENCODING=utf-8", "PYTHONHASHSEED=0", "TZ=UTC", "PATH=/usr/bin:/bin"}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &asked{json.NewEncoder(in), json.NewDecoder(out)}, cmd.Start()
})

// Python returns the outcomes of scripts in Python, in the form of Outcome. The test is skipped
// without a Python of at least 3.11.
func Python(t testing.TB, setup string, scripts []string) []string {
	t.Helper()
	testenv.Program(t, "python3")
	p, err := start()
	if err != nil {
		testenv.Lacks(t, "python3", "%v", err)
	}
	if err := p.in.Encode(map[string]any{"setup": setup, "scripts": scripts}); err != nil {
		t.Fatal(err)
	}
	var out []string
	if err := p.out.Decode(&out); err != nil || len(out) != len(scripts) {
		t.Fatalf("python3 gave %d outcomes for %d scripts: %v", len(out), len(scripts), err)
	}
	return out
}

// Same runs scripts here and in Python and compares the outcomes. Where the interpreter fails with
// its own error, any error of Python will do. Floats may differ by a relative tolerance.
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
