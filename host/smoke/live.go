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

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/limits"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// live is the real host that checks of a file run in. It is started by the first
// check that needs it. Its store is one of its own, with the saved tools and the
// checks' scripts in it, so that the user's stays as it is.
type live struct {
	file    *File
	opts    *Options
	scripts *scripts
	sandbox func() *sandbox.Sandbox
	log     *slog.Logger

	once  sync.Once
	ended sync.Once
	host  *host.Host
	dir   string
	err   error
}

// start starts the host, or says why it cannot be.
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
	if err := l.fill(dir); err != nil {
		return err
	}
	cfg := *l.file.Config
	cfg.Store.Dir = dir
	cfg.Journal = config.Journal{} // what is to be known of a check, its result says
	cfg.Upstreams = slices.Clone(cfg.Upstreams)
	for i := range cfg.Upstreams {
		if l.file.unset[cfg.Upstreams[i].Name] != nil {
			cfg.Upstreams[i].Disabled = true
		}
	}
	cfg.StartupWait = l.file.Startup // names that are not known are waited for
	opts := host.Options{Version: l.opts.Version, Log: l.log, CacheDir: l.opts.CacheDir, Clients: host.NoClient, Whole: true}
	if cfg.Execution.MaxConcurrent == 0 && cfg.Execution.MaxQueued == int(limits.Queue.Default) && cfg.Execution.MaxTotalMemory == 0 {
		opts.Sandbox = l.sandbox() // making another one takes time
	}
	l.host, err = host.New(&cfg, opts)
	return err
}

// fill makes the store: the saved tools, over them the scripts of the checks, and
// the user's access tokens.
func (l *live) fill(dir string) error {
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

// close ends the host if it was started. It may be called more than once.
func (l *live) close() {
	l.once.Do(func() {}) // it will not be started any more
	l.ended.Do(l.end)
}

func (l *live) end() {
	if l.host != nil {
		if err := l.host.Close(); err != nil { // an upstream had to be killed, for instance: it is gone
			l.log.Warn("shutdown", "err", err)
		}
	}
	if l.dir != "" {
		if err := os.RemoveAll(l.dir); err != nil {
			l.log.Warn("the directory of a smoke run is left", "err", err)
		}
	}
}

// call makes the call of a check as an agent would, in a session of its own.
func (l *live) call(ctx context.Context, c *Check) (*answer, error) {
	h, err := l.start()
	if err != nil {
		return nil, err
	}
	name := c.Call
	if !c.Code.none() {
		def, err := c.definition(l.scripts.saved)
		if err != nil {
			return nil, err
		}
		if l.scripts.own()[def.Name].Code != def.Code {
			return nil, broken(nil, "another check of this file has other code that is called %q, too (give one of them another call)", def.Name)
		}
		name = def.Name
	}
	if err := l.await(ctx, h, name); err != nil {
		return nil, err
	}
	ctx, cancel := withTimeout(ctx, c, l.file)
	defer cancel()
	if c.CancelAfter > 0 {
		for _, n := range h.Names() {
			if n.Surface == wire.Tools && n.Public == name {
				return l.takeBack(ctx, h, c, n.Server, n.Own)
			}
		}
	}
	client, err := h.Connect(context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, broken(err, "the session cannot be opened: %v", err)
	}
	a, err := ask(ctx, c, name, client)
	ended := time.Now()
	if cause := client.Close(); cause != nil && err == nil { // it waits for all work that is under way
		l.log.Debug("end of a session", "err", cause)
	}
	a.over = time.Since(ended)
	return a, err
}

// ask makes the call.
func ask(ctx context.Context, c *Check, name string, client *host.Client) (*answer, error) {
	a := &answer{}
	params := c.request(name)
	ctx, cancel := c.takenBack(ctx)
	defer cancel()
	begun := time.Now()
	reply, err := client.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: params, Progress: func(p []byte) {
		a.progress = append(a.progress, p)
	}})
	a.took = time.Since(begun)
	if err != nil {
		return a, c.ended(ctx, a, err)
	}
	return a, a.take(reply)
}

// request is the params object of the check's call.
func (c *Check) request(name string) []byte {
	var params wire.Object
	params.Text("name", name)
	params.Raw("arguments", c.Params)
	params.Raw("_meta", c.Meta)
	return params.Bytes()
}

// take makes a reply the answer.
func (a *answer) take(reply wire.Reply) error {
	if reply.Error != nil {
		a.refused = wire.ParseError(reply.Error)
		return nil
	}
	a.result = reply.Result
	return nil
}

// await waits for what a call of that name needs: the upstream that it is one of,
// or all of them for a script. That they do not come up is told by the call.
func (l *live) await(ctx context.Context, h *host.Host, name string) error {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	server := l.owner(name)
	if err := l.missing(server); err != nil {
		return err
	}
	if server == "" {
		h.Settle(ctx)
		return context.Cause(outer)
	}
	_, err := h.Snapshot(ctx, server)
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	return l.down(server, err)
}

// missing says why a check of a server, or of a script ("") that may call any,
// cannot be made: variables of its settings are not set.
func (l *live) missing(server string) error {
	for _, u := range l.file.Config.Upstreams {
		if err := l.file.unset[u.Name]; err != nil && (server == "" || server == u.Name) {
			return broken(err, "%v", err)
		}
	}
	return nil
}

// owner is the upstream that a tool with a public name belongs to, as far as the
// configuration tells; "" if it does not.
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

// down is the error for a check whose upstream is not there, with what that wrote
// to stderr: nil when it is.
func (l *live) down(server string, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var failed *upstream.DownError
	if errors.As(err, &failed) {
		if st, ok := l.host.Status(server); ok && st.Err != "" {
			text = st.Err
		}
	} else if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("upstream %q has not started within %s (startup_timeout of [smoke])", server, l.file.Startup)
	}
	return broken(err, "%s", text)
}
