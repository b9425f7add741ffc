package host

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// TestForbidden plays testdata/forbidden/*.txtar: attempts to do what is not permitted. The
// name of a file is the layer that refuses its attempts, as docs/security.md names it. The
// section config.toml is the configuration; each other section is an attempt. Its lines are:
//
//	# text                a comment
//	as TOKEN              who makes the following requests, over HTTP: the name of a token
//	> METHOD PARAMS       a request of the handshake era
//	>> METHOD PARAMS      a request of 2026-07-28
//	< REGEXP              the answer to the last request matches; it can come twice
//	<! REGEXP             it does not
//	! replace LIST JSON   the server "store" has other items now: a JSON array
//	! allow ID            the user allows what waits in the queue; "remember" remembers it, "deny" denies
//	never NAME...         the store must not get a request for these tools, prompts or URIs
//	reaches NAME...       it must have got one for each of them
//
// An attempt without "never" is for the tool erase. "$1" in a line stands for the group of
// the last REGEXP that had one.
func TestForbidden(t *testing.T) {
	t.Parallel() // it mostly waits
	files, err := filepath.Glob("testdata/forbidden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no attempts", err)
	}
	document := readDocument(t, "security.md")
	_, section, _ := strings.Cut(document, "\n## What may be called\n")
	section, _, _ = strings.Cut(section, "\n## ")
	named := regexp.MustCompile(`(?m)^\| \*\*(\w+)\*\* \|`).FindAllStringSubmatch(section, -1)
	if len(named) != len(files) {
		t.Errorf("docs/security.md names %d layers, and there are %d files", len(named), len(files))
	}
	attempts := 0
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		layer := strings.TrimSuffix(filepath.Base(file), ".txtar")
		if !slices.ContainsFunc(named, func(n []string) bool { return n[1] == layer }) {
			t.Errorf("docs/security.md does not name the layer %q", layer)
		}
		attempts += checkAttempts(t, layer, archive)
		t.Run(layer, func(t *testing.T) { playForbidden(t, archive) })
	}
	if attempts < fewestAttempts {
		t.Errorf("only %d attempts, and there were %d (if some are not needed any more, say so here)", attempts, fewestAttempts)
	}
}

// fewestAttempts is how many there must be.
const fewestAttempts = 200

// checkAttempts returns the number of attempts in a file. Each must make a request and look at what
// becomes of it, and one in each file must be permitted: otherwise a proxy that refuses
// everything would pass.
func checkAttempts(t *testing.T, layer string, archive *txtar.Archive) (n int) {
	t.Helper()
	permitted := false
	for _, f := range archive.Files {
		if f.Name == "config.toml" {
			continue
		}
		n++
		text := "\n" + string(f.Data)
		if !strings.Contains(text, "\n>") || !strings.Contains(text, "\n<") && !strings.Contains(text, "\nnever ") && !strings.Contains(text, "\nreaches ") {
			t.Errorf("%s, %s: attempts nothing, or does not look at the outcome", layer, f.Name)
		}
		permitted = permitted || strings.Contains(text, "\nreaches ")
	}
	if !permitted {
		t.Errorf("%s: nothing is permitted", layer)
	}
	return n
}

// shop is the server that the attempts are about, with a proxy in front of it.
type shop struct {
	*testProxy
	server *mcptest.Server
}

// storeTools are the tools of the store at the start.
var storeTools = []string{
	`{"name":"read","description":"Reads an item.","inputSchema":{"type":"object","properties":{"id":{"type":"string"}}},"annotations":{"readOnlyHint":true}}`,
	`{"name":"write","description":"Writes an item.","inputSchema":{"type":"object","properties":{"id":{"type":"string"},"amount":{"type":"number"}}},"annotations":{"readOnlyHint":false}}`,
	`{"name":"erase","description":"Erases everything.","inputSchema":{"type":"object"}}`,
}

func newShop(t *testing.T, text []byte) *shop {
	t.Helper()
	server := mcptest.NewServer(mcptest.ServerOptions{Name: "store", PageSize: 100, Items: map[wire.Surface][]string{
		wire.Tools:     storeTools,
		wire.Resources: {`{"uri":"store://public","name":"public"}`, `{"uri":"store://secret","name":"secret"}`},
		wire.Templates: {`{"uriTemplate":"store://items/{id}","name":"items"}`},
		wire.Prompts:   {`{"name":"greet","arguments":[{"name":"who"}]}`, `{"name":"betray","arguments":[{"name":"who"}]}`},
	}})
	url := listenHTTP(t, server, server.HTTP())
	dir := t.TempDir()
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{
		Flag: file, Policies: compile.Policy, Home: func() (string, error) { return dir, nil },
		Getenv: func(name string) (string, bool) {
			value, ok := map[string]string{"STORE": url, "MCP_METATOOL_DIR": dir}[name]
			return value, ok
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := combination{config.StreamableHTTP, config.StreamableHTTP}
	return &shop{serveProxy(t, c, server.Received, cfg), server}
}

func playForbidden(t *testing.T, archive *txtar.Archive) {
	t.Parallel()
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "config.toml" })
	if i < 0 {
		t.Fatal("no config.toml")
	}
	s := newShop(t, archive.Files[i].Data)
	for _, f := range archive.Files {
		if f.Name == "config.toml" {
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			a := &attempt{T: t, shop: s, from: s.received.Len(), clients: map[string]*mcptest.Client{}}
			for n, line := range strings.Split(string(f.Data), "\n") {
				if err := a.play(strings.ReplaceAll(line, "$1", a.found)); err != nil {
					t.Fatalf("line %d: %s: %v", n+1, line, err)
				}
			}
			a.check(strings.Contains(string(f.Data), "never "))
		})
	}
}

