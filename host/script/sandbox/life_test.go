package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// guestNamed returns the guest with that name from the conformance suite, metered.
func guestNamed(t testing.TB, name string) []byte {
	t.Helper()
	cases := abitest.Cases()
	i := slices.IndexFunc(cases, func(c abitest.Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case %q", name)
	}
	return metered(cases[i].Wasm)
}

const callingGuest = "two calls, answers in any order"

func TestClose(t *testing.T) {
	for name, create := range map[string]func(Options) *Sandbox{"runs after it fail": New, "it may be closed from the start": NewClosed, "it may never have begun": NewIdle} {
		t.Run(name, func(t *testing.T) {
			s := create(Options{Guest: guestNamed(t, "result")})
			for range 2 {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Run(context.Background(), Run{Caller: &fakeCaller{}}); !errors.Is(err, ErrClosed) {
				t.Errorf("%v, want %v", err, ErrClosed)
			}
		})
	}
	t.Run("loads no guest that no run needs", func(t *testing.T) {
		dir := t.TempDir()
		if err := NewIdle(Options{CacheDir: dir}).Close(); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Errorf("%v, %v", files, err)
		}
		s := NewIdle(Options{Guest: guestNamed(t, "result")})
		defer s.Close()
		if s.base != nil {
			t.Error("it has loaded a guest before a run")
		}
		if err := s.Err(); err != nil || s.base == nil {
			t.Error(err)
		}
	})
	t.Run("stops the compile", func(t *testing.T) {
		s := New(Options{})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Err(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	t.Run("waits for runs", func(t *testing.T) {
		s := New(Options{Guest: guestNamed(t, callingGuest)})
		closed := make(chan error, 1)
		finished := false
		_, err := s.Run(context.Background(), Run{Caller: &fakeCaller{tools: func(context.Context, abi.ToolCall) abi.Answer {
			if finished {
				return abi.Answer{Err: &abi.CallError{Type: abi.ErrPermission, Server: "s", Tool: "t", Message: "no"}}
			}
			if n := s.Active(); n != 1 {
				t.Errorf("%d runs are active, want 1", n)
			}
			go func() { closed <- s.Close() }()
			for !errors.Is(s.enterAndLeave(), ErrClosed) {
				runtime.Gosched()
			}
			select {
			case <-closed:
				t.Error("closed while a run was under way")
			default:
			}
			finished = true
			return abi.Answer{Value: []byte(`"first"`)}
		}}})
		if err != nil || !finished {
			t.Error(err)
		}
		if err := <-closed; err != nil || s.Active() != 0 {
			t.Errorf("%v, %d runs are active", err, s.Active())
		}
	})
}

func (s *Sandbox) enterAndLeave() error {
	err := s.enter()
	if err == nil {
		s.exit()
	}
	return err
}

func TestCallerAtFault(t *testing.T) {
	for name, c := range map[string]struct {
		tools func(context.Context, abi.ToolCall) abi.Answer
		has   string
		stack bool
	}{
		"panics":          {func(context.Context, abi.ToolCall) abi.Answer { panic("boom") }, "panic: boom", true},
		"panics with nil": {func(context.Context, abi.ToolCall) abi.Answer { var p *abi.Answer; return *p }, "nil pointer", true},
		"answers nothing": {func(context.Context, abi.ToolCall) abi.Answer { return abi.Answer{} }, "neither value nor error from s.t", false},
		"details not JSON": {func(context.Context, abi.ToolCall) abi.Answer {
			return abi.Answer{Err: &abi.CallError{Details: []byte("{")}}
		}, "error of", false},
		"panics with slice": {func(context.Context, abi.ToolCall) abi.Answer { panic([]int{1}) }, "panic: [1]", true},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest), Log: slog.New(slog.NewTextHandler(&log, nil))})
			_, err := s.Run(context.Background(), Run{Caller: &fakeCaller{tools: c.tools}})
			var trap *TrapError
			if err == nil || errors.As(err, &trap) || !strings.Contains(err.Error(), c.has) || !strings.Contains(err.Error(), abi.FuncCallTools) {
				t.Errorf("%v, want %q", err, c.has)
			}
			if logged := strings.Contains(log.String(), "life_test.go"); logged != c.stack {
				t.Errorf("stack logged: %v, want %v: %s", logged, c.stack, log.String())
			}
		})
	}
}

// miscount returns one answer, for any number of calls.
type miscount struct{ fakeCaller }

func (*miscount) CallTools(context.Context, []abi.ToolCall) []abi.Answer {
	return []abi.Answer{{Value: []byte("1")}}
}

