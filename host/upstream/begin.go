package upstream

import (
	"context"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Begin is Call for a caller that does not wait: the request is on its way when
// it returns, and landed is called once, perhaps before that: with the answer,
// or with rest, which has to be called and gives what Call would have returned.
// landed runs on a goroutine of the connection and must not block; rest may.
//
// cancel ends the call as the end of ctx with that cause ends Call; once it has
// ended, that is nothing. It does not block either.
//
// It is not ok, and nothing has been done, where the call would have to wait: for
// the upstream, or for the server to read; and for a call that wants progress or
// waits for a task, or over a link that cannot do without a goroutine for each.
func (u *Upstream) Begin(call wire.Call, landed wire.CompletionFunc) (cancel func(cause error), ok bool) {
	if call.Progress != nil || call.Method == methodTasksResult {
		return nil, false
	}
	u.mu.Lock()
	l := u.link
	u.mu.Unlock()
	conn, ok := l.(beginningLink)
	if !ok {
		return nil, false
	}
	_, limit := u.newLimit(call)
	id, ok := conn.begin(call, limit, func(reply wire.Reply, rest wire.Continuation) {
		if rest == nil {
			landed(reply, nil)
			return
		}
		landed(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) {
			reply, err := rest(ctx)
			if err == nil {
				return reply, nil
			}
			u.noteTimeout(err)
			if !surelyUnsent(err) {
				return reply, err
			}
			next, err := u.connection(ctx, l) // l had ended unnoticed, as in Call
			if err != nil {
				return wire.Reply{}, err
			}
			return u.callOn(ctx, next, call)
		})
	})
	if !ok {
		return nil, false
	}
	return func(cause error) { conn.forsake(id, cause) }, true
}

// beginningLink is a link that can do without a goroutine for each call.
type beginningLink interface {
	// begin is Upstream.Begin; id is for forsake.
	begin(call wire.Call, l *limit, landed wire.CompletionFunc) (id int64, ok bool)
	// forsake ends a call that was begun, with an error, unless it is over.
	forsake(id int64, cause error)
}

func (c *Conn) begin(call wire.Call, l *limit, landed wire.CompletionFunc) (id int64, ok bool) {
	params, err := withToken(call, nil, 0) // it has no Progress
	if err != nil {
		return 0, false
	}
	if call.Sent != nil {
		call.Sent(params)
	}
	p := newPending(call)
	p.landed, p.limit = landed, l
	if id, err = c.register(p); err != nil {
		p.recycle()
		return 0, false
	}
	if c.out.trySend(outgoing{msg: wire.Request(id, call.Method, params), call: id, permit: call.Permit}) {
		return id, true
	}
	// When the connection has ended meanwhile, landed is told so.
	if p := c.take(id); p != nil {
		p.recycle()
		return 0, false
	}
	return id, true
}

// land gives a call that was begun its outcome. It is on whichever goroutine
// has taken it.
func (c *Conn) land(id int64, p *pending, o outcome) {
	landed := p.landed
	p.recycle()
	if o.err == nil {
		landed(o.reply, nil)
		return
	}
	o.unbegun = o.unbegun || c.out.withdraw(id) // while the writer still holds it
	landed(wire.Reply{}, func(ctx context.Context) (wire.Reply, error) { return c.concluded(ctx, id, o) })
}

func (c *Conn) forsake(id int64, cause error) {
	c.mu.Lock()
	p := c.abandon(id)
	c.mu.Unlock()
	if p == nil {
		return // it is over
	}
	landed := p.landed
	c.takeBack(id, p, cause)
	p.recycle()
	landed(wire.Reply{}, func(context.Context) (wire.Reply, error) { return wire.Reply{}, cause })
}

// watchOver has the limit of p looked at when its time is up. One timer does for
// all calls that were begun. The caller holds c.mu.
func (c *Conn) watchOver(p *pending) {
	p.due = p.limit.first()
	if !c.watching { // else it is set for a call before, which is due before
		c.watchFor(time.Until(p.due))
	}
}

// watchFor sets the timer. The caller holds c.mu.
func (c *Conn) watchFor(wait time.Duration) {
	c.watching = true
	c.wg.Add(1) // until look has returned, or the timer is stopped
	if c.watch == nil {
		c.watch = time.AfterFunc(wait, c.look)
	} else {
		c.watch.Reset(wait)
	}
}

// unwatch stops the timer. The caller holds c.mu.
func (c *Conn) unwatch() {
	if c.watching && c.watch.Stop() {
		c.watching = false
		c.wg.Done()
	}
}

// look ends the calls that were begun and whose time is up.
func (c *Conn) look() {
	defer c.wg.Done()
	type late struct {
		id  int64
		err error
	}
	var over []late
	var next time.Time // when the first of the others is due
	c.mu.Lock()
	now := time.Now()
	for id, p := range c.pending {
		if p.landed == nil {
			continue
		}
		if !now.Before(p.due) {
			if err := p.limit.verdict(); err != nil {
				over = append(over, late{id, err})
				continue
			}
			wait, _ := p.limit.next()
			p.due = now.Add(wait)
		}
		if next.IsZero() || p.due.Before(next) {
			next = p.due
		}
	}
	c.watching = false
	if !next.IsZero() {
		c.watchFor(next.Sub(now))
	}
	c.mu.Unlock()
	for _, l := range over {
		c.forsake(l.id, l.err)
	}
}
