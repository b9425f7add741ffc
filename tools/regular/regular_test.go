package regular_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	content := strings.Repeat("0123456789abcdef", 100_000) // more than one chunk
	size := int64(len(content))
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	for _, tt := range []struct {
		what  string
		ctx   context.Context
		file  string
		limit int64
		want  error // nil if the content can be read
		says  string
	}{
		{"whole", t.Context(), "file", size, nil, ""},
		{"no bound", t.Context(), "file", math.MaxInt64, nil, ""},
		{"a byte too many", t.Context(), "file", size - 1, &regular.SizeError{}, "is larger than 1599999 bytes"},
		{"none at all", t.Context(), "file", 0, &regular.SizeError{}, "is larger than 0 bytes"},
		{"context has ended", ended, "file", size, enough, "enough"},
		{"not there", t.Context(), "none", size, fs.ErrNotExist, "none"},
		{"a folder", t.Context(), ".", size, regular.ErrNotRegular, "is a directory"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			data, err := regular.Read(tt.ctx, filepath.Join(dir, tt.file), tt.limit)
			below, errBelow := regular.ReadIn(tt.ctx, root, tt.file, tt.limit)
			if tt.want == nil {
				if err != nil || errBelow != nil || string(data) != content || !bytes.Equal(data, below) {
					t.Errorf("%d and %d bytes of %d, %v, %v", len(data), len(below), size, err, errBelow)
				}
				return
			}
			for _, err := range []error{err, errBelow} {
				if _, sized := tt.want.(*regular.SizeError); sized {
					if got := new(regular.SizeError); !errors.As(err, &got) || got.Limit != tt.limit {
						t.Errorf("%v, want a *SizeError with %d", err, tt.limit)
					}
				} else if !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v does not say %q", err, tt.says)
				}
			}
		})
	}
}

// growing is an endless reader that counts the bytes read from it.
type growing struct{ taken int64 }

func (g *growing) Read(p []byte) (int, error) {
	g.taken += int64(len(p))
	return len(p), nil
}

func TestReadAllStopsAtTheLimit(t *testing.T) {
	const limit = 3 << 20
	g := &growing{}
	_, err := regular.ReadAll(t.Context(), g, limit)
	if sized := new(regular.SizeError); !errors.As(err, &sized) || sized.Limit != limit {
		t.Fatalf("error %v", err)
	}
	if g.taken != limit+1 {
		t.Errorf("%d bytes were taken, want %d", g.taken, limit+1)
	}
}

// cancelling cancels a context when a number of bytes has been read.
type cancelling struct {
	growing
	after  int64
	cancel context.CancelFunc
}

func (c *cancelling) Read(p []byte) (int, error) {
	if c.taken >= c.after {
		c.cancel()
	}
	return c.growing.Read(p)
}

func TestReadAllEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &cancelling{after: 10 << 20, cancel: cancel}
	_, err := regular.ReadAll(ctx, c, math.MaxInt64)
	if !errors.Is(err, context.Canceled) || c.taken > 12<<20 {
		t.Errorf("error %v after %d bytes", err, c.taken)
	}
}

func TestReadInStaysBelow(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "secret")
	below := filepath.Join(dir, "below")
	if err := errors.Join(os.Mkdir(below, 0o700), os.WriteFile(outside, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(below, "own"), []byte("own"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("../secret", filepath.Join(below, "out")), os.Symlink("own", filepath.Join(below, "in"))); err != nil {
		t.Skip("links cannot be made here:", err)
	}
	root, err := os.OpenRoot(below)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"out", "../secret", outside} {
		if data, err := regular.ReadIn(t.Context(), root, name, 100); err == nil {
			t.Errorf("%s gives %q", name, data)
		}
	}
	if data, err := regular.ReadIn(t.Context(), root, "in", 100); err != nil || string(data) != "own" {
		t.Errorf("a link that stays below gives %q, %v", data, err)
	}
}