func TestCallerMiscounts(t *testing.T) {
	s := newSandbox(t, Options{Guest: guestNamed(t, callingGuest)})
	_, err := s.Run(context.Background(), Run{Caller: &miscount{}})
	if err == nil || !strings.Contains(err.Error(), "1 answers to 2 calls") {
		t.Error(err)
	}
}

// cacheFiles lists the files in the cache, without the lock: paths with their times of
// change.
func cacheFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == lockName {
			return err
		}
		info, err := d.Info()
		files[path] = info.ModTime().String()
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// runCached runs a guest in a sandbox with a cache and returns the log.
func runCached(t *testing.T, dir string) string {
	t.Helper()
	var log bytes.Buffer
	s := New(Options{Guest: guestNamed(t, "result"), CacheDir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	out, err := s.Run(context.Background(), Run{Caller: &fakeCaller{}})
	if err != nil || out.Result == nil {
		t.Errorf("%v, %+v", err, out)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return log.String()
}

func TestCache(t *testing.T) {
	t.Run("of guests that are no longer used goes", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, age := range map[string]time.Duration{"guest-old": unusedAfter + time.Hour, "guest-new": time.Hour, "mine": unusedAfter * 2} {
			path := filepath.Join(dir, name)
			used := time.Now().Add(-age)
			if err := errors.Join(os.Mkdir(path, 0o700), os.Chtimes(path, used, used)); err != nil {
				t.Fatal(err)
			}
		}
		runCached(t, dir)
		for name, want := range map[string]bool{"guest-old": false, "guest-new": true, "mine": true} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
				t.Errorf("%s is still there: %v, want %v", name, err == nil, want)
			}
		}
	})
	t.Run("is made and used", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		if log := runCached(t, dir); log != "" {
			t.Error(log)
		}
		first := cacheFiles(t, dir)
		if len(first) != 4 { // the code and the skeleton, and their checksums
			t.Fatalf("files %v", first)
		}
		if info, err := os.Stat(dir); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if log := runCached(t, dir); log != "" {
			t.Error(log)
		}
		for path, changed := range cacheFiles(t, dir) {
			if first[path] != changed {
				t.Errorf("%s was written again", path)
			}
		}
	})
	for name, damage := range map[string]func(t *testing.T, code string) error{
		"cut short": func(_ *testing.T, code string) error { return os.Truncate(code, 50) },
		"one bit": func(t *testing.T, code string) error {
			b, err := os.ReadFile(code)
			if err != nil {
				t.Fatal(err)
			}
			b[len(b)/3] ^= 1
			return os.WriteFile(code, b, 0o600)
		},
		"no checksum":      func(_ *testing.T, code string) error { return os.Remove(code + sumSuffix) },
		"another checksum": func(_ *testing.T, code string) error { return os.WriteFile(code+sumSuffix, []byte("0\n"), 0o600) },
	} {
		t.Run("damaged: "+name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			runCached(t, dir)
			for path := range cacheFiles(t, dir) {
				if !strings.HasSuffix(path, sumSuffix) {
					if err := damage(t, path); err != nil {
						t.Fatal(err)
					}
				}
			}
			if log := runCached(t, dir); !strings.Contains(log, "was damaged") {
				t.Errorf("logged %q", log)
			}
			if log := runCached(t, dir); log != "" {
				t.Errorf("the damage stays: %s", log)
			}
		})
	}
	t.Run("left-overs", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "cache")
		runCached(t, dir)
		old := time.Now().Add(-2 * staleAfter)
		var made []string
		for path := range cacheFiles(t, dir) {
			if strings.HasSuffix(path, sumSuffix) {
				continue
			}
			for name, at := range map[string]time.Time{".1.tmp": old, ".2.tmp": time.Now(), "00" + sumSuffix: time.Now()} {
				if err := errors.Join(os.WriteFile(path+name, nil, 0o600), os.Chtimes(path+name, at, at)); err != nil {
					t.Fatal(err)
				}
				made = append(made, path+name)
			}
		}
		if log := runCached(t, dir); log != "" {
			t.Error(log)
		}
		files := cacheFiles(t, dir)
		for _, path := range made {
			if _, is := files[path]; is != strings.HasSuffix(path, ".2.tmp") {
				t.Errorf("%s: kept %v", path, is)
			}
		}
	})
	t.Run("not a directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if log := runCached(t, dir); !strings.Contains(log, "without a compilation cache") {
			t.Errorf("logged %q", log)
		}
	})
	t.Run("open to others", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("file modes say nothing there")
		}
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if log := runCached(t, dir); !strings.Contains(log, "gives others access") {
			t.Errorf("logged %q", log)
		}
		if files := cacheFiles(t, dir); len(files) > 0 {
			t.Errorf("files %v", files)
		}
	})
}
