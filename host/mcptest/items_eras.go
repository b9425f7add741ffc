package mcptest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// EraItems is the fidelity list for clients and servers of any era. The observations have only the
// members common to both eras, so they are the same in all combinations of eras.
var EraItems = []Item{
	{"capabilities, instructions, _meta", runWelcome},
	{"definitions, pages, _meta of lists", runCommonDefinitions},
	{"params and _meta of requests", runCommonParams},
	{"results: unknown content, digits, _meta everywhere", runCommonResults},
	{"JSON-RPC errors with data", runCommonErrors},
	{"ids 1, \"1\" and huge ones", runIDs},
	{"progress, 2,000 before the result", runProgress},
	{"progress of several calls at once", runConcurrentProgress},
	{"logging", runCommonLogging},
	{"questions of the server", runQuestions},
	{"updates of resources", runUpdates},
	{"list_changed", runCommonChanges},
	{"large messages", runLarge},
	// These items are last: a proxy may be unable to distinguish the messages of a server for later
	// calls from the messages for cancelled calls.
	{"cancel", runCommonCancel},
	{"cancel storm", runCancelStorm},
}

// runWelcome observes the first information that a client gets about the server.
func runWelcome(ctx context.Context, p *Pair) ([]byte, error) {
	e := p.InitializeResponse
	if p.Modern {
		var err error
		if e, err = p.request(ctx, "server/discover", ""); err != nil {
			return nil, err
		}
	}
	var s observation
	for _, path := range [][]string{
		{"_meta", "example.com/init"}, {"capabilities", "tools", "listChanged"}, {"capabilities", "resources"},
		{"capabilities", "prompts"}, {"capabilities", "logging"}, {"capabilities", "completions"},
		{"capabilities", "experimental", "example.com/x"},
	} {
		raw, _ := wire.Get(e.Msg.Result, path...)
		s.add(fmt.Sprint(path), raw)
	}
	instructions, _ := wire.GetString(e.Msg.Result, "instructions")
	s.put("instructions", strings.Contains(instructions, Instructions))
	return s.json(), nil
}

func runCommonDefinitions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, surface := range wire.Surfaces {
		items, meta, err := p.list(ctx, surface)
		if err != nil {
			return nil, err
		}
		keys := slices.DeleteFunc(slices.Collect(maps.Keys(items)), func(key string) bool {
			return surface == wire.Tools && !slices.Contains(Tools, key)
		})
		sort.Strings(keys)
		for _, key := range keys {
			s.add(string(surface)+" "+key, without(items[key], "execution")) // tasks of 2025-11-25
		}
		s.put("number of "+string(surface), len(keys))
		s.add("_meta of "+string(surface), meta)
	}
	return s.json(), nil
}

// commonRequests are the oddRequests that both eras have.
var commonRequests = oddRequests[:len(oddRequests)-1]

func runCommonParams(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range commonRequests {
		if _, err := p.request(ctx, r.method, r.params); err != nil {
			return nil, err
		}
		e, err := p.arrived(ctx, r.method, Method(r.method))
		if err != nil {
			return nil, err
		}
		s.add(r.method, withoutEnvelope(e.Msg.Params))
		if p.from, err = p.after(ctx, e); err != nil {
			return nil, err
		}
	}
	return s.json(), nil
}

func runCommonResults(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range commonRequests {
		e, err := p.request(ctx, r.method, r.params)
		if err != nil {
			return nil, err
		}
		s.add(r.method, without(e.Msg.Result, "received"))
	}
	return s.json(), nil
}

func runCommonErrors(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, code := range []int{7, 40000, wire.CodeInvalidParams, wire.CodeInternal} {
		e, err := p.request(ctx, "tools/call", ToolParams("error", fmt.Sprintf(`{"code":%d}`, code), ""))
		if err != nil {
			return nil, err
		}
		s.add(fmt.Sprint(code), e.Msg.Error)
	}
	return s.json(), nil
}

