package stateless

import (
	"encoding/binary"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// ticket is the payload of the state of a parked call: the id and the round.
func ticket(id string, round uint64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, round), id...)
}

// retry answers a request with a state. retry returns false for a request without a state, or with
// a state for the backend. All unusable states are refused with the same error.
func (p *Principal) retry(r *rpc.Request, e envelope.Envelope) (done bool) {
	raw, ok := wire.Get(r.Params, "requestState")
	if !ok {
		return false
	}
	state, ok := wire.Text(raw)
	if !ok {
		r.Reply(fail(wire.CodeInvalidParams, "%s: params.requestState must be a string", r.Method))
		return true
	}
	opened, err := p.opts.Sealer.OpenState(p.binding(r.Method, r.Params), state)
	switch {
	case err != nil:
	case opened.Kind != requeststate.Parked:
		return false
	case opened.Home != "": // and the request could not be passed on
		r.Reply(p.lost(r.Method, opened.Home))
		return true
	default:
		if x, round, ok := p.ticketHolder(opened.Payload); ok {
			answers, bad := answersOf(r)
			if bad == nil {
				bad = x.attach(r, e, round, answers)
			}
			if bad != nil {
				r.Reply(wire.Reply{Error: bad.Raw()})
			}
			return true
		}
		if p.ctx.Err() != nil {
			r.Reply(wire.Reply{Error: p.ending(r.Method).Raw()})
			return true
		}
	}
	r.Reply(wire.Reply{Error: invalidState().Raw()})
	return true
}

// ending returns the error for a call that waited until the end of this process.
func (p *Principal) ending(method string) *wire.RPCError {
	return wire.Errorf(wire.CodeInternal, "%s: the call waited for answers in a process that is ending: the call is lost, and the server may have carried out a part of the call "+
		"(begin again without requestState)", method)
}

// lost returns the error for a call of another replica that cannot be reached.
func (p *Principal) lost(method, replica string) wire.Reply {
	if p.opts.Lost == nil {
		return wire.Reply{Error: invalidState().Raw()}
	}
	description, ended := p.opts.Lost(replica)
	if ended {
		return fail(wire.CodeInvalidParams, "%s: the call waited for answers in %s: the call is lost, and the server may have carried out a part of the call "+
			"(begin again without requestState)", method, description)
	}
	return fail(wire.CodeInternal, "%s: the call waits for answers in %s (try again later; it is lost if that replica has ended)", method, description)
}

func invalidState() *wire.RPCError {
	return wire.Errorf(wire.CodeInvalidParams, "%v", requeststate.ErrInvalid)
}

func (p *Principal) ticketHolder(payload []byte) (x *Exchange, round uint64, ok bool) {
	if len(payload) < 8 {
		return nil, 0, false
	}
	x, ok = p.find(string(payload[8:]))
	return x, binary.BigEndian.Uint64(payload), ok
}

// answersOf returns the answers in a request, a raw object; nil for none.
func answersOf(r *rpc.Request) ([]byte, *wire.RPCError) {
	answers, ok := wire.Get(r.Params, "inputResponses")
	if ok && !wire.IsObject(answers) {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses must be an object", r.Method)
	}
	return answers, nil
}

// attach makes a request the open request of a parked call, and passes the answers on. Keys of
// unknown questions are ignored. Questions without an answer are asked again. An error changes no
// state, and the client can repeat the request.
func (x *Exchange) attach(r *rpc.Request, e envelope.Envelope, round uint64, answers []byte) *wire.RPCError {
	x.mu.Lock()
	if x.at != nil || x.round != round || x.cause != nil {
		ended := x.cause != nil
		x.mu.Unlock()
		if ended && x.principal.ctx.Err() != nil {
			return x.principal.ending(x.method)
		}
		return invalidState()
	}
	var open []*question
	replies := map[*question]wire.Reply{}
	for _, q := range x.questions {
		raw, ok := wire.Get(answers, q.key)
		if !ok {
			open = append(open, q)
			continue
		}
		if bad := envelope.CheckAnswer(q.method, raw); bad != "" {
			x.mu.Unlock()
			return wire.Errorf(wire.CodeInvalidParams, "%s: params.inputResponses.%s %s", x.method, q.key, bad)
		}
		replies[q] = wire.Reply{Result: raw}
	}
	now := saidBy(e)
	if err := x.kept.Add(max(0, len(now.client)-len(x.said.client))); err != nil {
		x.mu.Unlock()
		return wire.Errorf(wire.CodeInternal, "%s: %v", x.method, noMemory(err))
	}
	x.stop(&x.expiry)
	x.said, x.questions = now, open
	over, reply := x.over, x.reply
	if over {
		x.cause, x.reply = wire.ErrClosed, wire.Reply{} // so that no other request is attached
	} else {
		x.count()
		x.at, x.span = r, r.Span()
		if len(open) > 0 {
			x.gather()
		}
	}
	x.mu.Unlock()
	if over {
		x.principal.forget(x)
		r.Reply(x.complete(r, reply))
		return nil
	}
	r.OnCancel(func(cause error) { x.dropped(r, cause) })
	for q, reply := range replies {
		q.answer <- reply // has room for the answer
	}
	return nil
}
