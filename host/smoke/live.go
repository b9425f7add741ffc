package smoke

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
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

// needed reports whether a check of the file may need an upstream. A configuration can have many
// upstreams without a use for the file, and they are not started, except for the coverage of their
// tools.
func (l *live) needed(u *config.Upstream) bool {
	if l.opts.Coverage != nil {
		return true
	}
	for _, c := range l.file.Checks {
		if c.Mock == nil && l.mayUse(c, u) || c.Mock != nil && l.opts.Record && l.mayUse(c, u) {
			return true
		}
	}
	return false
}

func (l *live) mayUse(c *Check, u *config.Upstream) bool {
	switch {
	case config.HasReferences(c.Server + c.Call):
		return true
	case c.Server != "":
		return c.Server == u.Name
	case c.Code.none() && l.owner(c.Call) != "":
		return strings.HasPrefix(c.Call, u.Prefix)
	}
	name := c.toolName()
	if def, err := c.definition(l.scripts.savedTools); err == nil {
		name = def.Name
	}
	return l.scripts.mentions(name, abi.Ident(u.Name))
}

// servers returns the upstreams at the end of the checks: without all, nothing unless a check has
// started them; with all, they are started and waited for.
func (l *live) servers(ctx context.Context, all bool) []report.Server {
	if l.file.offline || l.host == nil && !all {
		return nil
	}
	var list []report.Server
	for _, u := range l.file.Config.Upstreams {
		if u.Disabled {
			continue
		}
		list = append(list, l.server(ctx, u.Name, all))
	}
	return list
}

// server returns the state of an upstream.
func (l *live) server(ctx context.Context, name string, wait bool) report.Server {
	s := report.Server{Name: name}
	if err := l.file.unset[name]; err != nil {
		s.Err = err.Error()
		return s
	}
	h, err := l.start()
	if err == nil && wait {
		err = l.waitForTools(ctx, h, name)
	}
	if err != nil {
		s.Err = err.Error()
		return s
	}
	st, _ := h.Status(name) // the zero Status if each session has its own process
	s.Product, s.Version, s.Protocol = st.ServerName, st.ServerVersion, st.ProtocolVersion
	for _, n := range h.Names() {
		if n.Surface == wire.Tools && n.Server == name {
			s.Tools = append(s.Tools, report.Tool{Name: n.Own, Called: l.runs.wasCalled(name, n.Own)})
		}
	}
	if st.State != servers.Ready && len(s.Tools) == 0 {
		s.Err = cmp.Or(st.Err, "it has not started")
	}
	return s
}

// waitForTools waits until an upstream has listed its tools.
func (l *live) waitForTools(ctx context.Context, h *host.Host, name string) error {
	limited, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	_, err := h.Snapshot(limited, name)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.startError(name, err)
}

// maskedServers returns servers without secrets.
func maskedServers(list []report.Server, mask func(string) string) []report.Server {
	for i := range list {
		s := &list[i]
		s.Product, s.Version, s.Protocol, s.Err = mask(s.Product), mask(s.Version), mask(s.Protocol), mask(s.Err)
		for k := range s.Tools {
			s.Tools[k].Name = mask(s.Tools[k].Name)
		}
	}
	return list
}

// digest returns the SHA-256 of the file's content.
func (f *File) digest() string {
	sum := sha256.Sum256(f.data)
	return hex.EncodeToString(sum[:])
}

// offers gets the handshake and the lists of the server of a check.
func (l *live) offers(ctx context.Context, c *Check) (*answer, error) {
	h, err := l.start()
	if err != nil {
		return nil, err
	}
	if err := l.checkVariables(c.Server); err != nil {
		return nil, err
	}
	begun := time.Now()
	waiting, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	o, err := h.Snapshot(waiting, c.Server)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := l.startError(c.Server, err); err != nil {
		return nil, err
	}
	if err := l.checkPins(ctx, c.Server, o); err != nil {
		return nil, err
	}
	a := &answer{took: time.Since(begun), server: c.Server, handshake: o.Handshake, lists: pins.Lists{}}
	if st, ok := h.Status(c.Server); ok {
		a.took = st.StartTime // the server may have started before the check
	}
	for surface, list := range o.Lists {
		a.lists[surface] = wire.Array(list.Items)
	}
	return a, nil
}

func readProtocol(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value, _ := s.String(key)
	got := func(a *answer) string {
		revision, _ := wire.GetString(a.handshake, "protocolVersion")
		return revision
	}
	return func(a *answer) *expect.Mismatch {
			if got(a) != value {
				return &expect.Mismatch{Message: "it speaks a different protocol revision", Want: value, Got: got(a)}
			}
			return nil
		}, func(a *answer) (string, error) {
			return tomlString(got(a)), nil
		}
}

// readCapabilities reads capabilities that the server must declare. More capabilities are no fault.
func readCapabilities(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value := s.Object(key)
	got := func(a *answer) []byte {
		declared, ok := wire.Get(a.handshake, "capabilities")
		if !ok {
			return []byte("{}")
		}
		return declared
	}
	return func(a *answer) *expect.Mismatch { return expect.Subset(value, got(a)) },
		func(a *answer) (string, error) { return tomlValue(project(value, got(a))) }
}

// surfaceOf maps expectations of names to the surface they are about, and the noun for an
// item.
var surfaceOf = map[string]struct {
	surface wire.Surface
	item    string
}{
	"tools": {wire.Tools, "tool"}, "resources": {wire.Resources, "resource"},
	"templates": {wire.Templates, "resource template"}, "prompts": {wire.Prompts, "prompt"},
}

