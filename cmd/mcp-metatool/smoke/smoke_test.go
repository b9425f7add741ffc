package smoke

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestSmokeWatch checks that the checks are run again when any of their files changes.
func TestSmokeWatch(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.toml", "[[check]]\ncode = \"x.star\"\nmock = \"x.cassette.toml\"\nexpect.schema = \"s.json\"\n")
	write("s.json", "{}")
	v := &smokeView{level: cli.Silent}
	v.opts.Load.Load = config.LoadOptions{Getenv: func(string) (string, bool) { return "", false }, Home: func() (string, error) { return dir, nil }}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("too late"))
	defer cancel()
	done := errors.New("done")
	ctx, stop := context.WithCancelCause(ctx)
	rounds := make(chan []string)
	ended := make(chan error, 1)
	go func() {
		ended <- v.follow(ctx, []string{dir}, func(files []string) (int, error) {
			for i := range files {
				files[i] = filepath.Base(files[i])
			}
			select {
			case rounds <- files:
			case <-ctx.Done():
			}
			return 1, nil
		})
	}()
	for i, change := range []struct {
		name string
		want []string // files in the round after it
	}{
		{"", []string{"a.toml"}}, {"x.star", []string{"a.toml"}}, {"x.cassette.toml", []string{"a.toml"}}, {"s.json", []string{"a.toml"}},
		{"b.toml", []string{"a.toml", "b.toml"}}, // which is wrong, and that ends nothing
	} {
		if change.name != "" {
			write(change.name, "x")
		}
		var got []string
		for !slices.Equal(got, change.want) { // a change may be seen in two parts, which are a round each
			select {
			case got = <-rounds:
			case <-ctx.Done():
				t.Fatalf("round %d, after a change of %s, is with %q, want %q: %v", i, change.name, got, change.want, context.Cause(ctx))
			}
		}
	}
	stop(done)
	if err := <-ended; !errors.Is(err, done) {
		t.Errorf("it ended with %v", err)
	}
}
