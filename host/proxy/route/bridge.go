package route

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Bounds of the questions of a call that the router asks the client on behalf of an upstream of the
// stateless era.
const (
	maxRounds    = 8                      // of questions
	maxQuestions = 32                     // in a round
	answerWait   = 10 * time.Minute       // for the answers of a round
	roundPause   = 250 * time.Millisecond // before a round without questions
	visitPause   = time.Second            // before asking whether a visit is over; doubles each time,
	maxPause     = 10 * time.Second       // up to this
)

// errAnswerWait is the cause of the end of questions without an answer of the client.
var errAnswerWait = fmt.Errorf("the client did not answer within %v", answerWait)

// bridge is a call of an upstream of the stateless era on behalf of an origin that cannot get
// questions in a result: a client of the handshake era, or a script. The bridge asks the client in
// the middle of the call.
type bridge struct {
	origin Origin // nil if no client has asked for the call
	server string
	budget *budget.Budget // with the memory of answers; nil: answers are not counted
	// again makes the call again, with the answers.
	again func(ctx context.Context, in wire.Inputs) (wire.Reply, error)

	kept  *budget.Account // answers; nil before the first question
	pages pages           // visited by the user
	pause time.Duration   // before the next question whether they have been visited
}

// end gives back the memory of the kept answers.
func (b *bridge) end() { b.kept.Close() }

// keep returns a copy of an answer, kept until the upstream has all answers. The copy is counted
// for the client, since the memory of the message is given back.
func (b *bridge) keep(answer []byte) ([]byte, error) {
	if err := b.kept.Add(len(answer)); err != nil {
		return nil, &inputError{"the client's answer is lost: " + limits.Explain(err)}
	}
	return bytes.Clone(answer), nil
}

// inputError is the reason why the client cannot be asked.
type inputError struct{ text string }

func (e *inputError) Error() string { return e.text }

// finish returns the first reply without a question, beginning with reply itself. The error is an
// *inputError, an error of again, or the cause of ctx.
func (b *bridge) finish(ctx context.Context, reply wire.Reply) (wire.Reply, error) {
	defer b.end()
	for rounds := 0; reply.Error == nil && asks(reply); {
		in, visiting, err := b.round(ctx, reply.Result, rounds)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return wire.Reply{}, err
		}
		if !visiting {
			rounds++
		}
		if reply, err = b.again(ctx, in); err != nil {
			return wire.Reply{}, err
		}
		b.tellVisited(reply)
		_ = b.kept.Set(b.pages.size())
	}
	return reply, nil
}

// tellVisited tells the client of the pages for which the upstream no longer needs a visit.
func (b *bridge) tellVisited(reply wire.Reply) {
	for _, id := range b.pages.leave(reply) {
		if reply.Error == nil {
			var params wire.Object
			params.Text("elicitationId", id)
			b.origin.Notify(protocol.NotificationElicitationDone, params.Bytes())
		}
	}
}

// round asks the client the questions of a result, and returns the answers. visiting reports that
// no question was left, because the user visits the pages already; then round has waited a while.
func (b *bridge) round(ctx context.Context, result []byte, rounds int) (in wire.Inputs, visiting bool, err error) {
	raw, asked := wire.Get(result, "inputRequests")
	state, continued := wire.Get(result, "requestState")
	requests, ok := wire.Members(raw)
	in.State = state
	switch {
	case !asked && !continued, asked && !ok:
		return in, false, &inputError{fmt.Sprintf("upstream %q asks the client something, but its answer is malformed", b.server)}
	case len(requests) > maxQuestions:
		return in, false, &inputError{fmt.Sprintf("upstream %q asks the client %d things at once (%d are allowed)", b.server, len(requests), maxQuestions)}
	}
	if visiting, err = b.visiting(requests); err != nil {
		return in, false, err
	}
	if !visiting && rounds == maxRounds {
		return in, false, &inputError{fmt.Sprintf("upstream %q asked the client something %d times in a row, and still asks", b.server, maxRounds+1)}
	}
	if len(requests) == 0 {
		return in, false, pause(ctx, roundPause)
	}
	for _, m := range requests {
		if err := b.check(m.Value); err != nil {
			return in, false, err
		}
	}
	if visiting {
		err = pause(ctx, b.pause)
		b.pause = min(2*b.pause, maxPause)
	}
	if err == nil {
		in.Responses, err = b.ask(ctx, requests)
	}
	return in, visiting, err
}