// runCommonLogging wants all log messages, which clients of the handshake era have to say.
func runCommonLogging(ctx context.Context, p *Pair) ([]byte, error) {
	if !p.Modern {
		if _, err := p.request(ctx, "logging/setLevel", `{"level":"debug"}`); err != nil {
			return nil, err
		}
	}
	var s observation
	for _, level := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		params := fmt.Sprintf(`{"level":%q,"logger":"l\u00e9","data":{"n":9007199254740993,"a":[1.0]},"_meta":{"example.com/n":1.0},%s}`, level, oddities)
		if err := p.notified(ctx, &s, "notifications/message", params, false); err != nil {
			return nil, err
		}
	}
	count := p.many(1000)
	from := p.Client.Log.Len()
	if _, err := p.call(ctx, "burst", fmt.Sprintf(`{"count":%d}`, count)); err != nil {
		return nil, err
	}
	ordered := true
	for i := range count {
		e, next, err := p.Client.Log.Find(ctx, fmt.Sprintf("message %d of %d", i+1, count), from, Method("notifications/message"))
		if err != nil {
			return nil, err
		}
		n, _ := wire.Get(e.Msg.Params, "data", "n")
		from, ordered = next, ordered && string(n) == fmt.Sprint(i)
	}
	s.put("in order", ordered)
	return s.json(), nil
}

// runQuestions makes the server ask the client: by a request, or by a result.
func runQuestions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, r := range serverRequests {
		if _, fail := wire.Get([]byte(r.params), "x-fail"); fail {
			continue // answers in params cannot be errors
		}
		arguments := fmt.Sprintf(`{"method":%q`, r.method)
		if r.params != "" {
			arguments += `,"params":` + r.params
		}
		from := p.Client.Log.Len()
		p.asked = nil
		got, err := p.call(ctx, "ask", arguments+"}")
		if err != nil {
			return nil, err
		}
		if !p.Modern {
			for _, e := range p.Client.Log.All()[from:] {
				if e.Msg.IsRequest() {
					p.asked = append(p.asked, question{e.Msg.Method, string(e.Msg.Params)})
				}
			}
		}
		s.put("questions", len(p.asked))
		for _, q := range p.asked {
			s.add(q.method, commonQuestion([]byte(q.params)))
		}
		answer, ok := wire.Get(got, "result")
		if !ok {
			return nil, fmt.Errorf("%s: %s", r.method, got)
		}
		if asked, ok := wire.Get(answer, "asked"); ok {
			if answer, err = wire.Set(answer, commonQuestion(asked), "asked"); err != nil {
				return nil, err
			}
		}
		s.add("answer", answer)
	}
	return s.json(), nil
}

// commonQuestion returns the params of a question without the members of a single era; nil for
// none.
func commonQuestion(params []byte) []byte {
	if !wire.IsObject(params) {
		return nil
	}
	return withoutMeta(without(params, "elicitationId"), "progressToken")
}

// runUpdates subscribes to resources and ends the subscriptions.
func runUpdates(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, uri := range []string{"raw://text", "file:///tmp/a%20b?x=%C3%A9#f"} {
		end, err := p.subscribe(ctx, uri)
		if err != nil {
			return nil, err
		}
		from := p.Client.Log.Len()
		touch := fmt.Sprintf(`{"uri":%q}`, uri)
		if _, err := p.call(ctx, "touch", touch); err != nil {
			return nil, err
		}
		e, _, err := p.Client.Log.Find(ctx, "update of "+uri, from, func(e Entry) bool {
			of, _ := wire.GetString(e.Msg.Params, "uri")
			// An update of the previous resource may come late, see below.
			return e.Msg.Method == "notifications/resources/updated" && (p.Modern || of == uri)
		})
		if err != nil {
			return nil, err
		}
		s.add("updated", without(e.Msg.Params, "_meta"))
		if err := end(); err != nil {
			return nil, err
		}
		if err := p.fence(ctx); err != nil { // all updates were sent before the subscription ended
			return nil, err
		}
		from = p.Client.Log.Len()
		if _, err := p.call(ctx, "touch", touch); err != nil {
			return nil, err
		}
		if err := p.fence(ctx); err != nil {
			return nil, err
		}
		late := 0
		for _, e := range p.Client.Log.All()[from:] {
			if e.Msg.Method == "notifications/resources/updated" {
				late++
			}
		}
		// A server of the handshake era may send updates without a subscription.
		s.put("updates after the end", p.Modern && late > 0)
	}
	return s.json(), nil
}

// runCommonChanges changes each list and reads the list again.
func runCommonChanges(ctx context.Context, p *Pair) ([]byte, error) {
	end, err := p.subscribe(ctx, "")
	if err != nil {
		return nil, err
	}
	seen, err := runListChanged(ctx, p)
	if err != nil {
		return nil, err
	}
	return seen, end()
}

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
