package journal

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// childEnv is set in child processes of the tests, to the directory of the journal
// that they write.
const childEnv = "JOURNAL_TEST_DIR"

// limitEnv is set in child processes that are to run out of room.
const limitEnv = "JOURNAL_TEST_LIMITED"

// limitedChild is what such a child process does, on systems where that is possible.
var limitedChild func(dir string) error

// childRuns is the number of runs that a child process records.
const childRuns = 40

// runChild begins a run, prints its process id, and waits for the end of its input
// before it ends that run and records the others.
func runChild() int {
	if os.Getenv(limitEnv) != "" {
		if err := limitedChild(os.Getenv(childEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	l := OpenLog(os.Getenv(childEnv), LogOptions{MaxSize: 16 << 10})
	for i := range childRuns {
		r, err := l.Open(Begin{Definition: tools.Definition{Name: fmt.Sprint(os.Getpid())}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c := r.OpenCall(abi.ToolCall{Server: "s", Tool: "t"}, "s", "t")
		r.OpenCall(abi.ToolCall{Server: "s", Tool: "t"}, "s", "answered").Close(Answer{Value: []byte("1")})
		if i == 0 {
			fmt.Println("ready")
			io.Copy(io.Discard, os.Stdin)
		}
		c.Close(Answer{Value: fmt.Appendf(nil, "[%d]", i)})
		r.Close(Outcome{Result: []byte("1")})
	}
	if err := l.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a child process that waits.
type child struct {
	*exec.Cmd
	in io.Closer
}

func startChild(t *testing.T, dir string) child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	return child{cmd, in}
}

// TestProcesses checks that several processes can write to one directory at the same
// time.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	var all []child
	for range 3 {
		all = append(all, startChild(t, dir))
	}
	for _, c := range all { // all have begun
		c.in.Close()
	}
	want := map[string]int{}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
		want[fmt.Sprint(c.Process.Pid)] = childRuns
	}
	runs, faults := scan(dir, Filter{Outcome: OK})
	if len(faults) > 0 {
		t.Error(faults)
	}
	ids := []string{}
	for _, r := range runs {
		want[r.Definition.Name]--
		ids = append(ids, r.ID)
		if len(r.Calls) != 2 || !r.Calls[0].Done {
			t.Errorf("run %+v", r)
		}
	}
	for pid, missing := range want {
		if missing != 0 {
			t.Errorf("process %s: %d runs are missing", pid, missing)
		}
	}
	slices.Reverse(ids)
	if !slices.IsSorted(ids) {
		t.Error("the newest are not the first")
	}
	files, err := listFiles(dir)
	writers := map[string]bool{}
	for _, f := range files {
		writers[f.writer] = true
	}
	if err != nil || len(writers) != 3 || !writers[""] || len(files) < 6 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestKilled checks that the events of a run survive when its process is killed, and
// that the next process appends to the same file.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	c := startChild(t, dir)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.Wait() // says that it was killed
	l := openLog(t, dir, LogOptions{})
	begin(t, l, Begin{}).Close(Outcome{})
	runs, faults := scan(dir, Filter{})
	if len(runs) != 2 || len(faults) != 0 {
		t.Fatalf("%+v, %v", runs, faults)
	}
	killed := runs[1]
	if killed.Done || killed.OutcomeName() != Unfinished || len(killed.Calls) != 2 || killed.Calls[0].Done || !killed.Calls[1].Done {
		t.Errorf("the run that was killed: %+v", killed)
	}
	if files, err := listFiles(dir); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
}
