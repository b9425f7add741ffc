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

func runInitialize(_ context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, path := range [][]string{
		{"protocolVersion"}, {"_meta", "example.com/init"},
		{"capabilities", "tools", "listChanged"}, {"capabilities", "resources"}, {"capabilities", "prompts"},
		{"capabilities", "logging"}, {"capabilities", "completions"}, {"capabilities", "tasks"},
		{"capabilities", "experimental", "example.com/x"},
	} {
		raw, _ := wire.Get(p.InitializeResponse.Msg.Result, path...)
		s.add(fmt.Sprint(path), raw)
	}
	instructions, _ := wire.GetString(p.InitializeResponse.Msg.Result, "instructions")
	s.put("instructions", strings.Contains(instructions, Instructions))
	return s.json(), nil
}

// list fetches all pages of a list and returns the items by key, without the tools of the proxy
// itself.
func (p *Pair) list(ctx context.Context, surface wire.Surface) (items map[string][]byte, meta []byte, err error) {
	items = map[string][]byte{}
	for params := `{"_meta":{"n":1.0}}`; ; {
		e, err := p.request(ctx, surface.ListMethod(), params)
		if err != nil {
			return nil, nil, err
		}
		page, ok := wire.Get(e.Msg.Result, string(surface))
		if !ok {
			return nil, nil, fmt.Errorf("%s: %s%s", surface.ListMethod(), e.Msg.Result, e.Msg.Error)
		}
		elements, err := wire.Elements(page)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", surface.ListMethod(), err)
		}
		for _, item := range elements {
			key, _ := wire.GetString(item, surface.Key())
			if _, twice := items[key]; twice {
				return nil, nil, fmt.Errorf("%s: %q is listed twice", surface.ListMethod(), key)
			}
			items[key] = item
		}
		if meta == nil {
			meta, _ = wire.Get(e.Msg.Result, "_meta", "example.com/list")
		}
		cursor, ok := wire.Get(e.Msg.Result, "nextCursor")
		if !ok {
			return items, meta, nil
		}
		params = `{"cursor":` + string(cursor) + `}`
	}
}

func runDefinitions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, surface := range wire.Surfaces {
		items, meta, err := p.list(ctx, surface)
		if err != nil {
			return nil, err
		}
		var keys []string
		for key := range items {
			if surface != wire.Tools || slices.Contains(Tools, key) {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		for _, key := range keys {
			s.add(string(surface)+" "+key, items[key])
		}
		s.put("number of "+string(surface), len(keys))
		s.add("_meta of "+string(surface), meta)
	}
	return s.json(), nil
}

func runListChanged(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, surface := range []wire.Surface{wire.Tools, wire.Resources, wire.Templates, wire.Prompts} {
		before, _, err := p.list(ctx, surface)
		if err != nil {
			return nil, err
		}
		from := p.Client.Log.Len()
		if _, err := p.call(ctx, "change", fmt.Sprintf(`{"list":%q}`, surface)); err != nil {
			return nil, err
		}
		// A late notification of an earlier change may come first.
		for {
			if _, from, err = p.Client.Log.Find(ctx, surface.ChangedMethod(), from, Method(surface.ChangedMethod())); err != nil {
				return nil, err
			}
			after, _, err := p.list(ctx, surface)
			if err != nil {
				return nil, err
			}
			for key := range before {
				delete(after, key)
			}
			if len(after) == 0 {
				continue
			}
			for _, key := range slices.Sorted(maps.Keys(after)) {
				s.add("new in "+string(surface)+" "+key, after[key])
			}
			break
		}
	}
	return s.json(), nil
}

func runSubscriptions(ctx context.Context, p *Pair) ([]byte, error) {
	var s observation
	for _, uri := range []string{"raw://text", "file:///tmp/a%20b?x=%C3%A9#f"} {
		params := fmt.Sprintf(`{"uri":%s,"_meta":{"n":9007199254740993},"x":1.0}`, wire.Quote(uri))
		e, err := p.request(ctx, "resources/subscribe", params)
		if err != nil {
			return nil, err
		}
		s.add("subscribed "+uri, e.Msg.Result)
		if e, err = p.arrived(ctx, "subscription", Method("resources/subscribe")); err != nil {
			return nil, err
		}
		s.add("at the server", e.Msg.Params)
		from := p.Client.Log.Len()
		if _, err := p.call(ctx, "touch", fmt.Sprintf(`{"uri":%s}`, wire.Quote(uri))); err != nil {
			return nil, err
		}
		if e, _, err = p.Client.Log.Find(ctx, "resources/updated", from, Method("notifications/resources/updated")); err != nil {
			return nil, err
		}
		s.add("updated", e.Msg.Params)
		if e, err = p.request(ctx, "resources/unsubscribe", params); err != nil {
			return nil, err
		}
		s.add("unsubscribed", e.Msg.Result)
		if e, err = p.arrived(ctx, "unsubscription", Method("resources/unsubscribe")); err != nil {
			return nil, err
		}
		s.add("unsubscribed at the server", e.Msg.Params)
		p.from = p.Server.Len()
	}
	return s.json(), nil
}
