package wire

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// otherReader is a process that reads messages for us; see testdata/readers.
type otherReader struct {
	name  string
	found []int // the strings found so far, for each way of reading
	mu    sync.Mutex
	in    io.WriteCloser
	out   *bufio.Reader
}

// startReaders starts the readers in other languages and with other libraries, if they
// are requested; then all of them must be installed. They end with the test.
func startReaders(f testing.TB) (all []*otherReader) {
	if os.Getenv("METATOOL_READERS") == "" {
		return nil
	}
	f.Helper()
	dir := filepath.Join("testdata", "readers")
	head, _ := json.Marshal(paths)
	for _, command := range [][]string{
		{"node", filepath.Join(dir, "reader.js")}, {"python3", filepath.Join(dir, "reader.py")}, {buildReader(f, filepath.Join(dir, "go"))},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			f.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			f.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			f.Fatal(err)
		}
		f.Cleanup(func() {
			in.Close()
			if err := cmd.Wait(); err != nil {
				f.Errorf("%s: %v", command[0], err)
			}
		})
		if _, err := in.Write(append(head, '\n')); err != nil {
			f.Fatal(err)
		}
		all = append(all, &otherReader{name: filepath.Base(command[0]), in: in, out: bufio.NewReader(out)})
	}
	return all
}

// buildReader builds the reader in Go, which is a module with its own dependencies, and
// returns its path.
func buildReader(f testing.TB, dir string) string {
	f.Helper()
	path := filepath.Join(f.TempDir(), "go-reader")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOEXPERIMENT=jsonv2")
	if out, err := build.CombinedOutput(); err != nil {
		f.Fatalf("building the reader in Go: %v\n%s", err, out)
	}
	return path
}

// read lets the reader read a message, given as a line, in all its ways. Each value
// found is a string, nil for anything else, or true if the reader does not support
// that path.
func (o *otherReader) read(t *testing.T, line []byte) (found [][]any) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.in.Write(line); err != nil {
		t.Fatal(err)
	}
	answer, err := o.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(answer, &found); err != nil {
		t.Fatalf("%s cannot read %s: %s", o.name, line, answer)
	}
	if o.found == nil {
		o.found = make([]int, len(found))
	}
	for i, all := range found {
		for _, value := range all {
			if text, ok := value.(string); ok && text != "" {
				o.found[i]++
			}
		}
	}
	return found
}
