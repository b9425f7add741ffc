package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestKindsAreDocumented compares docs/doctor.md with the list of kinds.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, k := range Kinds {
		hosts := ""
		if k.Hosts != nil {
			hosts = "`" + strings.Join(k.Hosts, "`, `") + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", k.ID, k.Severity, k.Means, hosts)
	}
	if doc := strings.ReplaceAll(string(text), "\r\n", "\n"); !strings.Contains(doc, "|---|---|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/doctor.md does not have exactly these rows:\n%s", &table)
	}
}

// load loads a configuration that everybody can read.
func load(t *testing.T, dir, text string) *config.Config {
	t.Helper()
	name := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Flag: name, Getenv: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// writeProgram writes a program for sh.
func writeProgram(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

func touch(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
}

func tool(name, description, schema string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":%s}`, name, description, schema)
}

// TestEveryKind examines a machine on which almost everything is wrong, and others for
// what cannot be wrong at the same time.
func TestEveryKind(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs are scripts, and modes are checked")
	}
	dir := t.TempDir()
	bin, store := filepath.Join(dir, "bin"), filepath.Join(dir, "store")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	writeProgram(t, bin, "npx", "#!/usr/bin/env interpreter-of-npx\n")
	writeProgram(t, bin, "odd-program", "#!/bin/sh\n")
	writeProgram(t, bin, "node", "#!/bin/sh\necho v16.20.2\n")
	writeProgram(t, bin, "npm", "#!/bin/sh\necho 10.9.2\n")
	writeProgram(t, bin, "docker", "#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cfg := load(t, dir, fmt.Sprintf(`
[store]
dir = %q
[http]
listen = %q
tokens = [{ name = "ci-1", token = "a-long-enough-token-0123456789" }]
[[policy.rule]]
name = "ci"
clients = ["ci"]
action = "deny"
[upstream.npx]
command = "npx"
args = ["--token", "plain-s3cret"]
[upstream.docker]
command = "docker"
[upstream.odd]
command = "odd-program"
[upstream.missing]
command = "no-such-command"
cwd = "nowhere"
[upstream.lazy]
command = "docker"
start = "lazy"
[upstream.login]
url = "https://login.example/mcp"
oauth = {}
[upstream.expired]
url = "https://expired.example/mcp"
oauth = {}
`, store, ln.Addr()))
	if err := os.Chmod(cfg.Path, 0o666); err != nil {
		t.Fatal(err)
	}
	touch(t, cfg.TokenFile(), `{"upstreams":{"expired https://expired.example/mcp":{"token":{"access_token":"x","expires_at":"2020-01-01T00:00:00Z"}}}}`, 0o644)
	if err := os.Chmod(filepath.Dir(cfg.TokenFile()), 0o755); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(store, "servers", "docker.failure.json"), `{"at":"2026-01-01T11:00:00Z","error":"upstream \"docker\": it said plain-s3cret"}`, 0o600)
	cache := filepath.Join(dir, "cache")
	touch(t, filepath.Join(cache, "code"), "x", 0o600)
	long := strings.Repeat("x", 2100)
	var many [][]byte
	for i := range 130 {
		many = append(many, tool(fmt.Sprint("t", i), strings.Repeat("y", 600), `{"type":"object","properties":{}}`))
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	p := &Patient{
		Config: cfg, Store: store, Cache: cache, Now: now, Getenv: func(name string) string { return map[string]string{"PATH": bin + ":/bin:/usr/bin"}[name] },
		Observed: map[string]Observation{
			"npx": {Status: servers.Status{State: servers.Ready, ProtocolVersion: "2024-11-05", StartTime: 6 * time.Second}, Text: long, Tools: [][]byte{
				tool("none", "", `true`),
				tool("union", "", `{"type":"object","oneOf":[{}]}`),
				tool("deep", "", `{"type":"object","properties":{"a b":{"type":["string","null"]},"list":{"type":"array"},"u":{"type":"string","format":"uri"},"r":{"$ref":"#/$defs/x"}}}`),
				tool("text", long[:1100], `{"type":"object","properties":{}}`),
			}},
			"docker": {Status: servers.Status{State: servers.Ready, ProtocolVersion: "2025-11-25"}, Tools: many},
			"odd":    {Status: servers.Status{State: servers.Failed, Err: `upstream "odd": not found` + "\nwith plain-s3cret"}},
			"lazy":   {Status: servers.Status{State: health.Asleep}},
			"login":  {Status: servers.Status{State: servers.Starting}, Ahead: -2 * time.Hour, Dated: true},
		},
		Unset: []Unset{{"unset", "NO_SUCH_VARIABLE"}},
		Own:   [][]byte{tool("own", "", `{"type":"object"}`), tool("saved", "", `{"type":"object"}`)},
		Names: []PublicName{
			{Server: "npx", Own: "a.b", Public: "npx__a_b_1234", Changed: true},
			{Server: "npx", Own: long[:50], Public: "npx__" + long[:50]},
		},
		Collisions:   []catalog.Problem{{Text: "two tools are called x", Remedy: "rename one"}, {Text: "x has changed", Remedy: "accept it", Drifted: "big"}, {Text: "y is left out", Remedy: "report it", Odd: "big"}},
		UnknownTools: []policy.UnknownName{{Rule: "ci", Name: "npx.unoin", Near: []string{"npx.union"}}}, Waiting: 2,
		Instances: []Instance{{PID: 7, Config: "/other.toml"}, {Err: errors.New("no answer")}},
	}
	r := Examine(t.Context(), p)
	found := map[string]Finding{}
	for _, f := range r.Findings {
		found[f.ID] = f
		if f.Message == "" || f.Remedy == "" {
			t.Errorf("nothing is said: %+v", f)
		}
	}
	if all, _ := json.Marshal(r); strings.Contains(string(all), "plain-s3cret") {
		t.Errorf("a secret is shown: %s", all)
	}
	for id, want := range map[string]string{
		idSchemaUnion: "union (oneOf at the top)", idSchemaKey: `deep ("a b")`, idSchemaItems: "deep (none at list)", idSchemaFormat: "deep (uri at u)",
		idSchemaRef: "deep (#/$defs/x at r)", idRuntimeOld: "node has version 16.20; current servers need 18.0 or later", idClockWrong: "the clock of this machine is 2h behind login", idRuntimeBroken: "Cannot connect to the Docker daemon",
		idServerCrashed: "it works now, but failed 1h ago: it said ****", idServerDown: "", idInstanceOther: "/other.toml", idNameLong: "74 characters",
		idPolicyTool: `policy rule "ci": there is no npx.unoin (did you mean npx.union?)`, idApprovalsWaiting: "2 calls wait for your approval",
		idItemOdd:      "y is left out",
		idPolicyClient: `policy rule "ci": there is no ci among the tokens`,
		idTextLong:     "text (1100 characters), its instructions (2100 characters, cut by Claude Code)",
	} {
		if !strings.Contains(found[id].Message, want) {
			t.Errorf("%s: %q, want %q", id, found[id].Message, want)
		}
	}
	if len(r.Servers) != 5 || r.Servers[0].Era != "handshake" || r.Servers[1].Tokens < 130*150 {
		t.Errorf("servers: %+v", r.Servers)
	}
	of := func(all [][]byte) (n int) {
		for _, one := range all {
			n += catalog.Tokens(one)
		}
		return n
	}
	if r.Own != (Cost{2, of(p.Own)}) || r.Tokens != of(p.Own)+of(p.Observed["npx"].Tools)+of(many) {
		t.Errorf("own tools: %+v, all tokens: %d", r.Own, r.Tokens)
	}
	if want := []Runtime{{"node", "16.20", "18.0"}, {"npm", "10.9", "7.0"}}; !slices.Equal(r.Runtimes, want) {
		t.Errorf("runtimes: %v, want %v", r.Runtimes, want)
	}
	if got := found[idSchemaItems].Hosts; !slices.Equal(got, []string{"vscode", "openai-api"}) {
		t.Errorf("hosts that refuse arrays without items: %v", got)
	}
	if !slices.IsSortedFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(severities, a.Severity) - slices.Index(severities, b.Severity)
	}) {
		t.Error("not sorted")
	}

	// What cannot be wrong at the same time. The disk is not filled, and TestPorts is about
	// ports that need a privilege.
	for _, other := range []*Patient{
		{Problems: []error{errors.New("config.toml:1:1: broken")}, Now: now.AddDate(100, 0, 0)},
		{
			Config: load(t, t.TempDir(), "[upstream.mail]\ncommand = \"sh\"\n[upstream.notes]\ncommand = \"sh\"\n[flow]\nprivate = [\"mail.list\", \"mail.lost\"]\npublic = [\"notes.none\"]\ntrusted = [\"*\"]\n"),
			Store:  filepath.Join(dir, "open"), Now: now.AddDate(100, 0, 0),
			Observed: map[string]Observation{
				"mail": {Status: servers.Status{State: servers.Ready}, Tools: [][]byte{tool("list", "", `{"type":"object"}`)}},
				"notes": {Status: servers.Status{State: servers.Ready}, Tools: [][]byte{
					tool("set", "", `{"type":"object"}`), []byte(`{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`),
				}},
			},
		},
		{Config: load(t, t.TempDir(), "[http]\nlisten = \"192.0.2.1:8080\"\ntokens = [\"a-long-enough-token-0123456789\"]\n"), Store: filepath.Join(dir, "open"), Now: now.AddDate(100, 0, 0)},
	} {
		open := filepath.Join(dir, "open")
		if err := os.MkdirAll(open, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open, 0o777); err != nil {
			t.Fatal(err)
		}
		other.Getenv = os.Getenv
		for _, f := range Examine(t.Context(), other).Findings {
			found[f.ID] = f
		}
	}
	for _, k := range Kinds {
		if found[k.ID].ID == "" && k.ID != idDiskFull && k.ID != idPortDenied && (k.ID != idDesktopPath && k.ID != idInterpreterPath || clientconfig.DesktopPath(runtime.GOOS) != "") {
			t.Errorf("%s is not found", k.ID)
		}
	}
}

// TestHealthy examines a machine on which nothing is wrong.
func TestHealthy(t *testing.T) {
	dir := t.TempDir()
	cfg := load(t, dir, "[store]\ndir = \".\"\n[upstream.a]\nurl = \"https://a.example/mcp\"\n")
	r := Examine(t.Context(), &Patient{
		Config: cfg, Store: dir, Cache: filepath.Join(dir, "cache"), Getenv: os.Getenv, Now: time.Now().Add(time.Hour),
		Observed: map[string]Observation{"a": {
			Status: servers.Status{State: servers.Ready, ProtocolVersion: "2026-07-28", StartTime: time.Second},
			Tools:  [][]byte{tool("a", "does a", `{"type":"object","properties":{"x":{"type":"string"}}}`)},
		}},
		Names:     []PublicName{{Server: "a", Own: "a", Public: "a__a"}},
		Instances: []Instance{{PID: 1, Config: "x", Same: true}},
	})
	for _, f := range r.Findings {
		if f.ID != idDiskFull {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Servers) != 1 || r.Servers[0].Era != "stateless" {
		t.Errorf("%+v", r.Servers)
	}
}

// TestSchemasOfServersAreBounded checks that no schema of a server costs much.
func TestSchemasOfServersAreBounded(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{},"not":`, 5000) + "{}" + strings.Repeat("}", 5000)
	if found := inspectSchema(tool("deep", "", deep)); found[idSchemaType] != "" {
		t.Error(found)
	}
	if found := inspectSchema(tool("large", "", `{"x":"`+strings.Repeat("x", maxSchema)+`"}`)); len(found) != 0 {
		t.Error(found)
	}
	for _, definition := range []string{"", "null", "[]", `{"inputSchema":null}`, `{"inputSchema":[]}`} {
		if found := inspectSchema([]byte(definition)); found[idSchemaType] == "" {
			t.Errorf("%s: %v", definition, found)
		}
	}
}

// TestReadableFiles checks that a folder is reported once, and only if others can enter it.
func TestReadableFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no modes")
	}
	dir := t.TempDir()
	oauth := filepath.Join(dir, "oauth")
	for i := range 3 {
		touch(t, filepath.Join(oauth, fmt.Sprint(i)), "", 0o600|os.FileMode(i)<<2)
	}
	for mode, want := range map[os.FileMode]string{0o700: "", 0o755: "other users can read 2 files in it, the first of them 1 (mode 0604)"} {
		if err := os.Chmod(oauth, mode); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range Examine(t.Context(), &Patient{Store: dir, Getenv: os.Getenv, Now: time.Now()}).Findings {
			if f.ID == idFileReadable {
				got = append(got, f.Message)
			}
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("mode %#o: %q", mode, got)
		}
	}
}

