package tools

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// runChild runs the test binary as one of several processes. The test reads its standard
// output. It works in its working directory.
func runChild(role string) error {
	kind, arg, _ := strings.Cut(role, ":")
	switch kind {
	case "crash":
		return childSavesForever()
	case "share":
		return childShares(arg)
	case "diskfull":
		return childOnFullDisk()
	}
	return fmt.Errorf("no role %q", role)
}

func child(t *testing.T, dir, role string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childVar+"="+role)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	return cmd
}

// version returns a definition that has a version number in every part. It is large enough
// to be written in several pieces.
func version(name string, n int) Definition {
	d := tool(name)
	d.Description = strconv.Itoa(n)
	d.Code = strings.Repeat(strconv.Itoa(n)+"\n", 20_000)
	return d
}

func childSavesForever() error {
	s, err := OpenStore(".", StoreOptions{})
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for n := 1; ; n++ {
		name := "t" + strconv.Itoa(n%3)
		if _, _, err := s.Save(version(name, n)); err != nil {
			return err
		}
		s.RecordExecution(name, time.Now())
		fmt.Fprintf(out, "%s %d\n", name, n)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

// TestCrash checks that after a writer is killed, every tool has the form that it
// had reported, or a later one.
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for kill := 1; kill <= 8; kill++ {
		cmd := child(t, dir, "crash")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		reported := map[string]int{}
		in := bufio.NewScanner(out)
		read := func() {
			name, n, _ := strings.Cut(in.Text(), " ")
			reported[name], _ = strconv.Atoi(n)
		}
		for range 4 * kill { // at a different moment each time
			if !in.Scan() {
				t.Fatal("the writer ended early")
			}
			read()
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for in.Scan() { // what it reported before it was killed
			read()
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer was not killed")
		}
		s := openStore(t, dir, StoreOptions{})
		if p := s.Problems(); p != nil {
			t.Fatalf("problems: %v", p)
		}
		for name, n := range reported {
			d, err := s.Get(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := strconv.Atoi(d.Description)
			if err != nil || got < n || d.Code != version(name, got).Code {
				t.Errorf("%s is version %q, %d was reported (%d bytes of code)", name, d.Description, n, len(d.Code))
			}
			if kill%4 == 0 {
				expectWhole(t, s, name)
			}
		}
		mustSave(t, s, tool("after")) // the lock was released when its owner died
		if left, _ := filepath.Glob(filepath.Join(s.Dir(), regular.TempPrefix+"*")); left != nil {
			t.Errorf("left over: %v", left)
		}
	}
}

// expectWhole checks that all versions of a tool are forms that were saved.
func expectWhole(t *testing.T, s *Store, name string) {
	t.Helper()
	versions, err := s.History(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		n, err := strconv.Atoi(v.Definition.Description)
		if v.Problem != nil || err != nil || v.Definition.Code != version(name, n).Code {
			t.Errorf("%s: version %d is %q: %v", name, v.Number, v.Definition.Description, v.Problem)
		}
	}
}

const (
	shareRounds   = 25
	fileSizeLimit = 2000
)

// childShares saves tools of its own, and deletes every other one. Like all its siblings,
// it rewrites one tool and counts executions of another.
func childShares(id string) error {
	lockWait = 10 * time.Minute // on a busy machine, until the others are done
	s, err := OpenStore(".", StoreOptions{})
	if err != nil {
		return err
	}
	// All start at the same time, when the test closes their standard input.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	for i := range shareRounds {
		own := tool(fmt.Sprintf("own-%s-%d", id, i))
		if _, created, err := s.Save(own); err != nil || !created {
			return fmt.Errorf("save %s: created %v, %w", own.Name, created, err)
		}
		if i%2 == 1 {
			if err := s.Delete(own.Name); err != nil {
				return err
			}
		}
		if _, _, err := s.Save(version("both", i)); err != nil {
			return err
		}
		s.RecordExecution("counted", time.Now())
		s.RecordExecution("both", time.Now())
		if i%5 == 0 {
			if err := s.flush(); err != nil {
				return err
			}
		}
		if err := s.Delete("never"); !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("delete of nothing: %w", err)
		}
	}
	return s.Close()
}

func TestProcessesShareDirectory(t *testing.T) {
	t.Parallel()
	const processes = 3
	dir := t.TempDir()
	s := openStore(t, dir, StoreOptions{})
	mustSave(t, s, tool("counted"))
	var cmds []*exec.Cmd
	var start []io.Closer
	for id := range processes {
		cmd := child(t, dir, "share:"+strconv.Itoa(id))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, start = append(cmds, cmd), append(start, in)
	}
	for _, in := range start {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Errorf("child: %v", err)
		}
	}
	if p := s.Problems(); p != nil {
		t.Fatalf("problems: %v", p)
	}
	want := processes * shareRounds
	for _, name := range []string{"counted", "both"} {
		if d, err := s.Get(name); err != nil || d.Metadata.ExecutionCount != int64(want) {
			t.Errorf("%s was executed %d times, want %d (%v)", name, d.Metadata.ExecutionCount, want, err)
		}
	}
	left := map[string]bool{}
	for _, d := range s.List() {
		left[d.Name] = true
	}
	for id := range processes {
		for i := range shareRounds {
			if name := fmt.Sprintf("own-%d-%d", id, i); left[name] != (i%2 == 0) {
				t.Errorf("%s: there %v", name, left[name])
			}
		}
	}
}

// When the new form does not fit on the disk, the old one stays, counts wait, and smaller
// writes still work.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, dir, "diskfull")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "unsupported") {
		t.Skip("no file size limit on this system")
	}
	if !strings.Contains(out.String(), `tool "a": cannot be written`) || !strings.Contains(out.String(), "what was saved before is unchanged") {
		t.Errorf("error: %s", out.String())
	}
	s := openStore(t, dir, StoreOptions{})
	if d, err := s.Get("a"); err != nil || d.Code != "return 1" || d.Metadata.ExecutionCount != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
	if versions, err := s.History("a"); err != nil || len(versions) > 0 {
		t.Errorf("versions %+v, %v", versions, err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Dir(), regular.TempPrefix+"*")); left != nil {
		t.Errorf("left over: %v", left)
	}
}

func childOnFullDisk() error {
	s, err := OpenStore(".", StoreOptions{})
	if err != nil {
		return err
	}
	if _, _, err := s.Save(tool("a")); err != nil {
		return err
	}
	s.RecordExecution("a", time.Now())
	if !limitFileSize() {
		fmt.Println("unsupported")
		return nil
	}
	_, _, err = s.Save(version("a", 1))
	fmt.Println(err)
	return s.Close()
}
