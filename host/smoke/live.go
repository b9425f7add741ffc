package smoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// live is the real host for the checks of a file. The first check that needs the host starts the
// host. The host has its own store, with the saved tools and the checks' scripts, so the user's
// store stays unchanged.
type live struct {
	file    *File
	opts    *Options
	scripts *scripts
	sandbox func() *sandbox.Sandbox
	log     *slog.Logger
	mask    func(string) string // removes secrets, including captured secrets
	runs    runs

	once  sync.Once
	ended sync.Once
	host  *host.Host
	dir   string
	err   error
}

// start starts the host once.
func (l *live) start() (*host.Host, error) {
	l.once.Do(func() {
		if l.err = l.open(); l.err != nil {
			l.err = broken(l.err, "the host cannot be started: %v", l.err)
		}
	})
	return l.host, l.err
}

func (l *live) open() error {
	dir, err := os.MkdirTemp("", "mcp-metatool-smoke-")
	if err != nil {
		return err
	}
	l.dir = dir
	if err := l.fillStore(dir); err != nil {
		return err
	}
	cfg := *l.file.Config
	cfg.Store = config.Store{Dir: dir} // no fleet
	cfg.Journal = config.Journal{}     // the result of a check has all needed records
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		u.Disabled = u.Disabled || l.file.unset[u.Name] != nil || !l.needed(u)
	}
	if l.opts.Adjust != nil {
		l.opts.Adjust(&cfg)
	}
	cfg.StartupWait = l.file.Startup // a call of an unknown name waits for the upstreams to start
	scripts := slices.ContainsFunc(l.file.Checks, func(c *Check) bool { return !c.Code.none() })
	opts := host.Options{
		Version: l.opts.Version, Log: l.log, CacheDir: l.opts.CacheDir, Clients: host.NoClient, Whole: true, Runs: &l.runs, Person: rehearsed, Idle: !scripts,
	}
	if cfg.Execution.MaxConcurrent == 0 && cfg.Execution.MaxQueued == int(limits.Queue.Default) && cfg.Execution.MaxTotalMemory == 0 {
		opts.Sandbox = l.sandbox() // creating another sandbox takes time
		if scripts {
			opts.Sandbox.Ready() // soon, while servers start
		}
	}
	l.host, err = host.New(&cfg, opts)
	return err
}

// fillStore writes the saved tools and the scripts of the checks, which replace saved tools
// of the same name, and links to the user's access tokens.
func (l *live) fillStore(dir string) error {
	if _, err := l.scripts.all(); err != nil {
		return err
	}
	for _, d := range l.scripts.List() {
		if err := putTool(dir, d); err != nil {
			return err
		}
	}
	tokens := filepath.Dir(l.file.Config.TokenFile())
	if _, err := os.Stat(tokens); err == nil {
		if err := os.Symlink(tokens, filepath.Join(dir, filepath.Base(tokens))); err != nil {
			l.log.Warn("access tokens cannot be used", "err", err)
		}
	}
	return nil
}

func putTool(dir string, def tools.Definition) error {
	text, err := def.File()
	if err != nil {
		return err
	}
	return writeTool(dir, def.Name, text)
}

// close stops the host if the host was started. close may be called more than once.
func (l *live) close() {
	l.once.Do(func() {}) // from now on no host is started
	l.ended.Do(l.end)
}

func (l *live) end() {
	if l.host != nil {
		if err := l.host.Close(); err != nil { // for example because an upstream had to be killed
			l.log.Warn("shutdown", "err", err)
		}
	}
	if l.dir != "" {
		if err := os.RemoveAll(l.dir); err != nil {
			l.log.Warn("the directory of a smoke run could not be removed", "err", err)
		}
	}
}