// TestPorts checks what is said about an address that cannot be used, for both settings.
func TestPorts(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	denied := ""
	if low, err := net.Listen("tcp", "127.0.0.1:1"); errors.Is(err, fs.ErrPermission) {
		denied = "127.0.0.1:1"
	} else if err == nil {
		low.Close() // this user may
	}
	for address, want := range map[string]string{
		ln.Addr().String(): idPortUsed, "192.0.2.1:8080": idPortAddress, denied: idPortDenied, "127.0.0.1:0": "",
	} {
		if address == "" {
			continue
		}
		for table, settings := range map[string]string{"http": "[http]", "telemetry": "[telemetry]"} {
			cfg := load(t, t.TempDir(), fmt.Sprintf("%s\nlisten = %q\ntokens = [\"a-long-enough-token-0123456789\"]\n", settings, address))
			got := ""
			for _, f := range Examine(t.Context(), &Patient{Config: cfg, Getenv: os.Getenv, Now: time.Now()}).Findings {
				if strings.HasPrefix(f.ID, "port-") && f.Object == table+".listen" && strings.Contains(f.Message, address) && strings.Contains(f.Remedy, settings) {
					got += f.ID
				}
			}
			if got != want {
				t.Errorf("%s %s: %q, want %q", settings, address, got, want)
			}
		}
	}
}

// TestClocks checks that one server with another clock is not believed against the rest.
func TestClocks(t *testing.T) {
	cfg := load(t, t.TempDir(), "[upstream.a]\nurl = \"https://a.example/mcp\"\n[upstream.b]\nurl = \"https://b.example/mcp\"\n")
	for _, tt := range []struct {
		a, b time.Duration
		want string
	}{
		{time.Hour, time.Second, ""}, {time.Hour, 59 * time.Minute, "the clock of this machine is 1h ahead of a, 59m ahead of b"}, {-61 * time.Second, 0, ""},
	} {
		observed := map[string]Observation{"a": {Ahead: tt.a, Dated: true}, "b": {Ahead: tt.b, Dated: true}}
		got := ""
		for _, f := range Examine(t.Context(), &Patient{Config: cfg, Observed: observed, Getenv: os.Getenv, Now: time.Now()}).Findings {
			if f.ID == idClockWrong {
				got += f.Message
			}
		}
		if got != tt.want {
			t.Errorf("%v, %v: %q, want %q", tt.a, tt.b, got, tt.want)
		}
	}
}
