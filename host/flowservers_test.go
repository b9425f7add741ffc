package host

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// flowEnv says where the test binary writes what it was sent, as a server of tests of information
// flow.
const flowEnv = "METATOOL_TEST_FLOW"

// flowSecret is in the answers of the server mail, and must not get anywhere else.
const flowSecret = "s3cr3t-0f-mail"

// flowServers are the tools of these servers.
var flowServers = map[string]string{
	"mail": `{"name":"list","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"mails":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"body":{"type":"string"}}}}}},"annotations":{"readOnlyHint":true}},` +
		`{"name":"slow","inputSchema":{"type":"object"}}`,
	"chat":  `{"name":"post","inputSchema":{"type":"object"}}`,
	"notes": `{"name":"set","inputSchema":{"type":"object"}},{"name":"get","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"shared","inputSchema":{"type":"object"}}`,
}

// flowServer is a server over stdio.
type flowServer struct {
	name string
	out  *mcptest.LineWriter
	file string // gets each call
	mu   sync.Mutex
	note string
}

func (s *flowServer) serve(in io.Reader) {
	lines := wire.NewReader(in, 0)
	for {
		raw, err := lines.Read()
		if err != nil {
			return
		}
		if msg, err := wire.Parse(raw); err == nil && msg.IsRequest() {
			_ = s.out.Write(wire.Response(msg.ID, s.answer(msg)))
		}
	}
}

func (s *flowServer) answer(msg wire.Message) wire.Reply {
	ok := func(format string, args ...any) wire.Reply {
		return wire.Reply{Result: fmt.Appendf(nil, format, args...)}
	}
	switch msg.Method {
	case "initialize":
		return ok(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":%q,"version":"1"}}`, s.name)
	case "tools/list":
		return ok(`{"tools":[%s]}`, flowServers[s.name])
	case "tools/call":
	default:
		return ok(`{}`)
	}
	tool, _ := wire.GetString(msg.Params, "name")
	args, _ := wire.Get(msg.Params, "arguments")
	s.mu.Lock()
	defer s.mu.Unlock()
	if file, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintf(file, "%s.%s %s\n", s.name, tool, args)
		file.Close()
	}
	switch tool {
	case "list":
		return ok(`{"content":[],"structuredContent":{"mails":[{"id":7,"body":%q}]}}`, flowSecret)
	case "shared":
		return ok(`{"_meta":{"ifc":{"confidentiality":["alice","bob"]}},"content":[{"type":"text","text":%q}]}`, flowSecret)
	case "set":
		s.note = string(args)
	case "get":
		return ok(`{"content":[],"structuredContent":{"note":%q}}`, s.note)
	}
	return ok(`{"content":[{"type":"text","text":"done"}]}`)
}

// house is a Host with these servers.
type house struct {
	*Host
	t    testing.TB
	cfg  *config.Config
	sent string // file
	log  *mcptest.Buffer
}

// newHouse starts one. change changes its configuration.
func newHouse(t testing.TB, change ...func(*config.Config)) *house {
	t.Helper()
	sent := filepath.Join(t.TempDir(), "sent")
	var ups []config.Upstream
	for _, name := range []string{"mail", "chat", "notes"} {
		u := upstreamOf(name, "flow-"+name)
		u.Env[flowEnv] = sent
		ups = append(ups, u)
	}
	cfg := testConfig(t, ups...)
	cfg.Flow = &flow.Settings{
		Private: []string{"mail.*"}, Public: []string{"chat.*"}, Trusted: []string{"*"}, Action: flow.Deny, Again: flow.CompareAgain,
		MaxSinkCalls: 20, MaxShadows: 64, Timeout: time.Minute,
	}
	for _, f := range change {
		f(cfg)
	}
	h := &house{t: t, cfg: cfg, sent: sent}
	h.Host, h.log = startHostFor(t, cfg, OneClient)
	return h
}

// calls returns the calls of a tool that its server has seen.
func (h *house) calls(tool string) (all []string) {
	h.t.Helper()
	raw, err := os.ReadFile(h.sent)
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if args, ok := strings.CutPrefix(strings.TrimSpace(line), tool+" "); ok {
			all = append(all, args)
		}
	}
	return all
}

// eval runs a script and returns its result.
func (c *client) eval(code string) string {
	c.t.Helper()
	return c.call("eval_starlark", fmt.Sprintf(`{"code":%s}`, wire.Quote(code)))
}
