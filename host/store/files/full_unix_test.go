//go:build unix

package files

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
)

// aloneEnv is set in the process in which TestDiskFull is the only test: files cannot get
// large there, and go test itself writes to some.
const aloneEnv = "STORE_FILES_TEST_ALONE"

// TestDiskFull lets the operating system say at every size of the files that there is no room.
func TestDiskFull(t *testing.T) {
	t.Parallel()
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
	defer room(was.Cur)
	now := time.Now()
	dir := t.TempDir()
	s := open(t, dir, journal.LogOptions{Now: func() time.Time { return now }})
	log := store.NewID().String()
	var at store.Position
	var attempts []storetest.Attempt
	refused := 0
	for size := uint64(0); size < 3000; size += 13 {
		now = now.Add(time.Minute) // the journal waits before it tries again
		e := store.Entry{After: at, ID: store.NewID(), Data: []byte(strings.Repeat("x", int(size%97)+1))}
		a := storetest.Attempt{ID: e.ID, Number: at.Number + 1}
		room(size)
		next, err := s.Append(t.Context(), log, e)
		_, putErr := s.Put(t.Context(), store.Key{Collection: "full", Name: "a"}, "", make([]byte, size+1))
		_, blobErr := s.PutBlob(t.Context(), make([]byte, size+1))
		room(was.Cur)
		for _, err := range []error{putErr, blobErr} {
			if !errors.Is(err, store.ErrFull) {
				t.Fatalf("%d bytes: %v", size+1, err)
			}
		}
		switch {
		case err == nil:
			a.Written, at = true, next
		case errors.Is(err, store.ErrFull):
			refused++
		default:
			t.Fatal(err)
		}
		attempts = append(attempts, a)
	}
	c := storetest.Check(t, s, log, attempts)
	if refused == 0 || c.Written == 0 {
		t.Fatal(c)
	}
	at = storetest.Write(t, s, log, at, 0, "there is room again")
	if _, err := s.Put(t.Context(), store.Key{Collection: "full", Name: "a"}, "", nil); err != nil {
		t.Fatal(err)
	}
	t.Log(c)
}
