package route

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// An elicitation of mode "url" sends the user to a page. An answer with the action "accept" only
// means that the user goes to the page. In the handshake era the server may announce the end of the
// visit, with notifications/elicitation/complete. In the stateless era the client learns of the end
// by repeating the request.

// visitWait is how long a repeated request waits for the announcement of the end of visits, if the
// server still wants them. Clients wait about a minute for an answer.
const visitWait = 30 * time.Second

// noteElicitation remembers the session of an elicitation that ends outside of the protocol.
func (r *Router) noteElicitation(s Session, e elicitation) {
	r.with(s, func(c *client) { keep(&c.elicitations, e, e.id, false) })
}

// noteElicitations remembers the elicitations requested by an error.
func (r *Router) noteElicitations(o Origin, server string, reply wire.Reply) {
	if o == nil || !asksForVisits(reply) {
		return
	}
	all, _ := visitsOf(wire.ParseError(reply.Error), maxElicitations)
	for _, e := range all {
		if id, ok := wire.GetString(e, "elicitationId"); ok && wire.ElicitationShape.Check(e) == nil {
			r.noteElicitation(o.Session(), elicitation{server, id})
		}
	}
}

// asksForVisits reports whether a reply is the error of the handshake era for pages that the user
// must visit.
func asksForVisits(reply wire.Reply) bool {
	return reply.Error != nil && wire.ParseError(reply.Error).Code == protocol.CodeURLElicitationRequired
}

// visitsOf returns the first elicitations in an error, at most as many as most, and none if the
// error has no array of elicitations. more reports that the error has further elicitations.
func visitsOf(bad *wire.RPCError, most int) (all [][]byte, more bool) {
	raw, _ := wire.Get(bad.Data, "elicitations")
	all, more, _ = wire.FirstElements(raw, most)
	return all, more
}

// elicited delivers the end of an elicitation of mode "url" to the session.
func (p Peer) elicited(m wire.Inbound) {
	id, _ := wire.GetString(m.Params, "elicitationId")
	e := elicitation{p.conn.server, id}
	to := p.router.sessions(func(c *client) bool {
		_, ok := c.elicitations.get(e)
		if ok {
			c.elicitations.values[e] = true
			c.tellVisited()
		}
		return ok
	})
	if len(to) == 0 {
		to = p.router.everyone(p.conn)
		if len(to) != 1 {
			p.router.Log.Debug("end of an elicitation that no session knows of", "upstream", p.conn.server, "id", id)
			return
		}
	}
	for _, s := range to {
		s.Notify(m.Method, m.Params)
	}
}

// tellVisited wakes the requests that wait for the end of a visit.
func (c *client) tellVisited() {
	if c.visited != nil {
		close(c.visited)
		c.visited = nil
	}
}

// askForVisit turns the error of the handshake era for pages that the user must visit into a result
// with these elicitations. No call waits for the visit: the client repeats the request.
func (r *Router) askForVisit(call Call, bad *wire.RPCError) wire.Reply {
	all, more := visitsOf(bad, maxQuestions)
	switch {
	case more:
		return fail(wire.CodeInternal, "%s: the server asks for visits of more than %d pages at once", call.Method, maxQuestions)
	case len(all) == 0 || !slices.Contains(mayAsk, call.Method):
		return fail(wire.CodeInternal, "%s: %s", call.Method, bad.Message)
	case !declares(call.Origin.Client(), "elicitation", "url"):
		return wire.Reply{Error: envelope.MissingCapability([]byte(`{"elicitation":{"url":{}}}`), "%s", bad.Message).Raw()}
	case call.visits != "" && refuses(call.inputs.Responses):
		return notVisited(call, bad)
	}
	var requests wire.Object
	var ids []string
	for _, e := range all {
		params, err := wire.Delete(e, "elicitationId")
		id, _ := wire.GetString(e, "elicitationId")
		if err != nil || wire.ElicitationShape.Check(e) != nil {
			return fail(wire.CodeInternal, "%s: malformed error of the server", call.Method)
		}
		var request wire.Object
		request.Text("method", protocol.MethodElicit)
		request.Raw("params", params)
		requests.Raw(rand.Text(), request.Bytes())
		ids = append(ids, id)
	}
	var result wire.Object
	result.Text("resultType", envelope.TypeInputRequired)
	result.Raw("inputRequests", requests.Bytes())
	return r.sealReply(call, wire.Reply{Result: result.Bytes()}, requeststate.Visit, wire.Marshal(ids))
}

