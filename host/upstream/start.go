package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// handshake initializes the server and returns its capabilities, raw.
func (u *Upstream) handshake(ctx context.Context, l link) (capabilities []byte, err error) {
	params, err := u.hello(ctx, l)
	if err != nil {
		return nil, err
	}
	ctx, cancel := u.deadline(ctx, string(mcp.MethodInitialize))
	defer cancel()
	res, err := initialize(ctx, l, params)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.status.ServerName, u.status.ServerVersion = clip(res.ServerName), clip(res.ServerVersion)
	u.status.ProtocolVersion = res.ProtocolVersion
	u.server = res.Raw
	settle(u.shaken)
	u.mu.Unlock()
	if u.opts.OnHandshake != nil {
		u.opts.OnHandshake(res.Raw)
	}
	return res.Capabilities, nil
}

// hello gets the params of initialize from the owner, for as long as the link
// lives.
func (u *Upstream) hello(ctx context.Context, l link) ([]byte, error) {
	if u.opts.Hello == nil {
		return ClientParams{Name: u.opts.ClientName, Version: u.opts.ClientVersion}.raw(), nil
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
	params, err := u.opts.Hello(ctx)
	cancel(nil)
	wg.Wait()
	if down := l.Err(); down != nil {
		return nil, down
	}
	u.mu.Lock()
	u.begun = u.begun.Add(time.Since(asked))
	u.mu.Unlock()
	return params, err
}

// list lists a surface and hands out what it has. The old list stays if that
// fails.
func (u *Upstream) list(ctx context.Context, l link, s wire.Surface) error {
	ctx, cancel := u.deadline(ctx, s.ListMethod())
	defer cancel()
	items, meta, err := listAll(ctx, l, s, u.log)
	var refused *wire.RPCError
	if s == wire.Templates && errors.As(err, &refused) && refused.Code == wire.CodeMethodNotFound {
		items, err = [][]byte{}, nil // no capability of their own says whether there are any
	}
	if err != nil {
		return err
	}
	u.listed(s, items, meta)
	return nil
}

// unlisted tells of a listing that failed and does no more harm.
func (u *Upstream) unlisted(s wire.Surface, err error) {
	u.log.Warn("listing failed; what was known stays", "list", string(s), "err", err)
	u.setErr(err.Error())
}

func (u *Upstream) listed(s wire.Surface, items [][]byte, meta []byte) {
	u.mu.Lock()
	*u.status.count(s) = len(items)
	u.mu.Unlock()
	if u.opts.OnList != nil {
		u.opts.OnList(s, items, meta)
	}
}

func (u *Upstream) deadline(ctx context.Context, method string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, u.spec.Timeout,
		&TimeoutError{Upstream: u.spec.Name, Method: method, After: u.spec.Timeout})
}

// changed maps each list_changed to the surfaces that it is about.
var changed = func() map[string][]wire.Surface {
	m := make(map[string][]wire.Surface)
	for _, s := range wire.Surfaces {
		m[s.ChangedMethod()] = append(m[s.ChangedMethod()], s)
	}
	return m
}()

// notification runs on the link's read loop. A change of a list while it is
// being read asks for one more listing after it, however often it comes.
func (u *Upstream) notification(m wire.Inbound) {
	if surfaces := changed[m.Method]; surfaces != nil {
		u.mu.Lock()
		for _, s := range surfaces {
			u.wanted[s] = true
		}
		u.mu.Unlock()
		select {
		case u.relist <- struct{}{}:
		default: // a token is there already, and whoever takes it sees this change as well
		}
	}
	if u.opts.OnNotification != nil {
		u.opts.OnNotification(m)
	}
}

// toRelist takes the surfaces that are to be listed again.
func (u *Upstream) toRelist() []wire.Surface {
	u.mu.Lock()
	defer u.mu.Unlock()
	var surfaces []wire.Surface
	for _, s := range wire.Surfaces {
		if u.wanted[s] {
			surfaces = append(surfaces, s)
		}
	}
	clear(u.wanted)
	return surfaces
}

// request answers a request of the server.
func (u *Upstream) request(ctx context.Context, m wire.Inbound) wire.Reply {
	if u.opts.OnRequest == nil {
		return builtin(m.Method)
	}
	u.asking.Add(1)
	defer u.asking.Add(-1)
	return u.opts.OnRequest(ctx, m)
}

// garbled keeps the first line that was no message, for Status.Err.
func (u *Upstream) garbled(_ string, raw []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.garbage == "" {
		u.garbage = clip(string(raw))
	}
}
