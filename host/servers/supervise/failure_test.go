package supervise

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// TestLastFailure checks that the last failure of an upstream is remembered, with secrets
// masked, and not written again while it repeats.
func TestLastFailure(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	if _, ok := LastFailure(store, "x"); ok {
		t.Error("there is a failure before the first")
	}
	cfg := configOf(t, config.Upstream{
		Name: "x", Transport: config.Stdio, Command: "no-such-command-s3cret", Timeout: time.Minute, Restart: config.RestartNever,
		Isolation: config.Shared, Start: config.Eager,
	})
	cfg.Secrets = []string{"s3cret"}
	cfg.Store.Dir = ServersDir(store)
	r := start(t, cfg, OneClient)
	m, err := r.sharedUpstream("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Ready(bounded(t)); err == nil {
		t.Fatal("it has started")
	}
	m.noteFailure() // the callback may be later than the error
	f, ok := LastFailure(store, "x")
	if !ok || !strings.Contains(f.Error, `command "no-such-command-****" not found`) || time.Since(f.At) > time.Minute {
		t.Errorf("%+v, %v", f, ok)
	}
	path := filepath.Join(ServersDir(store), "x"+failureFile)
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	m.noteFailure()
	if _, ok := LastFailure(store, "x"); ok {
		t.Error("the same failure is written again")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := LastFailure(store, "x"); ok {
		t.Error("a damaged file is read")
	}
}

// TestInvalidUpstream checks that an upstream with a mistake in the configuration is not started,
// and reports the mistake.
func TestInvalidUpstream(t *testing.T) {
	t.Parallel()
	r := start(t, configOf(t, config.Upstream{
		Name: "x", Transport: config.Stdio, Command: os.Args[0], Timeout: time.Minute, Restart: config.RestartAlways,
		Isolation: config.Shared, Start: config.Lazy,
		Invalid: &config.EntryError{Upstream: "x", Problems: []*config.Problem{{Key: `upstream "x": env.TOKEN`, Text: "env TOKEN is not set"}}},
	}), OneClient)
	m, err := r.sharedUpstream("x")
	if err != nil {
		t.Fatal(err)
	}
	const want = "its entry in the configuration is wrong: env.TOKEN: env TOKEN is not set"
	if err := m.Ready(bounded(t)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if st := m.Status(); st.State != servers.Failed || !st.RestartAt.IsZero() || st.Pid != 0 {
		t.Errorf("%+v", st)
	}
	if why, _ := r.Unavailable(nil, "x"); !strings.Contains(why, want) || strings.Contains(why, "restart =") {
		t.Error(why)
	}
}