// readNames reads names or URIs that a server must list.
func readNames(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	names := s.Strings(key)
	list := surfaceOf[key]
	return func(a *answer) *expect.Mismatch { return expect.Names(list.item, names, a.names(list.surface)) },
		func(a *answer) (string, error) { return tomlStrings(a.names(list.surface)), nil }
}

// names returns the names or URIs in a server's list, in the server's order.
func (a *answer) names(surface wire.Surface) []string {
	items, _ := wire.Elements(a.lists[surface])
	names := make([]string, 0, len(items))
	for _, item := range items {
		if name, ok := wire.GetString(item, surface.Key()); ok {
			names = append(names, name)
		}
	}
	return names
}

// readLock reads the name of a lock file.
func readLock(r *fileReader, s *config.Section, key string) (matcher, updater) {
	name, ok := s.String(key)
	if !ok {
		return nil, nil
	}
	if name == "" {
		s.Problem(key, "is empty (name a file; --record writes it)")
	}
	path := r.path(s, key, name)
	return func(a *answer) *expect.Mismatch { return compareWithLock(r.context(), r.file.place(path), a) }, nil
}

// compareWithLock compares the lists of a server with a lock.
func compareWithLock(ctx context.Context, at regular.Place, a *answer) *expect.Mismatch {
	l, err := pins.Read(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return &expect.Mismatch{Message: "there is no " + at.String() + " (--record writes it)"}
	}
	if err != nil {
		return &expect.Mismatch{Message: err.Error()}
	}
	changes, err := l.Compare(a.server, a.lists)
	if err != nil {
		return &expect.Mismatch{Message: err.Error()}
	}
	changes = append(l.CompareAbout(a.server, a.handshake), changes...)
	if len(changes) == 0 {
		return nil
	}
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.String()
	}
	return &expect.Mismatch{
		Message: "definitions differ from " + at.String() + " (--update accepts them)", Got: strings.Join(lines, "\n"),
	}
}

// writeLock replaces the definitions of a server in a lock. Other servers stay.
func writeLock(ctx context.Context, at regular.Place, a *answer) (changed bool, err error) {
	unlock, err := change.Lock(ctx, at.String()) // a proxy may write the same file
	if err != nil {
		return false, err
	}
	defer unlock()
	l, err := pins.Read(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		l, err = pins.New(), nil
	}
	if err != nil {
		return false, err
	}
	changes, err := l.Compare(a.server, a.lists)
	changes = append(changes, l.CompareAbout(a.server, a.handshake)...)
	if err != nil || len(changes) == 0 && l.Has(a.server) {
		return false, err
	}
	l.SetAbout(a.server, a.handshake)
	if err := l.Set(a.server, a.lists); err != nil {
		return false, err
	}
	return true, l.Write(at)
}

// verifyPins is the value of pins in [smoke] that requires servers to match their pins.
const verifyPins = "verify"

// readPins reads pins of [smoke].
func (r *fileReader) readPins(s *config.Section) {
	value, ok := s.String("pins")
	r.file.verifyPins = value == verifyPins
	if ok && value != verifyPins && value != string(config.PinsOff) {
		s.Problem("pins", "is neither %q nor %q", verifyPins, config.PinsOff)
	}
}

// PinsError is the error for a check that needs a server with a difference from its pins.
type PinsError struct {
	Server string
	// Pinned reports whether the server has pins.
	Pinned   bool
	Findings []*pins.Finding
	Path     string // of the file with the pins
}

func (e *PinsError) Error() string {
	if !e.Pinned {
		return fmt.Sprintf("server %q is not pinned in %s (mcp-metatool pins accept %s)", e.Server, e.Path, e.Server)
	}
	lines := []string{fmt.Sprintf("server %q is not as it was pinned in %s:", e.Server, e.Path)}
	for _, f := range e.Findings {
		lines = append(lines, f.Text())
	}
	return strings.Join(lines, "\n")
}

// checkPins returns an error if the file requires pins and a started server differs from its pins.
func (l *live) checkPins(ctx context.Context, server string, offers supervise.Snapshot) error {
	if !l.file.verifyPins {
		return nil
	}
	cfg := l.file.Config
	path := cfg.PinsPath()
	lock := pins.New()
	kept, err := host.ReadPins(ctx, cfg, l.log)
	if err == nil && kept.Data != nil {
		lock, err = pins.Decode(kept.Data, path)
	}
	if kept != nil {
		err = errors.Join(err, kept.Close())
	}
	if err != nil {
		return broken(err, "%v", err)
	}
	offer := pins.Offer{Handshake: offers.Handshake, Lists: map[wire.Surface][][]byte{}}
	for surface, list := range offers.Lists {
		offer.Lists[surface] = list.Items
	}
	status := pins.Inspect(lock, host.PinSettings(cfg), server, offer)
	if status.Pinned && len(status.Findings) == 0 {
		return nil
	}
	drift := &PinsError{Server: server, Pinned: status.Pinned, Findings: status.Findings, Path: path}
	return broken(drift, "%v", drift)
}

// checkAllPins is checkPins for all started servers.
func (l *live) checkAllPins(ctx context.Context, h *host.Host) error {
	if !l.file.verifyPins {
		return nil
	}
	for _, u := range l.file.Config.Upstreams {
		if u.Disabled || l.file.unset[u.Name] != nil || !l.needed(&u) {
			continue
		}
		offers, err := h.Snapshot(ctx, u.Name)
		if err != nil {
			continue // the call itself reports the error, if the call needs the server
		}
		if err := l.checkPins(ctx, u.Name, offers); err != nil {
			return err
		}
	}
	return nil
}
