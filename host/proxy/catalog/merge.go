package catalog

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// UpstreamsKey is the member of a merged _meta that holds the members on which upstreams differ: an
// object with an object for each upstream, by name.
const UpstreamsKey = "io.github.mcp-metatool/upstreams"

// Part is the contribution of an upstream to a merged object.
type Part struct {
	Server string
	Raw    []byte // a raw object; nil for none
}

// member is a member of an object, with the raw value.
type member struct {
	name  string
	value []byte
}

// members returns the members of the object raw, in order; none if raw is not an object. Of several
// with the same name the last counts, as in most parsers.
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

// MergeMeta merges the _meta objects of upstreams. A single object is returned unchanged. Of
// several, a member is kept if all upstreams with the member have the same value; other members go
// under UpstreamsKey, by upstream. MergeMeta returns nil if all objects are empty.
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
	differ := map[string]bool{UpstreamsKey: true} // otherwise theirs would collide with ours
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
	if own := differing(parts, all, differ); len(own) > 0 {
		merged = append(merged, member{UpstreamsKey, object(own)})
	}
	return object(merged)
}

// differing returns the members named in differ, by upstream.
func differing(parts []Part, all [][]member, differ map[string]bool) []member {
	var own []member
	for i, part := range all {
		kept := slices.DeleteFunc(part, func(m member) bool { return !differ[m.name] })
		if len(kept) > 0 {
			own = append(own, member{parts[i].Server, object(kept)})
		}
	}
	return own
}

// sameJSON reports whether two raw values are equal except for white space.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// maxUnion bounds how deeply nested objects are united.
const maxUnion = 32

// Union returns a raw object with the members of both objects. If both have a member, objects are
// united, true wins over false, and otherwise the value of a is kept. A value other than an object
// counts as an empty object.
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
