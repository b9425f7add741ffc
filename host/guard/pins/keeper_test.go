package pins

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// proxy is a Keeper with the servers a and b, whose pins are enforced, and w, whose pins
// warn.
type proxy struct {
	*testing.T
	*Keeper
	path     string
	settings Settings
	log      *bytes.Buffer
	changed  chan struct{} // holds a token after a change
}

func newProxy(t *testing.T, path string, change ...func(*Options, *Settings)) *proxy {
	t.Helper()
	p := &proxy{T: t, path: path, log: &bytes.Buffer{}, changed: make(chan struct{}, 1)}
	p.settings = Settings{Path: path, Reserved: []string{"save_tool"}, Servers: []ServerSettings{
		{"a", "", Enforce}, {"b", "", Enforce}, {"w", "w__", Warn}, {"off", "", Off},
	}}
	var logging sync.Mutex
	opts := Options{Log: slog.New(slog.NewTextHandler(syncWriter{&logging, p.log}, nil)), OnChange: func() {
		select {
		case p.changed <- struct{}{}:
		default:
		}
	}}
	for _, f := range change {
		f(&opts, &p.settings)
	}
	p.Keeper = NewKeeper(opts)
	t.Cleanup(p.Close)
	p.Configure(p.settings)
	return p
}

// syncWriter is a buffer that several goroutines write to.
type syncWriter struct {
	mu *sync.Mutex
	b  *bytes.Buffer
}

