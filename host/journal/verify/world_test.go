package verify

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// shop is a server with tools.
type shop struct{}

func (shop) Ready(context.Context, route.Origin, string) error { return nil }
func (shop) Remembered(string) bool                            { return false }
func (shop) Disabled() []string                                { return nil }
func (shop) Servers() []string                                 { return []string{"shop"} }
func (shop) InputSchema(string, string) []byte                 { return nil }

func (shop) Resolve(server, tool string, _ bool) (string, string, error) { return server, tool, nil }

func (shop) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	if call.Tool == "price" {
		return wire.Reply{Result: []byte(`{"structuredContent":{"price":41,"token":"hunter2hunter2"}}`)}
	}
	return wire.Reply{Result: []byte(`{"content":[{"type":"text","text":"done"}],"structuredContent":{"ok":true,"ok":true}}`)}
}

type saved map[string]tools.Definition

func (s saved) Get(name string) (tools.Definition, error) {
	if def, ok := s[name]; ok {
		return def, nil
	}
	return tools.Definition{}, tools.ErrNotFound
}

func (s saved) List() (all []tools.Definition) {
	for _, def := range s {
		all = append(all, def)
	}
	return all
}

func define(name, code string) tools.Definition {
	return tools.Definition{Name: name, Code: code, InputSchema: []byte(`{"type":"object"}`)}
}

var tool = saved{
	"inner": define("inner", "return shop.price(id=params.id).price\n"),
	"order": define("order", "total = tools.inner(id=7) + 1\nprint(\"total\", total)\nshop.buy(total=total)\nshop.buy(total=0)\nreturn {\"total\": total}\n"),
	"fails": define("fails", "shop.price(id=1)\nfail(\"no \\\"plums\\\"\", {\"left\": 1})\n"),
	"words": define("words", "shop.price(id=1)\nprint(\"done\")\nreturn \"as it is\"\n"),
	"image": define("image", "shop.price(id=1)\nprint(\"done\")\nreturn [\"a picture\", {\"type\": \"image\", \"data\": \"aGk=\", \"mimeType\": \"image/png\"}]\n"),
	"plain": define("plain", "p = shop.price(id=1)\nprint(p.token)\nshop.buy(note=p.token)\nreturn p.price\n"),
}

// testKey signs the runs of tests.
var testKey = seal.FromSeed(bytes.Repeat([]byte{7}, 32))

func openLog(t testing.TB, dir string, opts journal.LogOptions) *journal.Log {
	t.Helper()
	opts.Log = slog.New(slog.DiscardHandler)
	l := journal.OpenLog(dir, opts)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// play runs a saved tool, and returns the id of the run.
func play(t testing.TB, l *journal.Log, name string) string {
	t.Helper()
	id, _ := wire.GetString(call(t, l, name), "_meta", compose.ReceiptKey, "run")
	return id
}

// call runs a saved tool, and returns its result.
func call(t testing.TB, l *journal.Log, name string) []byte {
	t.Helper()
	c := compose.New(compose.Options{
		Sandbox: sandboxtest.Guest(t), Catalog: shop{}, Upstreams: shop{}, Saved: tool, Log: slog.New(slog.DiscardHandler),
		Timeout: time.Minute, Journal: l.Open,
	})
	reply := c.CallSaved(t.Context(), tool[name], route.Call{Params: fmt.Appendf(nil, `{"name":%q,"arguments":{}}`, name)})
	if _, ok := wire.GetString(reply.Result, "_meta", compose.ReceiptKey, "run"); !ok {
		t.Fatalf("%s", reply.Result)
	}
	return reply.Result
}

// recorded returns the lines of a run as they are exported.
func recorded(t testing.TB, name string, opts journal.LogOptions) [][]byte {
	t.Helper()
	l := openLog(t, t.TempDir(), opts)
	return export(t, l, play(t, l, name))
}

// export returns the lines of a run, and of those that it called, as they are exported.
func export(t testing.TB, l *journal.Log, id string) (lines [][]byte) {
	t.Helper()
	runs, err := l.Reader().Lines(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		for _, line := range r.Lines {
			lines = append(lines, bytes.Clone(seal.WithoutLink(line)))
		}
	}
	return lines
}

func signed() journal.LogOptions { return journal.LogOptions{Signer: testKey} }

func masked() journal.LogOptions {
	redactor := config.NewRedactor((&config.Config{Secrets: []string{"hunter2hunter2"}}).NewMasker(), nil)
	return journal.LogOptions{Signer: testKey, Redactor: redactor}
}

// verified verifies lines with the test's key.
func verified(t testing.TB, lines [][]byte) *Result {
	t.Helper()
	result, err := File(t.Context(), lines, "", Options{Keys: []seal.PublicKey{testKey.Public()}, Sandbox: sandboxtest.Guest(t)})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

var (
	prevMember = regexp.MustCompile(`,"prev":"[0-9a-f]{64}"`)
	belowOne   = regexp.MustCompile(`"below":"[0-9a-f]{64}"`)
)

// forge makes the chains and the seal of changed lines whole again, like an attacker who knows the
// format, and signs with a key.
func forge(t testing.TB, lines [][]byte, key seal.PrivateKey) [][]byte {
	t.Helper()
	heads, events, root := map[string]seal.Digest{}, map[string]int{}, ""
	var out [][]byte
	for _, line := range lines { // runs that others called come first
		p, err := seal.Cut(line)
		if err != nil {
			t.Fatal(err)
		}
		body := prevMember.ReplaceAll(p.Body, nil)
		_, run, err := readHead(body)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body[:min(len(body), 200)]), `"parent":`) && strings.HasPrefix(string(body), `{"t":"begin"`) {
			root = run
		}
		for other, head := range heads {
			if other != run {
				body = belowOne.ReplaceAll(body, []byte(`"below":"`+head.String()+`"`))
			}
		}
		if head, ok := heads[run]; ok {
			body = append(bytes.TrimSuffix(body, []byte("}")), `,"prev":"`+head.String()+`"}`...)
		}
		heads[run], events[run] = seal.Event(body), events[run]+1
		if p.Seal != nil && run == root {
			s := *p.Seal.Statement(run, heads[run])
			s.Events = events[run]
			made, err := key.Sign(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			body = append(seal.AppendSeal(bytes.TrimSuffix(body, []byte("}")), made), '}')
		}
		out = append(out, body)
	}
	return out
}

// edit replaces text in the lines, which must be there.
func edit(t testing.TB, lines [][]byte, from, to string) [][]byte {
	t.Helper()
	out, found := make([][]byte, len(lines)), false
	for i, line := range lines {
		found = found || bytes.Contains(line, []byte(from))
		out[i] = bytes.ReplaceAll(line, []byte(from), []byte(to))
	}
	if !found {
		t.Fatalf("no %s in\n%s", from, bytes.Join(lines, []byte("\n")))
	}
	return out
}

// without leaves out the lines that have a text.
func without(t testing.TB, lines [][]byte, text string) (out [][]byte) {
	t.Helper()
	for _, line := range lines {
		if !bytes.Contains(line, []byte(text)) {
			out = append(out, line)
		}
	}
	if len(out) == len(lines) {
		t.Fatalf("no %s", text)
	}
	return out
}
