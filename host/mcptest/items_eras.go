package mcptest

import (
	"context"
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