// Write implements io.Writer.
func (w syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

// offers gives the Keeper tools of a server, each "name" or "name:description", and returns
// what it says about them: "name reason", with "!" if it is withheld.
func (p *proxy) offers(server string, tools ...string) []string {
	p.Helper()
	var items [][]byte
	for _, tool := range tools {
		name, description, _ := strings.Cut(tool, ":")
		items = append(items, wire.Marshal(map[string]string{"name": name, "description": description}))
	}
	p.Offer(server, wire.Tools, items)
	return p.says(server, items)
}

func (p *proxy) says(server string, items [][]byte) []string {
	var said []string
	for _, raw := range items {
		name, _ := wire.GetString(raw, "name")
		if f := p.Check(server, wire.Tools, name, NewDefinition(raw)); f != nil {
			line := fmt.Sprintf("%s %s", name, f.Reason)
			if f.Other != "" {
				line += " " + f.Other
			}
			if f.Withheld {
				line += "!"
			}
			said = append(said, line)
		}
	}
	return said
}

func (p *proxy) want(got []string, want ...string) {
	p.Helper()
	if !slices.Equal(got, want) {
		p.Errorf("got %q, want %q\n%s", got, want, p.log)
	}
}

func lockPath(t *testing.T) string { return filepath.Join(t.TempDir(), "tools.lock") }

func TestFirstUse(t *testing.T) {
	p := newProxy(t, lockPath(t))
	p.want(p.offers("a", "x:1", "y:1"))
	p.want(p.offers("a", "x:2", "y:1", "z:1"), "x changed!", "z new!")
	for description, accepted := range map[string]bool{"1": true, "2": false} {
		item := wire.Marshal(map[string]string{"name": "x", "description": description})
		if p.Accepts("a", wire.Tools, [][]byte{item}) != accepted {
			t.Errorf("a process with description %s", description)
		}
	}
	p.want(p.offers("a", "x:1", "y:1"))
	p.want(p.offers("a"))
	p.want(p.offers("a", "x:3"), "x changed!") // it was gone, and means something else now
	p.want(p.offers("w", "x:1"))
	p.want(p.offers("w", "x:2", "y:1"), "x changed", "y new")
	p.want(p.offers("off", "x:1"))
	p.want(p.offers("off", "x:2"))
	if p.Mode("a") != Enforce || p.Mode("off") != Off || p.Mode("none") != Off {
		t.Error("wrong modes")
	}

	// Another process reads what was written.
	q := newProxy(t, p.path)
	q.want(q.offers("a", "x:2", "y:1"), "x changed!")
	l, err := Read(t.Context(), regular.Place{Name: p.path})
	if err != nil || l.Has("off") || !l.HasItem("a", "y") {
		t.Errorf("%v: the file has %q", err, l.Servers())
	}
}

// TestListsOfOneServer checks that each list is trusted once, and lists of resources never
// written.
func TestListsOfOneServer(t *testing.T) {
	p := newProxy(t, lockPath(t))
	p.Offer("a", wire.Prompts, nil)
	p.want(p.offers("a", "x"))
	raw := []byte(`{"name":"p"}`)
	p.Offer("a", wire.Prompts, [][]byte{raw})
	if f := p.Check("a", wire.Prompts, "p", NewDefinition(raw)); f == nil || f.Reason != Unknown || !f.Withheld {
		t.Errorf("a prompt of a server that had none: %v", f)
	}
	template := []byte(`{"uriTemplate":"x://{id}","name":"t"}`)
	if f := p.Check("a", wire.Templates, "x://{id}", NewDefinition(template)); f == nil || f.Reason != Unwritten {
		t.Errorf("a template before the list was offered: %v", f)
	}
	p.Offer("a", wire.Templates, [][]byte{template})
	if f := p.Check("a", wire.Templates, "x://{id}", NewDefinition(template)); f != nil {
		t.Error(f)
	}
	resource := []byte(`{"uri":"x://1","name":"r"}`)
	p.Offer("a", wire.Resources, [][]byte{resource})
	if f := p.Check("a", wire.Resources, "x://1", NewDefinition(resource)); f != nil {
		t.Error(f)
	}
	if text, err := os.ReadFile(p.path); err != nil || strings.Contains(string(text), `"resources"`) {
		t.Errorf("%v: %s", err, text)
	}
}

func TestShadows(t *testing.T) {
	p := newProxy(t, lockPath(t))
	p.want(p.offers("b", "read_file"))
	// a is configured before b, and has come later.
	p.want(p.offers("a", "Read-File", "rеad_file", "read_file", "save_tool", "read_files"),
		"Read-File new b.read_file!", "rеad_file new b.read_file!", "read_file new b.read_file!", "save_tool new builtin.save_tool!")
	p.want(p.offers("b", "read_file"))
	p.want(p.offers("w", "read_file")) // has a prefix

	// Two tools with accepted similar names may both be used.
	l, err := Read(t.Context(), regular.Place{Name: p.path})
	if err != nil {
		t.Fatal(err)
	}
	offer := Offer{Lists: map[wire.Surface][][]byte{wire.Tools: {[]byte(`{"name":"Read-File"}`)}}}
	status := Inspect(l, p.settings, "a", offer)
	if len(status.Findings) != 2 { // and read_files is gone
		t.Fatalf("%d findings", len(status.Findings))
	}
	Accept(l, p.settings, status.Findings)
	if again := Inspect(l, p.settings, "a", offer); len(again.Findings) > 0 {
		t.Errorf("after it was accepted: %v", again.Findings[0].Text())
	}
	if err := l.Write(regular.Place{Name: p.path}); err != nil {
		t.Fatal(err)
	}
	q := newProxy(t, p.path)
	item := []byte(`{"name":"Read-File"}`)
	q.Offer("a", wire.Tools, [][]byte{item})
	q.want(q.says("a", [][]byte{item}))
	q.want(q.offers("b", "read_file"))
	// With another prefix, a pinned tool can be taken for that of a server before it.
	q.settings.Servers = []ServerSettings{{"b", "", Enforce}, {"c", "", Enforce}, {"a", "", Enforce}}
	q.Configure(q.settings)
	q.want(q.offers("c", "READ_FILE", "other"), "READ_FILE new a.Read-File!")
}

// TestShadowsOfPublicNames checks that names which clients see only after they were shortened
// are compared as clients see them.
func TestShadowsOfPublicNames(t *testing.T) {
	p := newProxy(t, lockPath(t), func(_ *Options, s *Settings) {
		s.Public = func(prefix, own string) string {
			name := strings.ReplaceAll(prefix+own, "!", "")
			return name[:min(len(name), 8)]
		}
	})
	p.want(p.offers("b", "read_files", "run!"))
	p.want(p.offers("a", "READ-FIL", "read_file_2", "run", "read"),
		"READ-FIL new b.read_files!", "read_file_2 new b.read_files!", "run new b.run!!")
}

func TestRenamed(t *testing.T) {
	p := newProxy(t, lockPath(t))
	shake := func(name, text string) []byte {
		return wire.Marshal(map[string]any{"serverInfo": map[string]string{"name": name, "version": "1"}, "instructions": text})
	}
	p.OfferHandshake("a", shake("real", "do"))
	p.want(p.offers("a", "x"))
	if f := p.CheckInstructions("a", shake("real", "do")); f != nil {
		t.Error(f)
	}
	p.OfferHandshake("a", shake("real", "do evil"))
	if f := p.CheckInstructions("a", shake("real", "do evil")); f == nil || !f.Withheld || f.Reason != Differs {
		t.Errorf("other instructions: %v", f)
	}
	p.want(p.offers("a", "x")) // its tools are not concerned
	p.OfferHandshake("a", shake("other", "do"))
	p.want(p.offers("a", "x"), "x renamed!")
	if p.Accepts("a", About, [][]byte{shake("third", "do")}) || !p.Accepts("w", About, [][]byte{shake("third", "do")}) {
		t.Error("another process of another name")
	}
	if f := p.Check("a", wire.Resources, "x://1", NewDefinition([]byte(`{}`))); f == nil || f.Reason != Renamed {
		t.Errorf("resources of another server: %v", f)
	}
	if all := p.Problems(); len(all) != 1 || !strings.Contains(all[0].Text(), `name changed from "real" to "other"`) {
		t.Errorf("problems: %v", all)
	}
	p.OfferHandshake("a", shake("real", "do"))
	p.want(p.offers("a", "x"))
	if all := p.Problems(); len(all) != 0 {
		t.Errorf("problems: %v", all)
	}
}

func TestUnpinnable(t *testing.T) {
	p := newProxy(t, lockPath(t), func(_ *Options, s *Settings) {
		s.Secret = func(d []byte) bool { return bytes.Contains(d, []byte("hunter2")) }
	})
	deep := `{"name":"deep","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`
	items := [][]byte{[]byte(`{"name":"x","a":1,"a":2}`), []byte(`{"name":"y","a":"\ud800"}`), []byte(deep), []byte(`{"name":"s","description":"hunter2"}`), []byte(`{"name":"fine"}`)}
	p.Offer("a", wire.Tools, items)
	p.want(p.says("a", items), "x unpinnable!", "y unpinnable!", "deep unpinnable!", "s unpinnable!")
	text, err := os.ReadFile(p.path)
	if err != nil || bytes.Contains(text, []byte("hunter2")) || !bytes.Contains(text, []byte(`"fine"`)) {
		t.Errorf("%v: %s", err, text)
	}
	shake := []byte(`{"instructions":"hunter2"}`)
	p.OfferHandshake("a", shake)
	if f := p.CheckInstructions("a", shake); f == nil || f.Reason != Unpinnable || !f.Withheld {
		t.Errorf("instructions with a secret: %v", f)
	}
	for _, line := range p.Drift("a") {
		if strings.Contains(line, "hunter2") {
			t.Error(line)
		}
	}
}

// TestFilesThatCannotBeUsed checks that nothing is trusted and nothing is lost.
func TestFilesThatCannotBeUsed(t *testing.T) {
	path := lockPath(t)
	p := newProxy(t, path)
	p.want(p.offers("a", "x:1"))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"empty": {}, "half": good[:len(good)/2], "merge": append([]byte("<<<<<<< HEAD\n"), good...),
		"edited": bytes.Replace(good, []byte(`"description": "1"`), []byte(`"description": "2"`), 1),
		"twice":  bytes.Replace(good, []byte(`"version": 2`), []byte(`"version": 2, "version": 2`), 1),
		"newer":  bytes.Replace(good, []byte(`"version": 2`), []byte(`"version": 3, "x": {}`), 1),
		"member": bytes.Replace(good, []byte(`"version": 2`), []byte(`"version": 2, "x": {}`), 1),
	} {
		if bytes.Equal(text, good) {
			t.Fatalf("%s: nothing was changed", name)
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		q := newProxy(t, path)
		q.want(q.offers("a", "x:1"), "x unreadable!")
		q.want(q.offers("w", "x:1"))
		if all := q.Problems(); len(all) != 3 || !strings.Contains(all[0].Text(), path) {
			t.Errorf("%s: %v", name, all)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, text) {
			t.Errorf("%s: the file was written: %v", name, err)
		}
		q.Close()
	}
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "none", "tools.lock") // there is no such folder
	p := newProxy(t, path)
	p.want(p.offers("a", "x:1"), "x unwritten!")
	p.want(p.offers("w", "x:1"))
	if lines := p.Drift("a"); len(lines) != 1 || !strings.Contains(lines[0], "its server is not pinned") {
		t.Errorf("%q", lines)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	p.want(p.offers("a", "x:1")) // now it can
	if err := p.Permitted("a", "x"); err != nil {
		t.Error(err)
	}
	if err := p.Permitted("a", "y"); err == nil {
		t.Error("a tool that the server does not have is permitted")
	}
	if runtime.GOOS != "windows" {
		fifo := filepath.Join(folder, "device")
		if err := os.Symlink(os.DevNull, fifo); err != nil {
			t.Fatal(err)
		}
		q := newProxy(t, fifo)
		q.want(q.offers("a", "x:1"), "x unreadable!")
	}
}

// TestWrittenLater checks that a Keeper writes down what a server offers once it can, also if the
// server does not offer it again.
func TestWrittenLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "tools.lock")
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, path)
		p.want(p.offers("a", "x:1"), "x unwritten!")
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(retryEvery * pollInterval)
		synctest.Wait()
		p.want(p.says("a", [][]byte{[]byte(`{"name":"x","description":"1"}`)}))
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	})
}