// refuses reports whether an answer means that the user does not visit a page.
func refuses(responses []byte) bool {
	return hasAction(responses, func(action string) bool { return action != "accept" })
}

func hasAction(responses []byte, is func(action string) bool) bool {
	all, _ := wire.Members(responses)
	return slices.ContainsFunc(all, func(m wire.Member) bool {
		action, ok := wire.GetString(m.Value, "action")
		return ok && is(action)
	})
}

// notVisited returns the reply to a request whose server insists on a visit refused by the user.
// Asking again would be of no use.
func notVisited(call Call, bad *wire.RPCError) wire.Reply {
	text := fmt.Sprintf("the server needs the user to visit a page first, and the user has not agreed: %s", bad.Message)
	if call.Method == protocol.MethodToolsCall {
		return wire.Reply{Result: ErrorResult(text)}
	}
	return fail(wire.CodeInternal, "%s: %s", call.Method, text)
}

// awaitVisits reports whether a request is to be made again, because the server asked for visits
// that are over now. The user has agreed to the visits, but may have to log in before their end. A
// client that repeats the request at once would give up too early.
func (r *Router) awaitVisits(ctx context.Context, call Call, reply wire.Reply) bool {
	if call.visits == "" || !asksForVisits(reply) || refuses(call.inputs.Responses) ||
		!hasAction(call.inputs.Responses, func(action string) bool { return action == "accept" }) {
		return false
	}
	timer := time.NewTimer(visitWait)
	defer timer.Stop()
	for {
		over, changed := r.visited(call.Origin.Session(), call.visits)
		if over {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return true // the server may not announce anything
		case <-ctx.Done():
			return false
		}
	}
}

// visited reports whether all elicitations with ids have ended, and returns a channel that is
// closed when an elicitation ends. For an ended session, over is true.
func (r *Router) visited(s Session, ids string) (over bool, changed <-chan struct{}) {
	raw, _ := wire.Elements([]byte(ids))
	over = true
	r.with(s, func(c *client) {
		ended := map[string]bool{}
		for e, done := range c.elicitations.values {
			ended[e.id] = ended[e.id] || done
		}
		for _, id := range raw {
			text, _ := wire.Text(id)
			over = over && ended[text]
		}
		if c.visited == nil {
			c.visited = make(chan struct{})
		}
		changed = c.visited
	})
	return over, changed
}

// page is a page to which a client of the handshake era has sent the user for an upstream of the
// stateless era.
type page struct {
	id     string // of the elicitation, which we have made
	params string // from the upstream
	answer []byte
	since  time.Time
}

// pages are the pages that the user has agreed to visit for a call.
type pages []page

// size returns how many bytes their answers have.
func (all pages) size() (n int64) {
	for _, p := range all {
		n += int64(len(p.answer))
	}
	return n
}

// find returns the page to visit in a request.
func (all pages) find(request []byte) (page, bool) {
	params, isVisit := visitParams(request)
	i := slices.IndexFunc(all, func(p page) bool { return isVisit && p.params == string(params) })
	if i < 0 {
		return page{}, false
	}
	return all[i], true
}

// leave removes the pages that a reply no longer wants, and returns their ids.
func (all *pages) leave(reply wire.Reply) (ids []string) {
	wanted := map[string]bool{}
	if asks(reply) {
		raw, _ := wire.Get(reply.Result, "inputRequests")
		requests, _ := wire.Members(raw)
		for _, m := range requests {
			params, _ := visitParams(m.Value)
			wanted[string(params)] = true
		}
	}
	*all = slices.DeleteFunc(*all, func(p page) bool {
		if !wanted[p.params] {
			ids = append(ids, p.id)
		}
		return !wanted[p.params]
	})
	return ids
}

// visitParams returns the params of a request to visit a page.
func visitParams(request []byte) (params []byte, ok bool) {
	method, _ := wire.GetString(request, "method")
	params, _ = wire.Get(request, "params")
	mode, _ := wire.GetString(params, "mode")
	return params, method == protocol.MethodElicit && mode == "url"
}
