package catalog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// UpstreamsKey is the member of a merged _meta that holds what upstreams do
// not agree on: an object of theirs by name.
const UpstreamsKey = "io.github.mcp-metatool/upstreams"

// Part is what one upstream contributes to something merged.
type Part struct {
	Server string
	Raw    []byte // a raw object; nil for none
}

// member is one of an object, with its raw value.
type member struct {
	name  string
	value []byte
}

// members are those of the object raw, in order; none when it is no object.
// Of several with one name the last counts, as for most readers.
func members(raw []byte) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return nil
	}
	var all []member
	at := map[string]int{}
	for d.More() {
		tok, err := d.Token()
		name, ok := tok.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return nil
		}
		if i, again := at[name]; again {
			all[i].value = value
			continue
		}
		at[name] = len(all)
		all = append(all, member{name, value})
	}
	return all
}

func object(all []member) []byte {
	var o wire.Object
	for _, m := range all {
		o.Raw(m.name, m.value)
	}
	return o.Bytes()
}

// MergeMeta makes one _meta out of those of upstreams. A single one is kept as
// it is. Of several, a member stays in its place when all upstreams that have
// it give it the same value; one on which they differ is kept for each upstream
// under UpstreamsKey. Nil when there is nothing.
func MergeMeta(parts []Part) []byte {
	var all [][]member
	parts = slices.DeleteFunc(slices.Clone(parts), func(p Part) bool {
		m := members(p.Raw)
		if len(m) > 0 {
			all = append(all, m)
		}
		return len(m) == 0
	})
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0].Raw
	}
	differ := map[string]bool{UpstreamsKey: true} // else theirs and ours would meet
	first := map[string][]byte{}
	var merged []member
	for _, part := range all {
		for _, m := range part {
			value, seen := first[m.name]
			switch {
			case !seen:
				first[m.name] = m.value
				merged = append(merged, m)
			case !sameJSON(value, m.value):
				differ[m.name] = true
			}
		}
	}
	merged = slices.DeleteFunc(merged, func(m member) bool { return differ[m.name] })
	if own := apart(parts, all, differ); len(own) > 0 {
		merged = append(merged, member{UpstreamsKey, object(own)})
	}
	return object(merged)
}

// apart are the members named in differ, by upstream.
func apart(parts []Part, all [][]member, differ map[string]bool) []member {
	var own []member
	for i, part := range all {
		kept := slices.DeleteFunc(part, func(m member) bool { return !differ[m.name] })
		if len(kept) > 0 {
			own = append(own, member{parts[i].Server, object(kept)})
		}
	}
	return own
}

// sameJSON tells whether two raw values differ in nothing but white space.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// maxUnion bounds how deep objects are united.
const maxUnion = 32

// Union is the raw object that has the members of both objects: objects in
// both are united, true wins over false, and otherwise the value of a stays.
// What is no object counts as an empty one.
func Union(a, b []byte) []byte { return union(a, b, maxUnion) }

func union(a, b []byte, depth int) []byte {
	all := members(a)
	at := make(map[string]int, len(all))
	for i, m := range all {
		at[m.name] = i
	}
	for _, m := range members(b) {
		i, ok := at[m.name]
		switch {
		case !ok:
			all = append(all, m)
		case string(all[i].value) == "false" && string(m.value) == "true":
			all[i].value = m.value
		case depth > 1 && all[i].value[0] == '{' && m.value[0] == '{':
			all[i].value = union(all[i].value, m.value, depth-1)
		}
	}
	return object(all)
}