// visiting reports whether all requests are for visits to pages to which the user has agreed. The
// error reports that the visits take too long.
func (b *bridge) visiting(requests []wire.Member) (bool, error) {
	for _, m := range requests {
		p, ok := b.pages.find(m.Value)
		if !ok {
			return false, nil
		}
		if time.Since(p.since) > answerWait {
			return false, &inputError{fmt.Sprintf("upstream %q still waits for the user to visit a page after %v", b.server, answerWait)}
		}
	}
	return len(requests) > 0, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// askable are the methods of requests in results (revision 2026-07-28, schema, InputRequest).
var askable = map[string]bool{protocol.MethodElicit: true, protocol.MethodCreateMessage: true, protocol.MethodRootsList: true}

// check returns why the client cannot be asked a request.
func (b *bridge) check(request []byte) error {
	method, _ := wire.GetString(request, "method")
	params, _ := wire.Get(request, "params")
	if !askable[method] {
		return &inputError{fmt.Sprintf("upstream %q asks the client for %.64q, which is no question", b.server, method)}
	}
	if b.origin == nil {
		return &inputError{fmt.Sprintf("upstream %q asks the client something (%s), but there is no client", b.server, method)}
	}
	if bad := permits(b.origin.Client(), wire.Inbound{Method: method, Params: params}); bad != nil {
		return &inputError{fmt.Sprintf("upstream %q asks the client something that it does not support (%s): %s", b.server, method, bad.Message)}
	}
	return nil
}

// ask asks the client all requests at once and returns an object with the answers. Visits to which
// the user has agreed are not asked for again.
func (b *bridge) ask(ctx context.Context, requests []wire.Member) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWait, errAnswerWait)
	defer cancel()
	if b.kept == nil {
		b.kept = b.budget.OpenKept(BudgetKey(b.origin.Session()), "answers of this client")
	}
	answers := make([][]byte, len(requests))
	visits := make([]page, len(requests))
	errs := make([]error, len(requests))
	var asking sync.WaitGroup
	for i, m := range requests {
		if p, ok := b.pages.find(m.Value); ok {
			answers[i] = p.answer
			continue
		}
		asking.Go(func() {
			if answers[i], visits[i], errs[i] = b.askOne(ctx, m.Value); errs[i] != nil {
				cancel() // the other answers are of no use
			}
		})
	}
	asking.Wait()
	var all wire.Object
	for i, m := range requests {
		if errs[i] != nil && !errors.Is(errs[i], context.Canceled) {
			return nil, errs[i]
		}
		all.Raw(m.Name, answers[i])
		if visits[i].id != "" {
			b.pages, b.pause = append(b.pages, visits[i]), visitPause
		}
	}
	return all.Bytes(), errors.Join(errs...)
}

// askOne asks the client a request and returns the result. visit is the page that the user visits
// now, if the request was for a visit and the user agrees.
func (b *bridge) askOne(ctx context.Context, request []byte) (answer []byte, visit page, err error) {
	method, _ := wire.GetString(request, "method")
	params, isVisit := visitParams(request)
	id := rand.Text()
	asked := params
	if isVisit { // the handshake era wants an id
		if asked, err = wire.Set(params, wire.Quote(id), "elicitationId"); err != nil {
			return nil, page{}, &inputError{fmt.Sprintf("upstream %q asks the client something malformed: %v", b.server, err)}
		}
	}
	reply, err := b.origin.Ask(ctx, wire.Call{Method: method, Params: asked})
	switch {
	case err != nil:
		return nil, page{}, err
	case reply.Error != nil && method == protocol.MethodElicit:
		return []byte(`{"action":"cancel"}`), page{}, nil // a result cannot be an error
	case reply.Error != nil:
		return nil, page{}, &inputError{fmt.Sprintf("the client refused what upstream %q asks (%s): %s", b.server, method, wire.ParseError(reply.Error).Message)}
	}
	if answer, err = b.keep(reply.Result); err != nil {
		return nil, page{}, err
	}
	// A client of the stateless era asks for itself whether the visit is over.
	if action, _ := wire.GetString(answer, "action"); isVisit && action == "accept" && !isStateless(b.origin) {
		visit = page{id, string(params), answer, time.Now()}
	}
	return answer, visit, nil
}
