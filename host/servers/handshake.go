package servers

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// ClientParams are the params of initialize.
type ClientParams struct {
	Name, Version string // clientInfo
	Capabilities  []byte // raw object; nil: {}
}

// InitializeResult is a server's answer to initialize. A missing string is "".
type InitializeResult struct {
	ProtocolVersion string
	ServerName      string
	ServerVersion   string
	Instructions    string
	Capabilities    []byte // raw; nil if absent
	Raw             []byte // the whole result
}

// Conn is the part of a link for the handshake.
type Conn interface {
	Call(ctx context.Context, call wire.Call) (wire.Reply, error)
	Notify(ctx context.Context, method string, params []byte) error
	Negotiated(revision protocol.Revision)
}

// Initialize does the handshake (revision 2025-11-25, basic/lifecycle): Initialize sends initialize
// with raw params (see ClientParams.Params), checks the answer, and sends
// notifications/initialized. Initialize must be called once, before any other request. After an
// error the connection is unusable and should be closed. The error wraps a *wire.RPCError if the
// server refused, is a *VersionError if the server chose an unsupported revision, or is an error of
// Call.
func Initialize(ctx context.Context, conn Conn, params []byte) (InitializeResult, error) {
	reply, err := conn.Call(ctx, wire.Call{Method: protocol.MethodInitialize, Params: params})
	if err != nil {
		return InitializeResult{}, err
	}
	if reply.Error != nil {
		return InitializeResult{}, fmt.Errorf("server refused initialize: %w", parseError(reply.Error))
	}
	res := InitializeResult{Raw: reply.Result}
	res.ProtocolVersion, _ = wire.GetString(reply.Result, "protocolVersion")
	revision, ok := protocol.Handshake.Lookup(res.ProtocolVersion)
	if !ok {
		return InitializeResult{}, &VersionError{Version: link.Excerpt(res.ProtocolVersion)}
	}
	res.ServerName, _ = wire.GetString(reply.Result, "serverInfo", "name")
	res.ServerVersion, _ = wire.GetString(reply.Result, "serverInfo", "version")
	res.Instructions, _ = wire.GetString(reply.Result, "instructions")
	res.Capabilities, _ = wire.Get(reply.Result, "capabilities")
	conn.Negotiated(revision)
	return res, conn.Notify(ctx, protocol.NotificationInitialized, nil)
}

// Params returns the raw params object of initialize.
func (p ClientParams) Params() []byte {
	if p.Capabilities == nil {
		p.Capabilities = []byte("{}")
	}
	var params, client wire.Object
	params.Text("protocolVersion", protocol.Handshake.Newest().String())
	params.Raw("capabilities", p.Capabilities)
	client.Text("name", p.Name)
	client.Text("version", p.Version)
	params.Raw("clientInfo", client.Bytes())
	return params.Bytes()
}

// parseError parses a server's error object and makes the message safe to show.
func parseError(raw []byte) *wire.RPCError {
	e := wire.ParseError(raw)
	e.Message = link.Excerpt(e.Message)
	return e
}

// handshake agrees with the server on a revision, and passes on the server's description of itself.
func (u *Upstream) handshake(ctx context.Context, l link.Link, in *inbox) (agreement, error) {
	a, err := u.agree(ctx, l, in)
	if err != nil {
		return agreement{}, err
	}
	if u.opts.Accept != nil {
		if err := u.opts.Accept(a.result); err != nil {
			return agreement{}, err
		}
	}
	u.mu.Lock()
	u.status.ServerName, u.status.ServerVersion = link.Excerpt(a.name), link.Excerpt(a.version)
	u.status.ProtocolVersion, u.status.Agreed = a.revision, a.how
	u.initializeResult = a.result
	u.mu.Unlock()
	if u.opts.OnHandshake != nil {
		u.opts.OnHandshake(a.result)
	}
	u.mu.Lock()
	closeIfOpen(u.handshakeDone)
	u.mu.Unlock()
	return a, nil
}

// initializeParams returns the params of initialize from Options.InitializeParams, or an error if
// the link ends meanwhile.
func (u *Upstream) initializeParams(ctx context.Context, l link.Link) ([]byte, error) {
	if u.opts.InitializeParams == nil {
		return ClientParams{Name: u.opts.ClientName, Version: u.opts.ClientVersion}.Params(), nil
	}
	asked := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-l.Done():
			cancel(l.Err())
		case <-ctx.Done():
		}
	})
	params, err := u.opts.InitializeParams(ctx)
	cancel(nil)
	wg.Wait()
	if down := l.Err(); down != nil {
		return nil, down
	}
	u.mu.Lock()
	u.startBegan = u.startBegan.Add(time.Since(asked))
	u.mu.Unlock()
	return params, err
}

// freshness returns how long a list read now is current, without the server's own hints.
func (u *Upstream) freshness(l link.Link, s wire.Surface) envelope.Freshness {
	f := envelope.Freshness{Read: time.Now()}
	if stateless, ok := l.(*stateless.Link); ok {
		f.Live = stateless.Announces(s)
	} else if server, ok := u.Server(); ok {
		raw, _ := wire.Get(server, "capabilities", s.Capability(), "listChanged")
		f.Live = string(raw) == "true"
	}
	return f
}

// unlisted records a failed listing.
func (u *Upstream) unlisted(s wire.Surface, err error) {
	u.log.Warn("listing failed: the previous list is kept", "list", string(s), "err", err)
	u.setErr(err.Error())
}

// listed records a list and passes the list on.
func (u *Upstream) listed(l List) {
	u.mu.Lock()
	*u.status.count(l.Surface) = len(l.Items)
	u.lists[l.Surface].fresh = l.Fresh
	u.mu.Unlock()
	if u.opts.OnList != nil {
		u.opts.OnList(l)
	}
}

func (u *Upstream) deadline(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, u.spec.Timeout,
		&TimeoutError{Upstream: u.spec.Name, Method: method, After: u.spec.Timeout})
}

// notification handles a notification of the server, on the link's read loop.
func (u *Upstream) notification(m wire.Inbound) {
	if surfaces := announced[m.Method]; surfaces != nil {
		u.announce(surfaces, true, m.Params)
	}
	if u.opts.OnNotification != nil {
		u.opts.OnNotification(m)
	}
}

// request answers a request from the server.
func (u *Upstream) request(ctx context.Context, m wire.Inbound) wire.Reply {
	u.answering.Add(1)
	defer u.answering.Add(-1)
	return u.opts.OnRequest(context.WithValue(ctx, askingKey{}, u), m)
}

type askingKey struct{}

// Asking returns the upstream of the request being answered with ctx, or nil. The server may have
// several processes, or a newer process than the returned upstream.
func Asking(ctx context.Context) *Upstream {
	u, _ := ctx.Value(askingKey{}).(*Upstream)
	return u
}

// noteGarbage keeps the first line that was not a message, for Status.Err.
func (u *Upstream) noteGarbage(_ string, raw []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.firstGarbage == "" {
		u.firstGarbage = link.Excerpt(string(raw))
	}
}
