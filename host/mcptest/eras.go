package mcptest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// This file lets a Pair do the same in both eras.

// everything are the capabilities of a modern client that runs Items: the capabilities of
// ClientParams in the client's era.
const everything = `{"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"roots":{},"experimental":{"example.com/c":{"n":9007199254740993}}}`

// Everyone is the envelope of modern clients that run Items.
var Everyone = Envelope{Capabilities: everything, ClientInfo: `{"name":"raw client","version":"0.1","x":1.0}`, LogLevel: "debug"}

// params returns the params as the client sends them.
func (p *Pair) params(params string) string {
	if p.Modern {
		return Everyone.Params(params)
	}
	return params
}

// start sends a request.
func (p *Pair) start(id, method, params string) <-chan Answer {
	return p.Client.Start(id, method, p.params(params))
}

// await waits for an answer. The result is returned without the members that only modern results
// have. await fails if the era of the client does not permit the answer.
func (p *Pair) await(ctx context.Context, wanted string, answer <-chan Answer) (Entry, error) {
	select {
	case a := <-answer:
		var status *StatusError
		if p.Modern && errors.As(a.Err, &status) {
			m, err := wire.Parse(status.Body)
			if err != nil {
				return a.Entry, fmt.Errorf("%s: %w", wanted, status)
			}
			a = Answer{Entry: Entry{Raw: status.Body, Msg: m}}
		}
		if a.Err != nil {
			return a.Entry, fmt.Errorf("%s: %w", wanted, a.Err)
		}
		if !p.Modern {
			return a.Entry, checkLegacy(a.Entry)
		}
		return bare(a.Entry)
	case <-ctx.Done():
		return Entry{}, fmt.Errorf("no answer to %s: %w", wanted, context.Cause(ctx))
	}
}

// checkLegacy returns an error if a result has members of the stateless era.
func checkLegacy(e Entry) error {
	for _, path := range [][]string{{"resultType"}, {"ttlMs"}, {"cacheScope"}, {"_meta", metaServerInfo}, {"_meta", metaSubscription}} {
		if _, ok := wire.Get(e.Msg.Result, path...); ok {
			return fmt.Errorf("a client of the handshake era got %s: %.300s", strings.Join(path, " "), e.Raw)
		}
	}
	return nil
}

// bare removes from a result the members that only results of the stateless era have. An incomplete
// result is an error.
func bare(e Entry) (Entry, error) {
	if e.Msg.Result == nil {
		return e, nil
	}
	if kind, _ := wire.GetString(e.Msg.Result, "resultType"); kind != "complete" {
		return e, fmt.Errorf("the resultType is %q: %.300s", kind, e.Raw)
	}
	out, err := wire.Without(e.Msg.Result, "resultType", "ttlMs", "cacheScope")
	if err != nil {
		return e, err
	}
	e.Msg.Result = withoutMeta(out, metaServerInfo)
	return e, nil
}

// withoutMeta returns the object without some members of _meta, and without an empty _meta.
func withoutMeta(obj []byte, names ...string) []byte {
	meta, ok := wire.Get(obj, "_meta")
	if !ok {
		return obj
	}
	left, err := wire.Without(meta, names...)
	if err != nil {
		return obj
	}
	if members, ok := wire.Members(left); ok && len(members) == 0 {
		return without(obj, "_meta")
	}
	out, err := wire.Set(obj, left, "_meta")
	if err != nil {
		return obj
	}
	return out
}

// withoutEnvelope returns params without the envelope and the progress token.
func withoutEnvelope(params []byte) []byte {
	return withoutMeta(params, metaVersion, metaCapabilities, metaClientInfo, metaLogLevel, "progressToken")
}

// question is a question of a server to the client during a request.
type question struct{ method, params string }

// maxRounds bounds the repetitions of a request.
const maxRounds = 10

// rounds sends a request of the stateless era, and repeats the request with the answers of
// AnswerRequest until the result is complete.
func (p *Pair) rounds(ctx context.Context, method, params string) (Entry, error) {
	sent := params
	for range maxRounds {
		id := p.id()
		answer := p.start(id, method, sent)
		var e Entry
		select {
		case a := <-answer:
			if kind, _ := wire.GetString(a.Msg.Result, "resultType"); a.Err != nil || kind != "input_required" {
				done := make(chan Answer, 1)
				done <- a
				return p.await(ctx, method+" "+id, done)
			}
			e = a.Entry
		case <-ctx.Done():
			return Entry{}, fmt.Errorf("%s %s: %w", method, id, context.Cause(ctx))
		}
		responses, err := p.respond(e)
		if err != nil {
			return e, err
		}
		if params == "" {
			params = "{}"
		}
		next, err := wire.Set([]byte(params), responses, "inputResponses")
		if state, ok := wire.Get(e.Msg.Result, "requestState"); ok && err == nil {
			next, err = wire.Set(next, state, "requestState")
		}
		if err != nil {
			return e, err
		}
		sent = string(next)
	}
	return Entry{}, fmt.Errorf("%s: not answered in %d rounds", method, maxRounds)
}

// respond returns the inputResponses to a result with questions.
func (p *Pair) respond(e Entry) ([]byte, error) {
	asked, _ := wire.Get(e.Msg.Result, "inputRequests")
	responses := []byte(`{}`)
	requests, _ := wire.Members(asked)
	for _, r := range requests {
		method, _ := wire.GetString(r.Value, "method")
		params, _ := wire.Get(r.Value, "params")
		p.asked = append(p.asked, question{method, string(params)})
		reply := AnswerRequest(nil, wire.Message{Method: method, Params: withoutToken(params)})
		if reply.Result == nil {
			return nil, fmt.Errorf("the client cannot answer %.300s", r.Value)
		}
		var err error
		if responses, err = wire.Set(responses, reply.Result, r.Name); err != nil {
			return nil, err
		}
	}
	return responses, nil
}

// cancel cancels a request in the way of the client's era and transport.
func (p *Pair) cancel(id, more string) error {
	if p.Modern && p.HTTP {
		p.Client.Drop(id)
		p.Client.complete(wire.IDKey([]byte(id)), Answer{Err: ErrCancelled}) // so the next answer for the id does not go to this request
		return nil
	}
	return p.Client.Notify("notifications/cancelled", `{"requestId":`+id+more+`}`)
}

// subscribe asks for changes of lists or for updates of a resource, and returns a function that
// ends the subscription. In the handshake era changes of lists come unasked.
func (p *Pair) subscribe(ctx context.Context, uri string) (end func() error, err error) {
	if !p.Modern {
		if uri == "" {
			return func() error { return nil }, nil
		}
		if _, err := p.request(ctx, "resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil {
			return nil, err
		}
		return func() error {
			_, err := p.request(ctx, "resources/unsubscribe", fmt.Sprintf(`{"uri":%q}`, uri))
			return err
		}, nil
	}
	filter := `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`
	if uri != "" {
		filter = fmt.Sprintf(`"resourceSubscriptions":[%q]`, uri)
	}
	id, from := p.id(), p.Client.Log.Len()
	p.start(id, "subscriptions/listen", `{"notifications":{`+filter+`}}`)
	e, _, err := p.Client.Log.Find(ctx, "acknowledgement", from, Method("notifications/subscriptions/acknowledged"))
	if err != nil {
		return nil, err
	}
	if got, _ := wire.Get(e.Msg.Params, "notifications"); Diff([]byte("{"+filter+"}"), got) != "" {
		return nil, fmt.Errorf("acknowledged: %s", e.Raw)
	}
	return func() error { return p.cancel(id, "") }, nil
}