// attempt is one section of a file.
type attempt struct {
	*testing.T
	*shop
	from    int // index of the first entry in the store's log
	clients map[string]*mcptest.Client
	who     string
	last    int // id of a request
	answer  string
	found   string
}

func (a *attempt) play(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "", "#":
	case "as":
		a.who = rest
	case ">", ">>":
		return a.request(rest, verb == ">>")
	case "<":
		found := regexp.MustCompile(rest).FindStringSubmatch(a.answer)
		if found == nil {
			return fmt.Errorf("the answer is %s", a.answer)
		}
		if len(found) > 1 {
			a.found = found[1]
		}
	case "<!":
		if regexp.MustCompile(rest).MatchString(a.answer) {
			return fmt.Errorf("the answer is %s", a.answer)
		}
	case "!":
		return a.act(rest)
	case "never":
		for _, name := range strings.Fields(rest) {
			a.unseen(name)
		}
	case "reaches":
		for _, name := range strings.Fields(rest) {
			if !a.got(name) {
				return fmt.Errorf("the store got no request for %s", name)
			}
		}
	default:
		return fmt.Errorf("unknown line")
	}
	return nil
}

// client returns the client of a token, with a session.
func (a *attempt) client() (*mcptest.Client, error) {
	if c := a.clients[a.who]; c != nil {
		return c, nil
	}
	c := a.dial(a, mcptest.ClientOptions{Header: map[string]string{"Authorization": "Bearer token-of-" + a.who}})
	a.clients[a.who] = c
	a.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxWait)
		defer cancel()
		_ = c.Close(ctx)
	})
	_, err := c.Initialize(bounded(a), `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"attempt","version":"1"}}`)
	return c, err
}

func (a *attempt) request(text string, stateless bool) error {
	method, params, _ := strings.Cut(text, " ")
	if params == "" {
		params = "{}"
	}
	if stateless {
		meta := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"attempt","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		with, err := wire.Set([]byte(params), []byte(meta), "_meta")
		if err != nil {
			return err
		}
		params = string(with)
	}
	c, err := a.client()
	if err == nil {
		a.last++
		var e mcptest.Entry
		e, err = c.Request(bounded(a), fmt.Sprint(a.last), method, params)
		a.answer = string(e.Raw)
	}
	if err != nil { // a refusal by HTTP is an answer, too
		a.answer = err.Error()
	}
	return nil
}

// act does what a line with "!" says.
func (a *attempt) act(line string) error {
	verb, rest, _ := strings.Cut(line, " ")
	verdict := approval.Verdict{Allow: verb != "deny", By: "the test"}
	switch verb {
	case "replace":
		return a.replace(rest)
	case "remember":
		verdict.Remember = approval.ForValue
	case "allow", "deny":
	default:
		return fmt.Errorf("unknown line")
	}
	_, err := a.host.approvals.Decide(bounded(a), rest, verdict, approval.HowQueue, time.Hour)
	return err
}

// replace gives the store other items, and waits until we have asked for them.
func (a *attempt) replace(text string) error {
	list, raw, _ := strings.Cut(text, " ")
	items, err := wire.Elements([]byte(raw))
	if err != nil {
		return err
	}
	var all []string
	for _, item := range items {
		all = append(all, string(item))
	}
	seen := a.received.Len()
	surface := wire.Surface(list)
	a.server.Replace(surface, all...)
	_, _, err = a.received.Find(bounded(a), "a list", seen, mcptest.Method(surface.ListMethod()))
	if err != nil {
		return err
	}
	return a.request(surface.ListMethod(), false) // waits until it has been read
}

// unseen checks that the store got no request for a name.
func (a *attempt) unseen(name string) {
	if a.got(name) {
		a.Errorf("the store got a request for %s", name)
	}
}

// got reports whether the store got a request for a tool, a prompt or a URI.
func (a *attempt) got(name string) bool {
	for _, e := range a.received.All()[a.from:] {
		for _, path := range [][]string{{"name"}, {"uri"}, {"ref", "name"}, {"ref", "uri"}} {
			if got, _ := wire.GetString(e.Msg.Params, path...); got == name && e.Msg.Method != "initialize" {
				return true
			}
		}
	}
	return false
}

func (a *attempt) check(named bool) {
	if !named {
		a.unseen("erase")
	}
}
