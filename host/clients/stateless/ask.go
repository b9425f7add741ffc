package stateless

import (
	"context"
	"crypto/rand"
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
