package interp

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/rogpeppe/go-internal/txtar"
)

const (
	// generatedPrograms is how many generated programs have a recorded outcome. If
	// Python is installed, more are compared with it.
	generatedPrograms     = 300
	generatedMorePrograms = 50
)

// A pyProgram is a program and its outcome in Python.
type pyProgram struct{ name, code, want string }

// TestAgreesWithPython checks that programs in the common subset of both languages have
// the same outcome: the ones in testdata/python/programs.txtar and generated ones. The
// outcomes are recorded; -update records them again, which needs Python, and -long compares all
// records with Python.
func TestAgreesWithPython(t *testing.T) {
	written, archive := writtenPrograms(t)
	recorded := recordedPrograms(t)
	var programs []pyProgram
	for seed := range generatedPrograms {
		code := generate(uint64(seed))
		name := fmt.Sprintf("generated-%d-%x", seed, sha256.Sum256([]byte(code)))[:30]
		want, ok := recorded[name]
		if !ok && !*update {
			t.Fatalf("%s has no recorded outcome: the generator has changed, run with -update where there is a Python", name)
		}
		programs = append(programs, pyProgram{name, code, want})
	}
	programs = append(programs, written...)
	python, err := exec.LookPath("python3")
	switch {
	case err == nil:
		for seed := generatedPrograms; seed < generatedPrograms+generatedMorePrograms; seed++ {
			programs = append(programs, pyProgram{name: fmt.Sprintf("generated-%d", seed), code: generate(uint64(seed))})
		}
		asked := programs
		if !*long && !*update {
			asked = programs[generatedPrograms:] // what others do was compared when it was recorded
		}
		askPython(t, python, asked)
	case *update:
		t.Fatal(err)
	}
	ends := make(map[string]int)
	for _, p := range programs {
		got := dialectOutcome(p.code)
		if got != p.want {
			t.Errorf("%s:\n%s\ngot:\n%s\nPython:\n%s", p.name, numbered(p.code), got, p.want)
		}
		last := p.want[strings.LastIndexByte(strings.TrimSuffix(p.want, "\n"), '\n')+1:]
		if !strings.HasPrefix(last, "!") {
			last = "end"
		}
		ends[strings.TrimSuffix(strings.Fields(last)[0], "\n")]++
	}
	t.Logf("%d programs agree; they end with: %v", len(programs), ends)
	if *update {
		record(t, archive, programs)
	}
}

// writtenPrograms returns NAME.py with NAME.out of the archive.
func writtenPrograms(t *testing.T) ([]pyProgram, *txtar.Archive) {
	archive, err := txtar.ParseFile("testdata/python/programs.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var programs []pyProgram
	for _, f := range archive.Files {
		if name, ok := strings.CutSuffix(f.Name, ".py"); ok {
			programs = append(programs, pyProgram{name: name, code: string(f.Data)})
		} else if n := len(programs) - 1; n >= 0 && f.Name == programs[n].name+".out" {
			programs[n].want = string(f.Data)
		}
	}
	return programs, archive
}

func recordedPrograms(t *testing.T) map[string]string {
	recorded := make(map[string]string)
	archive, err := txtar.ParseFile("testdata/python/generated.txtar")
	if err != nil {
		if *update && errors.Is(err, os.ErrNotExist) {
			return recorded
		}
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		recorded[f.Name] = string(f.Data)
	}
	return recorded
}

// askPython compares the recorded outcomes with those of Python, and adds missing ones.
func askPython(t *testing.T, python string, programs []pyProgram) {
	var codes []string
	for _, p := range programs {
		codes = append(codes, p.code)
	}
	input, err := json.Marshal(codes)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-W", "ignore", "testdata/python/harness.py")
	cmd.Stdin = bytes.NewReader(input)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var outs []string
	if err := json.Unmarshal(output, &outs); err != nil {
		t.Fatal(err)
	}
	for i, out := range outs {
		if p := &programs[i]; p.want == "" || *update {
			p.want = out
		} else if p.want != out {
			t.Errorf("%s: %s does not do what is recorded:\n%s\nrecorded:\n%s", p.name, python, out, p.want)
		}
	}
}

func record(t *testing.T, written *txtar.Archive, programs []pyProgram) {
	var files []txtar.File
	generated := &txtar.Archive{Comment: []byte("What Python does with the programs of pygen_test.go.\n\n")}
	for _, p := range programs {
		switch out := []byte(p.want); {
		case !strings.HasPrefix(p.name, "generated-"):
			files = append(files, txtar.File{Name: p.name + ".py", Data: []byte(p.code)}, txtar.File{Name: p.name + ".out", Data: out})
		case len(generated.Files) < generatedPrograms:
			generated.Files = append(generated.Files, txtar.File{Name: p.name, Data: out})
		}
	}
	written.Files = files
	for path, archive := range map[string]*txtar.Archive{"programs": written, "generated": generated} {
		if err := os.WriteFile("testdata/python/"+path+".txtar", txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var unboundMessage = regexp.MustCompile(`^local variable (\S+) referenced before assignment( \(.*\))?$`)

// dialectOutcome returns the outcome in the format of harness.py.
func dialectOutcome(code string) string {
	host := &fakeHost{}
	_, err := Run(abi.Request{Op: abi.OpRun, Name: "program", Code: code, Servers: testServers}, host)
	var out strings.Builder
	for line := range strings.Lines(host.log.String()) {
		out.WriteString(strings.TrimPrefix(line, "0 "))
	}
	switch {
	case err == nil:
		if out.Len() == 0 {
			out.WriteByte('\n')
		}
	case err.Type != abi.ErrRuntime && err.Type != abi.ErrTool:
		fmt.Fprintf(&out, "%s: %s\n", err.Type, err.Message)
	case unboundMessage.MatchString(err.Message):
		fmt.Fprintf(&out, "!unbound %s\n", unboundMessage.FindStringSubmatch(err.Message)[1])
	case err.Call != nil || strings.HasPrefix(err.Message, "#"):
		fmt.Fprintf(&out, "!raised %s\n", err.Message)
	default:
		out.WriteString("!runtime\n")
	}
	return out.String()
}

// numbered returns code with line numbers.
func numbered(code string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(code) {
		n++
		fmt.Fprintf(&b, "%3d %s", n, line)
	}
	return b.String()
}
