package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
)

// makeCode returns a region that looks like native code of wazero.
func makeCode(t *testing.T, content []byte) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, len(content), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	copy(b, content)
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_EXEC); err != nil {
		t.Fatal(err)
	}
	return b
}

// fileOf returns the file that is mapped at an address; "" if there is none.
func fileOf(t *testing.T, b []byte) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		from, _, _ := strings.Cut(fields[0], "-")
		if len(fields) == 6 && from == addressOf(b) {
			return fields[5]
		}
	}
	return ""
}

func addressOf(b []byte) string {
	const digits = "0123456789abcdef"
	text := ""
	for at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); at > 0; at /= 16 {
		text = digits[at%16:at%16+1] + text
	}
	return text
}

// TestMapCode checks that native code is mapped from a file with the same bytes, whatever
// is in the file at first, and that it stays where it is if that fails.
func TestMapCode(t *testing.T) {
	content := bytes.Repeat([]byte("native code "), 1<<18)[:2<<20]
	c := &compileCache{dir: t.TempDir()}
	path := filepath.Join(c.dir, codeName)
	for name, prepare := range map[string]func() error{
		"no file":      func() error { return nil },
		"same file":    func() error { return nil },
		"other bytes":  func() error { return os.WriteFile(path, bytes.Repeat([]byte("x"), len(content)), 0o600) },
		"other size":   func() error { return os.WriteFile(path, content[:5000], 0o600) },
		"link":         func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		"written once": func() error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			if err := prepare(); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			before := codeRegions()
			code := makeCode(t, content)
			if err := c.mapCode(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(code, content) {
				t.Fatal("the code has changed")
			}
			if got := fileOf(t, code); got != path {
				t.Errorf("mapped from %q, want %q", got, path)
			}
			if damaged, err := verifyFiles(c.dir); err != nil || damaged > 0 {
				t.Errorf("%d files damaged, %v", damaged, err)
			}
		})
	}
	t.Run("another file system", func(t *testing.T) {
		f, err := os.Open("/proc/self/maps")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := checkLocal(f); err == nil {
			t.Error("/proc is said to be local")
		}
	})
	t.Run("folder is gone", func(t *testing.T) {
		before := codeRegions()
		code := makeCode(t, content)
		gone := &compileCache{dir: filepath.Join(c.dir, "gone")}
		if err := gone.mapCode(t.Context(), before); err == nil || !bytes.Equal(code, content) || fileOf(t, code) != "" {
			t.Error(err)
		}
	})
	t.Run("closed in the middle", func(t *testing.T) {
		for name, dir := range map[string]string{"with its file": c.dir, "without a file": t.TempDir()} {
			before := codeRegions()
			code := makeCode(t, content)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			stopped := &compileCache{dir: dir}
			if err := stopped.mapCode(ctx, before); !errors.Is(err, context.Canceled) || !bytes.Equal(code, content) || fileOf(t, code) != "" {
				t.Errorf("%s: %v", name, err)
			}
			if files, err := os.ReadDir(dir); err != nil || dir != c.dir && len(files) > 0 {
				t.Errorf("%s: left %v, %v", name, files, err)
			}
		}
	})
	t.Run("small", func(t *testing.T) {
		before := codeRegions()
		code := makeCode(t, content[:64<<10])
		if err := c.mapCode(t.Context(), before); err != nil || fileOf(t, code) != "" {
			t.Error(err)
		}
	})
}

// TestLargestNew checks which range is taken for new, also if it touches old regions.
func TestLargestNew(t *testing.T) {
	set := func(all ...codeRegion) map[codeRegion]bool {
		m := map[codeRegion]bool{}
		for _, r := range all {
			m[r] = true
		}
		return m
	}
	for _, test := range []struct {
		before, now map[codeRegion]bool
		want        codeRegion
	}{
		{set(), set(), codeRegion{}},
		{set(codeRegion{10, 20}), set(codeRegion{10, 20}), codeRegion{}},
		{set(codeRegion{10, 20}), set(codeRegion{10, 20}, codeRegion{30, 35}, codeRegion{40, 42}), codeRegion{30, 35}},
		{set(codeRegion{10, 20}), set(codeRegion{10, 25}), codeRegion{20, 25}},
		{set(codeRegion{10, 20}), set(codeRegion{4, 20}), codeRegion{4, 10}},
		{set(codeRegion{10, 20}, codeRegion{26, 30}), set(codeRegion{8, 33}), codeRegion{20, 26}},
		{set(codeRegion{10, 20}), set(codeRegion{15, 18}), codeRegion{}}, // part of an old one was freed
		{set(codeRegion{10, 20}), set(codeRegion{40, 90}), codeRegion{40, 90}},
	} {
		if got := largestNew(test.before, test.now); got != test.want {
			t.Errorf("%v, %v: %v, want %v", test.before, test.now, got, test.want)
		}
	}
}

// TestLoadedTogether checks that sandboxes that are made and closed at the same time do
// not take the native code of others for their own: reading it after its owner has freed
// it ends the process.
func TestLoadedTogether(t *testing.T) {
	realSandbox(t) // the guest is in the cache now
	rounds := 1
	if *long {
		rounds = 20
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for round := range rounds {
				s := New(Options{CacheDir: guestcache.Dir()})
				if (n+round)%2 == 0 {
					if err := s.Err(); err != nil {
						t.Error(err)
					}
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