// TestReadOnly checks that commands trust without writing.
func TestReadOnly(t *testing.T) {
	p := newProxy(t, lockPath(t), func(o *Options, _ *Settings) { o.ReadOnly = true })
	p.want(p.offers("a", "x:1"))
	p.want(p.offers("a", "x:2"), "x changed!")
	if _, err := os.Stat(p.path); !os.IsNotExist(err) {
		t.Errorf("the file was written: %v", err)
	}
}

// TestFollow checks that pins which are accepted elsewhere are used, and that nothing is
// trusted because the file has disappeared.
func TestFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newProxy(t, lockPath(t))
		p.offers("a", "x:1")
		p.want(p.offers("a", "x:2"), "x changed!")
		l, err := Read(t.Context(), regular.Place{Name: p.path})
		if err != nil {
			t.Fatal(err)
		}
		offer := Offer{Lists: map[wire.Surface][][]byte{wire.Tools: {[]byte(`{"name":"x","description":"2"}`)}}}
		Accept(l, p.settings, Inspect(l, p.settings, "a", offer).Findings)
		p.await(func() error { return l.Write(regular.Place{Name: p.path}) }, func() bool { return p.Permitted("a", "x") == nil })
		p.await(func() error { return os.Remove(p.path) }, func() bool { return p.Permitted("a", "x") != nil })
		p.want(p.offers("a", "x:3"), "x unreadable!")
		p.want(p.offers("b", "new:1"), "new unreadable!")
		p.Configure(p.settings)
		p.want(p.offers("a", "x:3"), "x unreadable!")
		if _, err := os.Stat(p.path); !os.IsNotExist(err) {
			t.Errorf("the file was written: %v", err)
		}
		p.await(func() error { return l.Write(regular.Place{Name: p.path}) }, func() bool {
			time.Sleep(pollInterval) // an offer counts as a change, too
			return len(p.offers("a", "x:2")) == 0
		})
		p.want(p.offers("b", "new:1")) // was never pinned
		p.await(func() error { return os.WriteFile(p.path, []byte("{"), 0o600) }, func() bool { return p.Permitted("a", "x") != nil })
	})
}

