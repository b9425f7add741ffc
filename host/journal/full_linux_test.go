package journal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func init() { limitedChild = recordLimited }

// aloneEnv is set in the process in which TestDiskFull is the only test.
const aloneEnv = "JOURNAL_TEST_ALONE"

// TestDiskFull checks writing when the operating system reports that there is no room.
// It runs in a process of its own that may not write to files: in this one, go test
// itself writes to a file while tests run, which it keeps with the cached result.
func TestDiskFull(t *testing.T) {
	if os.Getenv(aloneEnv) != "" {
		diskFull(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run", "^TestDiskFull$")
	cmd.Env = append(os.Environ(), aloneEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDiskFull") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func diskFull(t *testing.T) {
	dir := t.TempDir()
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	was := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	room := func(size uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
	}
	room(0)
	defer room(was.Cur)
	now := newClock()
	var all troubleLog
	l := openLog(t, dir, LogOptions{Now: now.now, Required: true, Trouble: all.add})
	if _, err := l.Open(Begin{}); !errors.Is(err, unix.EFBIG) {
		t.Errorf("a run is opened: %v", err)
	}
	l.Configure(LogOptions{Now: now.now, Trouble: all.add, Log: quiet()})
	record(t, l, "unrecorded")
	if len(all) != 1 || !errors.Is(all[0], unix.EFBIG) {
		t.Errorf("reported %v", all)
	}
	room(was.Cur)
	now.add(retryAfter)
	record(t, l, "recorded")
	runs, faults := scan(dir, Filter{})
	if len(runs) != 1 || runs[0].Definition.Name != "recorded" || len(faults) > 0 || len(all) != 2 {
		t.Errorf("%+v, %v; reported %v", runs, faults, all)
	}
}

// TestPartialLine checks that a line is removed again if only part of it could be
// written for lack of room. The child process has a limit on the size of its files.
func TestPartialLine(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+dir, limitEnv+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "journal-2026-11-21.jsonl"))
	if err != nil || len(data) == 0 || len(data) > fileLimit || data[len(data)-1] != '\n' {
		t.Errorf("%d bytes, %v, end %q", len(data), err, data[max(0, len(data)-10):])
	}
	runs, faults := scan(dir, Filter{})
	if len(faults) > 0 || len(runs) < 3 || runs[0].Definition.Name != "after" || !runs[0].Done {
		t.Errorf("%d runs, %v", len(runs), faults)
	}
}

// fileLimit is the largest file, in bytes, that the child process can write.
const fileLimit = 3000

// recordLimited records runs until that fails, then one more in a file with room.
func recordLimited(dir string) error {
	signal.Ignore(unix.SIGXFSZ)
	was := unix.Rlimit{}
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileLimit, Max: was.Max}); err != nil {
		return err
	}
	var all troubleLog
	now := newClock()
	l := OpenLog(dir, LogOptions{Now: now.now, Trouble: all.add, Log: quiet()})
	run := func(name string) {
		r, _ := l.Open(Begin{Definition: tools.Definition{Name: name}}) // not required
		r.OpenCall(abi.ToolCall{}, "s", "t").Close(Answer{Value: []byte("1")})
		r.Close(Outcome{})
	}
	for i := 0; len(all) == 0; i++ {
		if i == 100 {
			return errors.New("no write has failed")
		}
		run("before")
	}
	if !errors.Is(all[0], unix.EFBIG) && !errors.Is(all[0], unix.ENOSPC) {
		return fmt.Errorf("failed with %w", all[0])
	}
	// The next day has another file, which has room.
	now.add(24 * time.Hour)
	run("after")
	return l.Close()
}
