package smoke

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/guestcache"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
)

// The test binary is a server of mcptest when a configuration starts it as one.
func init() { mcptest.Main() }

var update = flag.Bool("update", false, "write the actual output into testdata as the expected output")

// cache keeps the compiled guest for all tests.
var cache string

func TestMain(m *testing.M) {
	cache = guestcache.Dir()
	_ = flag.Set("test.parallel", "4") // parallel tests wait most of the time
	sandboxtest.Main(m)
}

// sharing returns Options.newSandbox with the guest of all tests: loading another takes longer
// than most of them.
func sharing(t *testing.T) func(sandbox.Options) *sandbox.Sandbox {
	guest := sandboxtest.Guest(t)
	return func(opts sandbox.Options) *sandbox.Sandbox {
		shared, err := guest.Share(opts)
		if err != nil {
			t.Error(err)
			return sandbox.NewClosed(opts)
		}
		return shared
	}
}

// TestArchives runs the checks of each testdata/*.txtar. It compares the text report with
// the file want, and files with those below after/. The comment has directives, one per
// line, such as "flag NAME VALUE" and "env NAME=VALUE"; $EXE is a server of mcptest.
func TestArchives(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			a := newArchive(t, archive)
			got := a.run(t)
			if *update {
				a.write(t, name, got)
				return
			}
			for _, f := range archive.Files {
				switch after, ok := strings.CutPrefix(f.Name, "after/"); {
				case f.Name == "want" && got != string(f.Data):
					t.Errorf("got:\n%s\nwant:\n%s", got, f.Data)
				case ok && a.read(t, after) != string(f.Data):
					t.Errorf("%s is now:\n%s\nwant:\n%s", after, a.read(t, after), f.Data)
				}
			}
		})
	}
}

// archive is a txtar archive, extracted to a directory.
type archive struct {
	*txtar.Archive
	dir     string
	options Options
	paths   []string
	env     map[string]string
	notes   []string // what Options.Note was called with
}

func newArchive(t *testing.T, from *txtar.Archive) *archive {
	a := &archive{Archive: from, dir: t.TempDir(), env: map[string]string{"PATH": os.Getenv("PATH")}}
	a.options = Options{Version: "test", CacheDir: cache, newSandbox: sharing(t), Wrote: func(string, string) {}, Load: LoadOptions{Load: a.load()}}
	a.options.Note = func(path, text string) { a.notes = append(a.notes, "note: "+path+": "+text+"\n") }
	for line := range strings.Lines(string(from.Comment)) {
		a.directive(t, strings.TrimSpace(line))
	}
	for _, f := range from.Files {
		if f.Name != "want" && !strings.HasPrefix(f.Name, "after/") {
			path := filepath.Join(a.dir, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(a.fillIn(t, string(f.Data))), 0o600); err != nil {
				t.Fatal(err)
			}
			if isCheckFile(f.Name) {
				a.paths = append(a.paths, path)
			}
		}
	}
	return a
}

// load returns options that find configuration only in the archive.
func (a *archive) load() config.LoadOptions {
	a.env[config.EnvDir] = filepath.Join(a.dir, "store")
	return config.LoadOptions{
		Getenv: func(name string) (string, bool) { v, ok := a.env[name]; return v, ok },
		Home:   func() (string, error) { return a.dir, nil },
	}
}

func (a *archive) directive(t *testing.T, line string) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "env":
		name, value, _ := strings.Cut(rest, "=")
		a.env[name] = value
	case "record":
		a.options.Record = true
	case "update":
		a.options.Update = true
	case "fail-fast":
		a.options.FailFast = true
	case "offline":
		a.options.Load.Offline = true
	case "profile":
		a.options.Load.Profile = rest
	case "config":
		a.options.Load.Config = filepath.Join(a.dir, rest)
	case "var":
		name, value, err := ParseVar(rest)
		if err != nil {
			t.Fatal(err)
		}
		if a.options.Load.Vars == nil {
			a.options.Load.Vars = map[string][]byte{}
		}
		a.options.Load.Vars[name] = value
	case "tag":
		var err error
		if a.options.Tags, err = ParseTags(strings.Fields(rest)); err != nil {
			t.Fatal(err)
		}
	case "jobs":
		n, err := strconv.Atoi(rest)
		if err != nil {
			t.Fatal(err)
		}
		a.options.Jobs = n
	case "filter":
		var err error
		if a.options.Filter, err = ParseFilter(rest); err != nil {
			t.Fatal(err)
		}
	case "timeout":
		d, err := time.ParseDuration(rest)
		if err != nil {
			t.Fatal(err)
		}
		a.options.Timeout = d
	}
}

// fillIn replaces the placeholders in a file.
func (a *archive) fillIn(t *testing.T, text string) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// In TOML, a backslash in a basic string is an escape.
	return strings.NewReplacer("$EXE", filepath.ToSlash(exe), "$SERVER", mcptest.Env).Replace(text)
}

// blankOut is the opposite of fillIn.
func (a *archive) blankOut(t *testing.T, text string) string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(a.dir+string(filepath.Separator), "", exe, "$EXE", filepath.ToSlash(exe), "$EXE",
		mcptest.Env, "$SERVER", "The system cannot find the file specified.", "no such file or directory").Replace(text)
}

func (a *archive) read(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(a.dir, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return a.blankOut(t, string(text))
}

var (
	durations = regexp.MustCompile(` \([0-9.]+m?s\)`)
	measured  = regexp.MustCompile(`\b[0-9.]+(ms|s|µs)( later|, before)|got: +\d+( units|[KM]iB)|got: +[0-9.]+m?s`)
)

// run runs the checks and returns the report.
func (a *archive) run(t *testing.T) string {
	var out bytes.Buffer
	w, err := report.New("text", &out, report.Options{Getenv: func(string) string { return "" }, Verbose: true})
	if err != nil {
		t.Fatal(err)
	}
	runner := NewRunner(a.options)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	summary, err := runner.Run(ctx, a.paths, w)
	if err != nil {
		out.WriteString("error: " + err.Error() + "\n")
	}
	for _, note := range a.notes {
		out.WriteString(note)
	}
	if err := w.Close(summary); err != nil {
		t.Error(err)
	}
	if err := runner.Close(); err != nil {
		t.Error(err)
	}
	text := durations.ReplaceAllString(a.blankOut(t, out.String()), "")
	return measured.ReplaceAllString(text, "T$2")
}

// write replaces the expected files in the archive by the actual ones.
func (a *archive) write(t *testing.T, path, got string) {
	for i, f := range a.Files {
		if after, ok := strings.CutPrefix(f.Name, "after/"); ok {
			a.Files[i].Data = []byte(a.read(t, after))
		}
		if f.Name == "want" {
			a.Files[i].Data = []byte(got)
		}
	}
	if err := os.WriteFile(path, txtar.Format(a.Archive), 0o644); err != nil {
		t.Fatal(err)
	}
}
