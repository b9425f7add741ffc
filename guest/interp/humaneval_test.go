package interp

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// TestHumanEval runs the programs of github.com/openai/human-eval, which others wrote in
// Python, each with its own tests. programs.txt has the names of the programs, and says
// why one fails.
func TestHumanEval(t *testing.T) {
	expected := readHumanEvalNames(t)
	passed := 0
	for _, p := range readHumanEval(t, "testdata/humaneval/HumanEval.jsonl.gz") {
		reason, known := expected[p.Name]
		if !known {
			t.Errorf("%s is not in the list", p.Name)
		}
		code := fmt.Sprintf("%s%s\n%s\ncheck(%s)\n", p.Prompt, p.Solution, p.Test, p.Entry)
		_, failure := serve(abi.Request{Op: abi.OpRun, Name: p.Name, Code: code}, &fakeHost{}, 200_000_000)
		switch {
		case failure == nil && reason == "":
			passed++
		case failure == nil:
			t.Errorf("%s runs, but the list says that it does not: %s", p.Name, reason)
		case reason == "":
			t.Errorf("%s: %s", p.Name, shownFailure(failure))
		}
	}
	t.Logf("%d of %d", passed, len(expected))
	if len(expected) != 164 || passed < 155 {
		t.Errorf("%d of %d programs run, want at least 155 of 164", passed, len(expected))
	}
}

type humanEvalProgram struct {
	Name     string `json:"task_id"`
	Prompt   string `json:"prompt"`
	Entry    string `json:"entry_point"`
	Solution string `json:"canonical_solution"`
	Test     string `json:"test"`
}

func readHumanEval(t *testing.T, path string) (all []humanEvalProgram) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p humanEvalProgram
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// readHumanEvalNames returns the programs of the list, with the reasons of those that
// do not run.
func readHumanEvalNames(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/humaneval/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, reason, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "" && !strings.HasPrefix(name, "#") {
			out[name] = strings.TrimSpace(reason)
		}
	}
	return out
}

func shownFailure(e *abi.Error) string {
	text := e.Message
	if e.Position != nil {
		text += fmt.Sprintf("\n%d: %s", e.Position.Line, e.Position.Source)
	}
	return text
}
