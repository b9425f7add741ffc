package compose

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// The result of a request asks questions to a client of the stateless era. So when a server asks
// the client during a call of a script, the run ends with the questions. The client repeats the
// request with the answers, and another run continues the first run: see resume.go.

// errAsks is the cause of the end of a run with questions for the client.
var errAsks = route.ErrAsksLater

// asksInResult reports whether a client can only be asked by the result of its request.
func asksInResult(o route.Origin) bool {
	return o != nil && o.Revision().Has(protocol.InputRequests)
}

// inquirer is the route.Origin of a call of a script whose client can only be asked by the result
// of the request.
type inquirer struct {
	route.Origin
	run    *run
	call   int    // the number of the call in the run
	server string // real name
	clock  *callClock
}

// inquirer returns the origin for a call: the run's origin, unless the client can only be asked
// later.
func (r *run) inquirer(t *stack.Request, clock *callClock) (route.Origin, *inquirer) {
	if r.tree.questions == nil {
		return r.origin, nil
	}
	i := &inquirer{Origin: r.origin, run: r, call: t.Record.Seq(), server: t.Server, clock: clock}
	return i, i
}

// questionsRow lets the client be asked during a call, if the client can only be asked by the
// result of the request.
type questionsRow struct {
	stack.Pass
	r *run
}

// Call implements stack.Handler.
func (w *questionsRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Undoes {
		return w.Pass.Call(ctx, t)
	}
	_, asking := w.r.inquirer(t, clockOf(t))
	if !w.r.tree.questions.begin(asking) {
		return stack.Answer{Err: t.Fail(abi.ErrCancelled, NotMade)}
	}
	defer w.r.tree.questions.end(asking)
	t.Set(askingKey, asking)
	return w.Pass.Call(ctx, t)
}

// askingKey is the note with the *inquirer of a call.
var askingKey = &stack.Key{Name: "asking"}

// originOf returns the origin of a call.
func (r *run) originOf(t *stack.Request) route.Origin {
	if asking, ok := t.Note(askingKey).(*inquirer); ok {
		return asking
	}
	return r.origin
}

// Unwrap returns the request of the client, which the run answers; see package route.
func (i *inquirer) Unwrap() route.Origin { return i.Origin }

// Ask implements route.Origin. The result is the client's answer if the client has already answered
// the same question. Otherwise Ask ends the run when nothing can go on.
func (i *inquirer) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	q := i.run.tree.questions
	in := journal.InputRecord{Call: i.call, Method: call.Method, Params: call.Params, Unsure: call.Unsure, Own: call.Own}
	if in.Answer = q.take(i, call); in.Answer != nil {
		i.run.journal.Input(in)
		return wire.Reply{Result: in.Answer}, nil
	}
	params, err := questionParams(call)
	if err != nil {
		return wire.Reply{}, wire.Errorf(wire.CodeInvalidParams, "%s: params: %v", call.Method, err)
	}
	for _, c := range q.clocks(i, call.Unsure) {
		c.pause()
		defer c.goOn()
	}
	o := &question{by: i, unsure: call.Unsure, own: call.Own, method: call.Method, params: params}
	err = q.ask(o, func(name string) {
		in.Name = name
		i.run.journal.Input(in)
	})
	if err != nil {
		return wire.Reply{}, err
	}
	select {
	case <-ctx.Done():
		q.drop(o)
		return wire.Reply{}, context.Cause(ctx)
	case <-q.ctx.Done():
		return wire.Reply{}, context.Cause(q.ctx)
	}
}

