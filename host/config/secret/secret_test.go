package secret

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// TestMain makes this binary the commands of the tests.
func TestMain(m *testing.M) {
	signIfAsked()
	if len(os.Args) > 2 && os.Args[1] == "command" {
		os.Exit(command(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

func command(mode string) int {
	switch mode {
	case "print":
		fmt.Println(os.Getenv("VALUE"))
	case "windows":
		fmt.Print("value\r\n")
	case "lines":
		fmt.Print("one\ntwo\n\n")
	case "nothing":
		fmt.Println()
	case "nul":
		fmt.Print("va\x00lue")
	case "much":
		fmt.Print(strings.Repeat("x", maxValue+1))
	case "fail":
		fmt.Println("the-val\"ue")
		fmt.Fprintln(os.Stderr, strings.Repeat("-", maxComplaint), "is the-val\"ue locked?")
		return 3
	case "hang":
		_, _ = os.Stderr.WriteString("asking")
		time.Sleep(time.Hour)
	case "input":
		n, err := io.Copy(io.Discard, os.Stdin)
		fmt.Println("input", n, err)
	case "where":
		dir, _ := os.Getwd()
		fmt.Println(filepath.Base(dir))
	}
	return 0
}

// reference returns a reference to the output of a command of this binary.
func reference(t *testing.T, mode string) config.Reference {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return config.Reference{Kind: config.FromCommand, Text: "'" + program + "' command " + mode, Path: t.TempDir()}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestCommand(t *testing.T) {
	t.Setenv("VALUE", "a value")
	for _, tt := range []struct{ mode, want, bad string }{
		{"print", "a value", ""},
		{"windows", "value", ""},
		{"lines", "one\ntwo\n", ""}, // one line break is no part of it
		{"input", "input 0 <nil>", ""},
		{"nothing", "", ": the value is empty"},
		{"nul", "", ": the value has a NUL character"},
		{"much", "", ": the command wrote more than 64KiB"},
		{"fail", "", ": the command failed: exit status 3; it wrote to stderr: ...---"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			got, err := NewFetcher(discard()).Fetch(t.Context(), reference(t, tt.mode))
			if got != tt.want || (err == nil) != (tt.bad == "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
				t.Errorf("got %.100q, %v", got, err)
			}
			if tt.mode == "fail" && (strings.Contains(err.Error(), "the-val") || !strings.HasSuffix(err.Error(), "- is **** locked?")) {
				t.Errorf("the error is not masked, or cut at the wrong end: %v", err)
			}
		})
	}
	r := reference(t, "where")
	if got, err := NewFetcher(discard()).Fetch(t.Context(), r); got != filepath.Base(r.Path) {
		t.Errorf("it ran in %q, %v", got, err)
	}
	r.Text = "no-such-program-anywhere"
	if _, err := NewFetcher(discard()).Fetch(t.Context(), r); err == nil || err.Error() !=
		"${cmd:no-such-program-anywhere}: the command failed: "+map[bool]string{true: "executable file not found in %PATH%", false: "executable file not found in $PATH"}[runtime.GOOS == "windows"]+" (is it installed, and in PATH?)" {
		t.Error(err)
	}
}

// TestCommandIsStopped checks that a command is killed after the time limit, and when
// nobody waits for it any more.
func TestCommandIsStopped(t *testing.T) {
	r := reference(t, "hang")
	f := newFetcher(fetcher{log: discard(), limit: 50 * time.Millisecond}.fetch)
	if _, err := f.Fetch(t.Context(), r); err == nil || !strings.Contains(err.Error(), "the command was stopped: no value within 50ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := NewFetcher(discard()).Fetch(ctx, r); !errors.Is(err, gone) {
		t.Error(err)
	}
}

// TestOneFetch checks who shares a fetch: all who wait for it, and in a round all.
func TestOneFetch(t *testing.T) {
	var fetches atomic.Int32
	began, proceed := make(chan struct{}, 10), make(chan struct{})
	f := newFetcher(func(ctx context.Context, r config.Reference) (string, error) {
		n := fetches.Add(1)
		began <- struct{}{}
		select {
		case <-proceed:
			return fmt.Sprint(r.Text, n), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	r := config.Reference{Kind: config.FromKeyring, Text: "a"}
	round := f.NewRound()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { // the one who began it does not wait for it
		_, err := round.Fetch(ctx, r)
		left <- err
	}()
	<-began
	var all sync.WaitGroup
	joined := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.fetches[r].asking
	}
	for _, source := range []Source{round, f, f, round} {
		all.Go(func() {
			if got, err := source.Fetch(t.Context(), r); got != "a1" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	for joined() < 3 || func() bool { g := round.(*group); g.mu.Lock(); defer g.mu.Unlock(); return g.fetches[r].asking < 3 }() {
		runtime.Gosched()
	}
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(proceed)
	all.Wait()
	if got, _ := round.Fetch(t.Context(), r); got != "a1" {
		t.Errorf("the round has fetched it again: %s", got)
	}
	if got, _ := f.Fetch(t.Context(), r); got != "a2" {
		t.Errorf("it was not fetched again: %s", got)
	}
	if len(f.fetches) != 0 {
		t.Errorf("%d values are kept", len(f.fetches))
	}
}

// TestAbandonedFetch checks that a fetch that nobody waits for ends, and is begun anew.
func TestAbandonedFetch(t *testing.T) {
	began := make(chan struct{}, 2)
	var ended atomic.Int32
	f := newFetcher(func(ctx context.Context, r config.Reference) (string, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended.Add(1)
		return "", ctx.Err()
	})
	for n := range int32(2) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-began; cancel() }()
		if _, err := f.NewRound().Fetch(ctx, config.Reference{}); !errors.Is(err, context.Canceled) || ended.Load() != n+1 {
			t.Errorf("%v, %d have ended", err, ended.Load())
		}
	}
}

func TestFile(t *testing.T) {
	var log strings.Builder
	f := NewFetcher(slog.New(slog.NewTextHandler(&log, nil)))
	dir := t.TempDir()
	get := func(name, content string) (string, error) {
		path := filepath.Join(dir, name)
		if content != "" {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return f.Fetch(t.Context(), config.Reference{Kind: config.FromFile, Text: name, Path: path})
	}
	if got, err := get("a", "the value\n"); got != "the value" || log.String() != "" {
		t.Errorf("got %q, %v; log: %s", got, err, &log)
	}
	if got, err := get("short", "abc"); got != "abc" || !strings.Contains(log.String(), "fewer than 4 characters") {
		t.Errorf("got %q, %v; log: %s", got, err, &log)
	}
	if err := os.Chmod(filepath.Join(dir, "a"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := get("a", ""); err != nil || runtime.GOOS != "windows" && !strings.Contains(log.String(), "other users can read the file") {
		t.Errorf("%v; log: %s", err, &log)
	}
	for name, want := range map[string]string{
		"missing": "${file:missing}: ", ".": "${file:.}: ", "large": "${file:large}: is larger than 64KiB", "empty": "${file:empty}: the value is empty",
	} {
		content := map[string]string{"large": strings.Repeat("x", maxValue+1), "empty": "\n"}[name]
		if got, err := get(name, content); err == nil || got != "" || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestKeyring(t *testing.T) {
	keyring.MockInit()
	ctx, f := t.Context(), NewFetcher(discard())
	r := config.Reference{Kind: config.FromKeyring, Text: "a/b"}
	if _, err := f.Fetch(ctx, r); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "(add it: mcp-metatool secret set a/b)") {
		t.Error(err)
	}
	if err := Set(ctx, "a/b", "value\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Fetch(ctx, r); got != "value\n" { // nothing is trimmed from what was set
		t.Errorf("got %q, %v", got, err)
	}
	for name, value := range map[string]string{"-a": "x", "": "x", "empty": "", "nul": "\x00", "large": strings.Repeat("x", maxValue+1)} {
		if err := Set(ctx, name, value); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
	if err := Remove(ctx, "a/b"); err != nil {
		t.Error(err)
	}
	if err := Remove(ctx, "a/b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	broken := errors.New("no bus")
	keyring.MockInitWithError(broken)
	var unusable *KeyringError
	if _, err := f.Fetch(ctx, r); !errors.As(err, &unusable) || !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestKeyringThatWaits checks that a use that is given up keeps others away until it is
// over.
func TestKeyringThatWaits(t *testing.T) {
	began, proceed := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-began; cancel() }()
	if _, err := inTurn(ctx, func() (string, error) { close(began); <-proceed; return "", nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := inTurn(ctx, func() (string, error) { t.Error("two at once"); return "", nil }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(proceed)
	if got, err := inTurn(t.Context(), func() (string, error) { return "x", nil }); got != "x" {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	n, ctx := NamesIn(filepath.Join(t.TempDir(), "store")), t.Context()
	if got, err := n.List(ctx); got != nil || err != nil {
		t.Error(got, err)
	}
	var all sync.WaitGroup
	for _, name := range []string{"c", "a", "b", "a"} {
		all.Go(func() {
			if err := n.Add(ctx, name); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := n.Remove(ctx, "b"); err != nil {
		t.Error(err)
	}
	if got, err := n.List(ctx); !slices.Equal(got, []string{"a", "c"}) {
		t.Error(got, err)
	}
	if err := os.WriteFile(n.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := n.List(ctx); err == nil {
		t.Error("a damaged file was accepted")
	}
}

// values is a Source with fixed values.
type values map[string]string

func (v values) Fetch(_ context.Context, r config.Reference) (string, error) {
	if value, ok := v[r.Text]; ok {
		return value, nil
	}
	return "", errors.New("none")
}

// failing is a Source that has nothing but an error.
type failing struct{ err error }

func (f failing) Fetch(context.Context, config.Reference) (string, error) { return "", f.err }

func TestFill(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.toml")
	err := os.WriteFile(name, []byte(`
[upstream.process]
command = "x"
args = ["${keyring:a}", "--x=${keyring:b}-${keyring:a}", "$${keyring:a}"]
env = { A = "${keyring:a}", B = "b" }
[upstream.remote]
url = "https://h/${keyring:a}?k=${keyring:b}"
headers = { X = "Bearer ${keyring:a}" }
[upstream.login]
url = "https://h"
oauth = { issuer = "https://h", client_id = "c", client_secret = "${keyring:b}" }
[upstream.plain]
command = "x"
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Flag: name})
	if err != nil {
		t.Fatal(err)
	}
	masker := cfg.NewMasker()
	source := values{"a": "value-a", "b": "value-b"}
	process, err := Fill(t.Context(), source, cfg, &cfg.Upstreams[0])
	if err != nil || !slices.Equal(process.Args, []string{"value-a", "--x=value-b-value-a", "${keyring:a}"}) || process.Env["A"] != "value-a" || process.Env["B"] != "b" {
		t.Errorf("%+v, %v", process, err)
	}
	if got := cfg.Upstreams[0].Args[1]; got != "--x=${keyring:b}-${keyring:a}" {
		t.Errorf("the configuration has become %s", got)
	}
	if got := masker.Mask("dmFsdWUtYQ== value-b"); got != "****== ****" && got != "**** ****" && strings.Contains(got, "value") {
		t.Errorf("not masked: %s", got)
	}
	remote, err := Fill(t.Context(), source, cfg, &cfg.Upstreams[1])
	if err != nil || remote.URL != "https://h/value-a?k=value-b" || remote.Headers["X"] != "Bearer value-a" {
		t.Errorf("%+v, %v", remote, err)
	}
	login, err := Fill(t.Context(), source, cfg, &cfg.Upstreams[2])
	if err != nil || login.OAuth.ClientSecret != "value-b" || cfg.Upstreams[2].OAuth.ClientSecret == "value-b" {
		t.Errorf("%+v, %v", login, err)
	}
	if plain, err := Fill(t.Context(), source, cfg, &cfg.Upstreams[3]); plain != &cfg.Upstreams[3] {
		t.Error(err)
	}
	for setting, bad := range map[string]values{
		"the secret in url cannot be read": {"b": "x"}, "url has a part after #": {"a": "x#y", "b": "x"}, "headers.X contains a line break": {"a": "x\ny", "b": "x"},
	} {
		if got, err := Fill(t.Context(), bad, cfg, &cfg.Upstreams[1]); got != nil || err == nil || !strings.HasPrefix(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	complaint := errors.New("the command failed; it wrote to stderr: s3cret")
	_, err = Fill(t.Context(), failing{complaint}, cfg, &cfg.Upstreams[1])
	var unreadable *Unreadable
	if !errors.As(err, &unreadable) || !errors.Is(err, complaint) || strings.Contains(err.Error(), "s3cret") || unreadable.Detail() != "url: "+complaint.Error() {
		t.Errorf("clients see: %v", err)
	}
	learn := func(i int) { cfg.Learn(cfg.Upstreams[0].References[0].Reference, fmt.Sprintf("later-value-%03d", i)) }
	for i := range 64 {
		learn(i)
	}
	learn(0) // it is used again
	learn(64)
	if got := masker.Mask("later-value-000 later-value-001 later-value-002 later-value-064"); got != "**** later-value-001 **** ****" {
		t.Errorf("the last 64 values are masked as: %s", got)
	}
}
