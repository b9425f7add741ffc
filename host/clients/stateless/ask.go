package stateless

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// gatherTime is how long a question waits for more questions, so that the client gets related
// questions in the same answer.
const gatherTime = 10 * time.Millisecond

// maxQuestions bounds the open questions of a call.
const maxQuestions = 64

// Errors of calls that end because the client does not answer.
var (
	errAbandoned = errors.New("the client has not answered in time")
	errQuestions = fmt.Errorf("a call has more than %d open questions", maxQuestions)
)

// question is a request of an upstream to the client.
type question struct {
	key     string
	method  string
	request []byte // in the form for the client
	// withdrawn returns an error once the upstream no longer wants the answer.
	withdrawn func() error
	// answer holds the answer, and is closed without an answer when the call ends.
	answer chan wire.Reply
}

// Ask implements route.Origin. The client gets the question as the answer to the open request, or
// to the next request.
func (x *Exchange) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	q, err := x.question(ctx, call)
	if err != nil {
		return wire.Reply{}, err
	}
	select {
	case reply, ok := <-q.answer:
		if !ok {
			return wire.Reply{}, x.whyClosed()
		}
		return reply, nil
	case <-ctx.Done():
		x.mu.Lock()
		x.questions = slices.DeleteFunc(x.questions, func(other *question) bool { return other == q })
		x.count()
		x.mu.Unlock()
		return wire.Reply{}, context.Cause(ctx)
	}
}

// whyClosed returns the error of a question that got no answer before the end of the call.
func (x *Exchange) whyClosed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cause == nil {
		return route.ErrAnswered
	}
	return wire.ErrClosed
}

// question adds an open question.
func (x *Exchange) question(ctx context.Context, call wire.Call) (*question, error) {
	if !MayAsk(x.method) {
		return nil, fmt.Errorf("%s: %w", call.Method, ErrNoRequest)
	}
	request, err := envelope.Question(call.Method, call.Params)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.over && x.cause == nil:
		return nil, route.ErrAnswered
	case x.cause != nil:
		return nil, wire.ErrClosed
	case len(x.questions) >= maxQuestions:
		return nil, errQuestions
	case x.id == "":
		if err := x.principal.register(x, rand.Text(), len(request)); err != nil {
			return nil, err
		}
	default:
		if err := x.kept.Add(len(request)); err != nil {
			return nil, noMemory(err)
		}
	}
	x.asked++
	q := &question{
		key: questionKey(x.asked), method: call.Method, withdrawn: ctx.Err,
		request: request, answer: make(chan wire.Reply, 1),
	}
	x.questions = append(x.questions, q)
	x.gather()
	return q, nil
}

func questionKey(number int) string { return "q" + strconv.Itoa(number) }

// gather sends the questions soon, if a request is open. The caller holds x.mu.
func (x *Exchange) gather() {
	if x.at != nil && x.gathering == nil {
		x.gathering = x.after(gatherTime, x.park)
	}
}

// park answers the open request with the questions.
func (x *Exchange) park() {
	x.mu.Lock()
	x.gathering = nil
	r := x.at
	if r == nil || x.over || x.cause != nil || len(x.questions) == 0 {
		x.mu.Unlock()
		return
	}
	x.round++
	state, err := x.principal.seal(x.method, x.params, requeststate.Parked, ticket(x.id, x.round))
	if err != nil { // params that parsers may read differently
		x.mu.Unlock()
		x.refuse(r, err)
		return
	}
	var requests wire.Object
	for _, q := range x.questions {
		requests.Raw(q.key, q.request)
	}
	x.at = nil
	round := x.round
	x.expiry = x.after(x.principal.inputTimeout(), func() { x.expire(round) })
	x.mu.Unlock()
	if !r.Reply(wire.Reply{Result: inputRequired(requests.Bytes(), state, x.principal.serverInfo)}) {
		x.abandon(errGone) // the client has cancelled the request meanwhile, so no other request will follow
	}
}

// errGone is the cause of the cancellation of a call if the client does not get the question.
var errGone = fmt.Errorf("the client has gone away: %w", wire.ErrClosed)

// refuse answers a request for a call that cannot be continued, and cancels the call.
func (x *Exchange) refuse(r *rpc.Request, err error) {
	x.mu.Lock()
	open := x.at == r
	if open {
		x.at = nil
	}
	x.mu.Unlock()
	if open {
		r.Reply(fail(wire.CodeInvalidParams, "%s: params: %v", x.method, err))
	}
	x.abandon(err)
}

// expire ends a call if the client has not come back since the round.
func (x *Exchange) expire(round uint64) {
	x.abandonIf(errAbandoned, func() bool { return x.at == nil && x.round == round })
}

// seal seals a state for a request of the principal.
func (p *Principal) seal(method string, params []byte, kind requeststate.Kind, payload []byte) (string, error) {
	return p.opts.Sealer.SealHere(kind, p.binding(method, params), payload, p.inputTimeout())
}

func (p *Principal) binding(method string, params []byte) requeststate.Binding {
	return requeststate.Binding{Principal: p.opts.Principal, Method: method, Params: params}
}

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
	now := senderOf(e)
	if err := x.kept.Add(max(0, len(now.client)-len(x.sender.client))); err != nil {
		x.mu.Unlock()
		return wire.Errorf(wire.CodeInternal, "%s: %v", x.method, noMemory(err))
	}
	x.stop(&x.expiry)
	x.sender, x.questions = now, open
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