// call calls the tool of a check as an agent would, in its own session.
func (l *live) call(ctx context.Context, c *Check) (*answer, error) {
	h, err := l.start()
	if err != nil {
		return nil, err
	}
	name := c.Call
	if !c.Code.none() {
		def, err := c.definition(l.scripts.savedTools)
		if err != nil {
			return nil, err
		}
		if l.scripts.own()[def.Name].Code != def.Code {
			return nil, broken(nil, "another check in this file has different code under the name %q (give one of them another call)", def.Name)
		}
		name = def.Name
	}
	if err := l.waitForServers(ctx, h, name); err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, c, l.file)
	defer cancel()
	if server, own, ok := upstreamTool(h, name); ok {
		l.runs.calledDirectly(server, own)
		if c.CancelAfter > 0 {
			return l.callAndCancel(ctx, h, c, server, own)
		}
	}
	var run asked
	decided, _ := h.Decide(name, c.Params)
	client, err := h.Connect(c.rehearsing(run.within(context.WithoutCancel(ctx))), nil)
	if err != nil {
		return nil, broken(err, "the session cannot be opened: %v", err)
	}
	a, err := callTool(ctx, c, name, client)
	ended := time.Now()
	if cause := client.Close(); cause != nil && err == nil { // waits for all pending work
		l.log.Debug("end of a session", "err", cause)
	}
	a.stopped = time.Since(ended)
	a.run = run.record()
	a.decide = func(client string) policy.Decision {
		if client == "" {
			return decided
		}
		d, _ := h.Explain(client, name, c.Params)
		return d
	}
	return a, err
}

// upstreamTool returns which tool of an upstream has a public name; ok is false if none has.
func upstreamTool(h *host.Host, public string) (server, own string, ok bool) {
	for _, n := range h.Names() {
		if n.Surface == wire.Tools && n.Public == public {
			return n.Server, n.Own, true
		}
	}
	return "", "", false
}

// callTool calls the tool in the client's session.
func callTool(ctx context.Context, c *Check, name string, client *host.Client) (*answer, error) {
	a := &answer{}
	params := c.request(name)
	ctx, cancel := c.withCancelAfter(ctx)
	defer cancel()
	begun := time.Now()
	reply, err := client.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: params, Progress: func(p []byte) {
		a.progress = append(a.progress, p)
	}})
	a.took = time.Since(begun)
	if err != nil {
		return a, c.endError(ctx, a, err)
	}
	return a, a.setReply(reply)
}

// request returns the params object of the check's call.
func (c *Check) request(name string) []byte {
	var params wire.Object
	params.Text("name", name)
	params.Raw("arguments", c.Params)
	params.Raw("_meta", c.Meta)
	return params.Bytes()
}

// setReply stores a reply as the answer.
func (a *answer) setReply(reply wire.Reply) error {
	if reply.Error != nil {
		a.refused = wire.ParseError(reply.Error)
		return nil
	}
	a.result = reply.Result
	return nil
}

// waitForServers waits until the upstream of the tool has started, or all upstreams for a script.
// The call itself reports an upstream that does not start.
func (l *live) waitForServers(ctx context.Context, h *host.Host, name string) error {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	server := l.owner(name)
	if err := l.checkVariables(server); err != nil {
		return err
	}
	if server == "" {
		if err := l.checkScript(name); err != nil {
			return err
		}
		h.Settle(ctx)
		if outer.Err() != nil {
			return context.Cause(outer)
		}
		return l.checkAllPins(ctx, h)
	}
	offers, err := h.Snapshot(ctx, server)
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	if err := l.startError(server, err); err != nil {
		return err
	}
	return l.checkPins(ctx, server, offers)
}

// checkVariables returns an error if the configuration of a server needs unset variables.
func (l *live) checkVariables(server string) error {
	if err := l.file.unset[server]; err != nil {
		return broken(err, "%v", err)
	}
	return nil
}

// checkScript is checkVariables for the servers that a script may call.
func (l *live) checkScript(name string) error {
	for _, u := range l.file.Config.Upstreams {
		if l.file.unset[u.Name] != nil && l.scripts.mentions(name, abi.Ident(u.Name)) {
			return l.checkVariables(u.Name)
		}
	}
	return nil
}

// owner returns the upstream of a tool, judging by the prefix of the tool's public name; "" for
// none.
func (l *live) owner(name string) string {
	if _, own := l.scripts.own()[name]; own {
		return ""
	}
	owner, length := "", 0
	for _, u := range l.file.Config.Upstreams {
		if !u.Disabled && len(u.Prefix) > length && strings.HasPrefix(name, u.Prefix) {
			owner, length = u.Name, len(u.Prefix)
		}
	}
	return owner
}

// startError returns the error for a check whose upstream could not be started, with the upstream's
// stderr; nil if err is nil.
func (l *live) startError(server string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var failed *servers.DownError
	if errors.As(err, &failed) {
		if st, ok := l.host.Status(server); ok && st.Err != "" {
			text = st.Err
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("upstream %q has not started within %s (startup_timeout of [smoke])", server, l.file.Startup)
	}
	return broken(err, "%s", text)
}
