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
	name string
	mu   sync.Mutex
	in   io.WriteCloser
	out  *bufio.Reader
}

// startReaders starts the readers in other languages that are asked for and
// installed. They end with the test.
func startReaders(f testing.TB) (all []*otherReader) {
	if os.Getenv("METATOOL_READERS") == "" {
		return nil
	}
	head, _ := json.Marshal(paths)
	for _, command := range [][]string{{"node", "reader.js"}, {"python3", "reader.py"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			f.Logf("%s does not read: %v", command[0], err)
			continue
		}
		cmd := exec.Command(command[0], filepath.Join("testdata", "readers", command[1]))
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
		all = append(all, &otherReader{name: command[0], in: in, out: bufio.NewReader(out)})
	}
	return all
}

// read has a message, a line, read in all the ways that the reader has.
func (o *otherReader) read(t *testing.T, line []byte) (found []view) {
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
	return found
}