// clocks returns the clocks of the calls that may have asked a question.
func (q *questions) clocks(i *inquirer, unsure bool) []*callClock {
	if !unsure {
		return []*callClock{i.clock}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*callClock
	for other := range q.calls {
		if other.server == i.server {
			all = append(all, other.clock)
		}
	}
	return all
}

// questionParams returns the params of a question as the stateless era has them, where no
// progress comes and elicitations have no ids.
func questionParams(call wire.Call) ([]byte, error) {
	if call.Params == nil {
		return nil, nil
	}
	params, err := wire.Delete(call.Params, "_meta", "progressToken")
	if err == nil && call.Method == protocol.MethodElicit {
		params, err = wire.Delete(params, "elicitationId")
	}
	if meta, ok := wire.Get(params, "_meta"); ok && err == nil && string(meta) == "{}" {
		params, err = wire.Delete(params, "_meta")
	}
	return params, err
}

// knownAnswer is a question of the runs before, with the client's answer.
type knownAnswer struct {
	journal.InputRecord        // Answer is nil if the client has not answered the question
	run                 string // id of the record with the call
	server              string // of the call
	key                 string
	used                bool
}

// isOf reports whether the call of i replaces the call with the question.
func (k *knownAnswer) isOf(i *inquirer) bool {
	before := i.run.resumed
	return before != nil && k.run == before.rec.ID && k.Call == i.call
}

// take returns the client's answer to a question, nil for none. Each answer is used once: a server
// that asks the same again gets another answer. If the asking call of a server is not known for
// sure, now or when the client was asked, the answer to the same question of another call of the
// server will do. An approval is only for the call of its question, and no server can ask for an
// approval.
func (q *questions) take(i *inquirer, call wire.Call) []byte {
	key := questionKey(call.Own, call.Method, call.Params)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, sure := range []bool{true, false} {
		for _, k := range q.known {
			fits := k.isOf(i) || !sure && !call.Own && k.server == i.server && (k.Unsure || call.Unsure)
			if fits && !k.used && k.Answer != nil && k.key == key {
				k.used = true
				return k.Answer
			}
		}
	}
	return nil
}

// saveUnused adds answers that no call has asked for yet to the records of calls in flight, for the
// run that continues this run. The caller holds q.mu.
func (q *questions) saveUnused() {
	for _, k := range q.known {
		for i := range q.calls {
			if !k.used && k.Answer != nil && (k.isOf(i) || k.Unsure && k.server == i.server) {
				k.used = true
				in := k.InputRecord
				in.Call = i.call
				i.run.journal.Input(in)
			}
		}
	}
}

// expected reports whether the client was asked a question before, and has not answered the
// question. The caller holds q.mu.
func (q *questions) expected(o *question) bool {
	key := questionKey(o.own, o.method, o.params)
	return slices.ContainsFunc(q.known, func(k *knownAnswer) bool { return k.Answer == nil && k.key == key })
}

// otherwiseError reports that a repeated call asked a different question. The client would be asked
// without end.
type otherwiseError struct {
	server string
	own    bool // an approval was asked for
}

func (e *otherwiseError) Error() string {
	if e.own {
		return fmt.Sprintf("what the client was asked to approve of server %q was changed meanwhile: its tool, the policy, or the client's token (call the composite tool again)", e.server)
	}
	return fmt.Sprintf("upstream %q asked something else when its tool was called again with the client's answer, so that this is of no use "+
		"(a question of a tool that scripts call must be the same each time)", e.server)
}

// unfit returns the error if a call asks a new question without having asked for the answers of the
// client. The caller holds q.mu.
func (q *questions) unfit() error {
	for _, o := range q.open {
		for _, k := range q.known {
			if o.other && !o.unsure && !k.Unsure && k.Own == o.own && k.isOf(o.by) && k.Answer != nil && !k.used {
				return &otherwiseError{o.by.server, o.own}
			}
		}
	}
	return nil
}

// canonicalJSON returns the same text for the same JSON, with numbers as written.
func canonicalJSON(raw []byte) []byte {
	value := jsontext.Value(bytes.Clone(raw))
	if value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false)) != nil {
		return raw
	}
	return value
}

// questionKey returns the same text for the same questions. The id of an elicitation, the
// _meta, the order of members, and white space do not matter.
func questionKey(own bool, method string, params []byte) string {
	for _, name := range []string{"_meta", "elicitationId"} {
		if rest, err := wire.Delete(params, name); params != nil && err == nil {
			params = rest
		}
	}
	key := method + string(canonicalJSON(params))
	if own {
		key = "own " + key
	}
	return key
}

// inputRequired returns the result that asks the client. The requestState is the id of the run,
// which the router seals.
func inputRequired(run string, asked []*question) wire.Reply {
	var requests wire.Object
	for _, q := range asked {
		var request wire.Object
		request.Text("method", q.method)
		request.Raw("params", q.params)
		requests.Raw(q.name, request.Bytes())
	}
	var result wire.Object
	result.Text("resultType", envelope.TypeInputRequired)
	result.Raw("inputRequests", requests.Bytes())
	result.Text("requestState", run)
	return wire.Reply{Result: result.Bytes(), Stateless: true}
}
