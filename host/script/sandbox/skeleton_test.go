package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

// filledCache returns a cache with the native code of a small guest, and the guest.
func filledCache(t *testing.T) (*compileCache, []byte) {
	t.Helper()
	guest := guestNamed(t, "result")
	parent := filepath.Join(t.TempDir(), "cache")
	c, _, err := openCache(parent, sha256.Sum256(guest))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.load(t.Context()); !errors.Is(err, errNotCached) {
		t.Fatalf("from an empty cache: %v", err)
	}
	if err := c.fill(t.Context(), guest); err != nil {
		t.Fatal(err)
	}
	return c, guest
}

// runs checks that a program runs the code of the guest, not of the skeleton.
func (p *program) runs(t *testing.T) {
	t.Helper()
	s, err := p.boot(context.Background(), nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	i := newInstance(Run{Caller: &fakeCaller{}}, s.pool.log)
	out, err := i.run(t.Context(), s)
	if err != nil || string(out.Result) != `{"a":1e400}` {
		t.Errorf("%s, %v", out.Result, err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestCachedCode checks that a program from the cache runs the guest, and that native code
// of the skeleton never gets to the cache, also if there is none for this system.
func TestCachedCode(t *testing.T) {
	c, guest := filledCache(t)
	p, err := c.load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(p.guest) >= len(guest) || p.cache != c {
		t.Errorf("the program has %d bytes of the guest's %d", len(p.guest), len(guest))
	}
	p.runs(t)
	files, err := c.codeFiles()
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	before, err := os.ReadFile(filepath.Join(c.dir, files[0]))
	if err != nil {
		t.Fatal(err)
	}

	other := files[0] + "0" // as for another set of CPU features
	if err := os.Rename(filepath.Join(c.dir, files[0]), filepath.Join(c.dir, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.load(t.Context()); !errors.Is(err, errNotCached) {
		t.Errorf("for another system: %v", err)
	}
	if now, err := c.codeFiles(); err != nil || !slices.Equal(now, []string{other}) {
		t.Errorf("files %v, %v", now, err)
	}
	if err := c.fill(t.Context(), guest); err != nil {
		t.Fatal(err)
	}
	if now, err := c.codeFiles(); err != nil || !slices.Equal(now, []string{files[0], other}) {
		t.Errorf("files %v, %v", now, err)
	}
	if after, err := os.ReadFile(filepath.Join(c.dir, files[0])); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the code differs, %v", err)
	}
	if p, err = c.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.runs(t)

	// wazero takes such a file for one of another version of its own, and removes it.
	before[len("WAZEVO")+1]++ // the first byte of the version
	if err := os.WriteFile(filepath.Join(c.dir, files[0]), before, 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := c.load(t.Context()); err == nil {
		p.runs(t)
		t.Error("it has loaded code of another version")
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.dir), tempPrefix+"*"))
	if left = slices.DeleteFunc(left, func(p string) bool { return strings.HasSuffix(p, lockName) }); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestCodeOfASkeleton checks what happens if native code of a skeleton gets to the cache
// in spite of all care: the guest is compiled again.
func TestCodeOfASkeleton(t *testing.T) {
	c, _ := filledCache(t)
	files, err := c.codeFiles()
	if err != nil {
		t.Fatal(err)
	}
	skeleton, err := os.ReadFile(filepath.Join(c.dir, skeletonName))
	if err != nil {
		t.Fatal(err)
	}
	_, code, err := compileFile(t.Context(), skeleton, filepath.Join(t.TempDir(), "own"))
	if err == nil {
		err = c.publish(files[0], code, skeleton)
	}
	if err != nil {
		t.Fatal(err)
	}
	if log := runCached(t, filepath.Dir(c.dir)); !strings.Contains(log, "does not work: compiling again") {
		t.Errorf("logged %q", log)
	}
}

// TestFillOnce checks that processes which start at the same time compile a guest once.
func TestFillOnce(t *testing.T) {
	c, guest := filledCache(t)
	files := cacheFiles(t, filepath.Dir(c.dir))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := c.fill(t.Context(), guest); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for path, changed := range cacheFiles(t, filepath.Dir(c.dir)) {
		if files[path] != changed {
			t.Errorf("%s was written again", path)
		}
	}
}

// TestSkeleton checks that all that the host looks at is the same in the skeleton of the
// embedded guest.
func TestSkeleton(t *testing.T) {
	embedded := committed(t)
	skeleton, err := rewrite.Skeleton(embedded)
	if err != nil {
		t.Fatal(err)
	}
	if len(skeleton) > len(embedded)/2 {
		t.Errorf("%d bytes, the guest has %d", len(skeleton), len(embedded))
	}
	for _, wasm := range [][]byte{embedded, skeleton} {
		if _, err := stateOf(wasm); err != nil {
			t.Error(err)
		}
	}
	a, err1 := rewrite.Interface(embedded)
	b, err2 := rewrite.Interface(skeleton)
	if err1 != nil || err2 != nil || !slices.Equal(a, b) {
		t.Errorf("other interface: %v, %v", err1, err2)
	}
	ra, err1 := rewrite.Restorable(embedded)
	rb, err2 := rewrite.Restorable(skeleton)
	if err1 != nil || err2 != nil || ra != rb {
		t.Errorf("restorable: %t and %t; %v, %v", ra, rb, err1, err2)
	}
	sa, err1 := rewrite.Segments(embedded)
	sb, err2 := rewrite.Segments(skeleton)
	if err1 != nil || err2 != nil || len(sa) == 0 || !slices.EqualFunc(sa, sb, func(x, y rewrite.Segment) bool {
		return x.Offset == y.Offset && bytes.Equal(x.Bytes, y.Bytes)
	}) {
		t.Errorf("other data: %v, %v", err1, err2)
	}
}
