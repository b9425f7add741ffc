package wire

import (
	"bytes"
	"slices"
)

// Without returns obj without the members of these names, or obj itself if none is present. Without
// fails if obj is not an object.
func Without(obj []byte, names ...string) ([]byte, error) {
	var out []byte // the copied part of obj; nil until a member is removed
	kept := 0      // members in out
	o := walk(obj)
	for o.next() {
		removed := slices.ContainsFunc(names, o.is)
		if removed && out == nil {
			out = append(make([]byte, 0, len(obj)), '{')
			for before := walk(obj); before.next() && before.at < o.at; kept++ {
				out = appendMember(out, obj, before.member, kept)
			}
		} else if !removed && out != nil {
			out = appendMember(out, obj, o.member, kept)
			kept++
		}
	}
	switch {
	case o.err != nil:
		return nil, o.err
	case out == nil:
		return obj, nil
	}
	return append(out, '}'), nil
}

func appendMember(out, obj []byte, m member, before int) []byte {
	if before > 0 {
		out = append(out, ',')
	}
	return append(out, obj[m.at:m.end]...)
}

// Extend returns a copy of the object obj with the members of another object at the end. Both must
// be valid objects without a common name.
func Extend(obj, more []byte) []byte {
	obj, more = bytes.TrimSpace(obj), bytes.TrimSpace(more)
	out := make([]byte, 0, len(obj)+len(more))
	out = append(out, obj[:len(obj)-1]...)
	rest := bytes.TrimLeft(more[1:], " \t\r\n")
	if rest[0] != '}' && len(bytes.TrimSpace(obj[1:len(obj)-1])) > 0 {
		out = append(out, ',')
	}
	return append(out, rest...)
}
