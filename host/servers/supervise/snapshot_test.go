package supervise

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
)

// odd is a snapshot with bytes that decoding and encoding would change.
var odd = Snapshot{
	Handshake: []byte(`{ "n":9007199254740993, "s":"<\u00e9>&` + "\u2028" + `"}`),
	Lists: map[wire.Surface]List{
		wire.Tools:     {Items: [][]byte{[]byte(`{"name":"a", "x":1e400}`), []byte(`{"name":"b","name":"c","y":-0}`)}, Meta: []byte(`{"k": 1.0}`)},
		wire.Resources: {Items: [][]byte{}},
		wire.Templates: {Items: [][]byte{[]byte(`{"uriTemplate":"x://{y}"}`)}},
	},
}

func TestSnapshotKeepsBytes(t *testing.T) {
	t.Parallel()
	store := newSnapshotStore(filepath.Join(t.TempDir(), "servers"), slog.New(slog.DiscardHandler))
	if _, ok := store.load("x", "id", ""); ok {
		t.Error("it remembers what it never heard of")
	}
	store.save("x", odd.encode("id"))
	got, ok := store.load("x", "id", "")
	if !ok || len(got.Lists) != len(odd.Lists) || !bytes.Equal(got.encode("id"), odd.encode("id")) {
		t.Errorf("got  %s\nwant %s", got.encode("id"), odd.encode("id"))
	}
	if _, ok := store.load("x", "other", ""); ok {
		t.Error("it remembers another one")
	}
	names, err := filepath.Glob(filepath.Join(store.dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(store.dir, ".*"))
	if err != nil || len(names) != 1 || len(hidden) != 0 {
		t.Errorf("files %v %v %v", names, hidden, err)
	}
}

// TestSnapshotCannotBeSaved checks that a failure to save a snapshot is only logged.
func TestSnapshotCannotBeSaved(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "servers")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	store := newSnapshotStore(file, slog.New(slog.NewTextHandler(&log, nil)))
	store.save("x", odd.encode("id"))
	if !strings.Contains(log.String(), "cannot be saved") {
		t.Errorf("log: %s", log.String())
	}
}

func TestSnapshotKey(t *testing.T) {
	t.Parallel()
	secrets := (&config.Config{Secrets: []string{"secret-1", "secret-2"}}).NewMasker()
	base := func() servers.Spec {
		return servers.Spec{
			Name: "x", Transport: "stdio", Command: "c", Args: []string{"--token", "secret-1"}, Env: []string{"A=secret-1", "B=1"},
			Headers: map[string]string{"X": "1"},
		}
	}
	of := snapshotKey(base(), secrets)
	for name, tt := range map[string]struct {
		change func(s *servers.Spec)
		same   bool
	}{
		"nothing":   {func(*servers.Spec) {}, true},
		"limits":    {func(s *servers.Spec) { s.Timeout, s.Restart, s.MaxMessage = 1, "never", 1 }, true},
		"secrets":   {func(s *servers.Spec) { s.Args[1], s.Env[0] = "secret-2", "A=secret-2" }, true},
		"command":   {func(s *servers.Spec) { s.Command = "d" }, false},
		"args":      {func(s *servers.Spec) { s.Args = s.Args[:1] }, false},
		"env":       {func(s *servers.Spec) { s.Env[1] = "B=2" }, false},
		"cwd":       {func(s *servers.Spec) { s.Dir = "/" }, false},
		"url":       {func(s *servers.Spec) { s.URL = "http://x" }, false},
		"transport": {func(s *servers.Spec) { s.Transport = "sse" }, false},
		"headers":   {func(s *servers.Spec) { s.Headers["X"] = "2" }, false},
		"issuer":    {func(s *servers.Spec) { s.OAuth = &oauth.Config{Issuer: "https://x"} }, false},
		"oauth":     {func(s *servers.Spec) { s.OAuth = &oauth.Config{ClientID: "x"} }, false},
	} {
		spec := base()
		tt.change(&spec)
		if same := snapshotKey(spec, secrets) == of; same != tt.same {
			t.Errorf("with other %s it counts as the same: %v", name, same)
		}
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(odd.encode("id"))
	f.Add([]byte(`{"of":"id","handshake":{},"lists":{"tools":{"items":[{"name":""}]}}}`))
	f.Add([]byte(`{"of":"id","handshake":{},"lists":{"tools":{"items":[],"_meta":[]}}}`))
	f.Add([]byte(`{"of":"id","handshake":1,"lists":[]} `))
	f.Add([]byte(`{"of":"id","late":true}`))
	f.Add([]byte(`{"of":"id","handshake":{},"lists":{},"late":true}`))
	f.Add([]byte(`{"of":"id","client":"a","handshake":{},"lists":{},"others":[{"handshake":{},"lists":{}},7,{"client":"b"}]}`))
	f.Add([]byte(`{"of":"id","others":[{"client":"b","handshake":{},"lists":{}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, same, err := decodeSnapshot(data, "id", "a")
		if !same || err != nil {
			return
		}
		again, same, err := decodeSnapshot(r.encode("id"), "id", "a")
		if !same || err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s becomes %s (%v)", data, r.encode("id"), err)
		}
	})
}
