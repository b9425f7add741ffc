package flowtable

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// A randomWorld answers at random. Answers with its label depend on secret as well; all others
// depend on the seed, the tool and the bytes of the arguments only, and on what the server was told
// and asked before.
type randomWorld struct {
	seed   uint64
	label  int
	secret uint64
}

// marker is in texts of labelled answers.
func (w randomWorld) marker() string { return fmt.Sprintf("s%dw%d", w.seed, w.secret) }

// answer implements world.
func (w randomWorld) answer(tool string, args map[string]any, n int, s *notes) (a answer) {
	if a, ok := s.tool(tool, args); ok {
		return a
	}
	if tool == "feed.get" && w.seed%2 == 0 { // labelled by its server
		a.meta = map[string]any{"ifc": map[string]any{"confidentiality": "private", "integrity": "untrusted"}}
	}
	labelled := labelsOf(tool, map[string]any{"$meta": a.meta})&(1<<w.label) != 0
	h := fnv.New64a()
	server, name, _ := strings.Cut(tool, ".")
	fmt.Fprint(h, w.seed, tool, string(s.asked), s.told[server])
	if w.seed%4 == 1 { // it counts what it is asked
		fmt.Fprint(h, s.asks[server])
	}
	if labelled {
		fmt.Fprint(h, w.secret)
		if w.seed%3 == 0 {
			fmt.Fprint(h, n) // it changes from call to call
		}
	}
	r := answerer{Rand: rand.New(rand.NewPCG(h.Sum64(), 5)), labelled: labelled, marker: w.marker()}
	switch k := r.IntN(24); {
	case labelled && k < 4:
		a.fails = "failed " + r.text()
	case labelled && k == 4:
		a.fails, a.rpc = "failed "+r.text(), a.meta == nil // a JSON-RPC error could not say that it is labelled
	case k == 5 && sinksOf(tool) == 0 && r.IntN(2) == 0:
		a.fails = "no such thing"
	default:
		a.value, a.isBareValue = r.like(servers()[server][name].Answer), true
	}
	return a
}

type answerer struct {
	*rand.Rand
	labelled bool
	marker   string
}

func (r *answerer) text() string {
	if r.labelled && r.IntN(3) == 0 {
		return r.marker
	}
	return words[r.IntN(len(words))]
}

// like is a random value of nearly the same type. Those without a label have the same type.
func (r *answerer) like(v any) any {
	if r.labelled && r.IntN(25) == 0 {
		return []any{nil, r.IntN(4), r.text(), []any{}, true}[r.IntN(5)]
	}
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !r.labelled || r.IntN(10) > 0 {
				all[k] = r.like(v[k])
			}
		}
		if r.labelled && r.IntN(5) == 0 {
			all[words[r.IntN(len(words))]] = r.IntN(4)
		}
		return all
	case []any:
		all := make([]any, r.IntN(4))
		for i := range all {
			all[i] = r.like(v[0])
		}
		return all
	case string:
		return r.text()
	case int64:
		return r.IntN(5)
	case bool:
		return r.IntN(2) == 0
	}
	return v
}