// await makes a change of the file, and waits until something is so.
func (p *proxy) await(change func() error, is func() bool) {
	p.Helper()
	if err := change(); err != nil {
		p.Fatal(err)
	}
	late, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	for !is() {
		select {
		case <-p.changed:
		case <-late.Done():
			p.Fatalf("nothing has changed\n%s", p.log)
		}
	}
}

// TestModesChange checks what a reload does.
func TestModesChange(t *testing.T) {
	p := newProxy(t, lockPath(t))
	p.offers("a", "x:1")
	p.offers("off", "x:1")
	p.want(p.offers("a", "x:2"), "x changed!")
	p.settings.Servers[0].Mode, p.settings.Servers[3].Mode = Warn, Enforce
	p.settings.Servers[3].Prefix = "off__"
	p.Configure(p.settings)
	p.want(p.offers("a", "x:2"), "x changed")
	if err := p.Permitted("off", "x"); err != nil {
		t.Errorf("what was offered before it was pinned: %v", err)
	}
	p.want(p.offers("off", "x:2"), "x changed!")
	for i := range p.settings.Servers {
		p.settings.Servers[i].Mode = Off
	}
	p.Configure(p.settings)
	p.want(p.offers("a", "x:3"))
}

// TestSeveralProcesses has many Keepers of one file, each with a server of its own and one
// that they share.
func TestSeveralProcesses(t *testing.T) {
	path := lockPath(t)
	const n = 8
	var all sync.WaitGroup
	for i := range n {
		name := fmt.Sprintf("own%d", i)
		p := newProxy(t, path, func(_ *Options, s *Settings) {
			s.Servers = []ServerSettings{{"shared", "s__", Enforce}, {name, name + "__", Enforce}}
		})
		all.Go(func() {
			for round := range 5 {
				p.offers("shared", "x:1")
				p.offers(name, "x:1")
				p.OfferHandshake(name, []byte(`{"instructions":"do"}`))
				p.OfferHandshake("shared", []byte(`{"instructions":"do"}`))
				_ = p.Findings(name)
				if got := p.offers("shared", fmt.Sprint("x:", round)); (len(got) > 0) != (round != 1) {
					t.Errorf("round %d: %q", round, got)
				}
			}
		})
	}
	all.Wait()
	l, err := Read(t.Context(), regular.Place{Name: path})
	if err != nil || len(l.Servers()) != n+1 {
		t.Fatalf("%v: the file has %q", err, l.Servers())
	}
}

// TestVersion1 reads a file as smoke checks wrote them before there were pins.
func TestVersion1(t *testing.T) {
	path := lockPath(t)
	// The digest is that of encoding/json, which escapes U+2028:
	// printf '%s' '{"description":"\u2028","name":"x"}' | sha256sum
	const digest = "82f61fa1cf2ffbd389395171dca5ce87b6b12196d2e27baf6b65fb4d0001134d"
	const text = `{"version": 1, "servers": {"a": {"tools": {"x": {
	  "sha256": "` + digest + `", "definition": {"name": "x", "description": "\u2028"}}}}}}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, path)
	p.want(p.offers("a", "x:\u2028"))
	p.want(p.offers("a", "x:1"), "x changed!")
	p.OfferHandshake("a", []byte(`{"instructions":"do"}`)) // was not recorded then: first use
	if raw, err := os.ReadFile(path); err != nil || !bytes.Contains(raw, []byte(`"version": 2`)) {
		t.Errorf("%v: %s", err, raw)
	}
	if digest == Digest([]byte(`{"name": "x", "description": "\u2028"}`)) {
		t.Error("this digest is that of version 2")
	}
}
