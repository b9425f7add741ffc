package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// members iterates over the members of an object, in order:
//
//	for o := walk(raw); o.next(); {
//		use(o.name(), o.value())
//	}
//
// After next has returned false with a nil err, raw is a valid object.
type members struct {
	member
	raw   []byte
	begun bool
	ended bool
	err   error
}

// member is one member of the object raw: raw[at:colon] is its quoted name,
// raw[start:end] its value.
type member struct{ at, colon, start, end int }

func walk(raw []byte) members { return members{raw: raw} }

func (o *members) next() bool {
	if o.ended {
		return false
	}
	i := skipSpace(o.raw, o.end)
	switch {
	case i == len(o.raw):
		return o.fail(i, unexpected)
	case !o.begun && o.raw[i] != '{':
		o.ended, o.err = true, errNotObject
		return false
	case !o.begun:
		o.begun = true
		if i = skipSpace(o.raw, i+1); i < len(o.raw) && o.raw[i] == '}' {
			return o.finish(i + 1)
		}
	case o.raw[i] == '}':
		return o.finish(i + 1)
	case o.raw[i] == ',':
		i = skipSpace(o.raw, i+1)
	default:
		return o.fail(i, unexpected)
	}
	return o.read(i)
}

// read reads the member at i.
func (o *members) read(i int) bool {
	at := i
	i, f := scanString(o.raw, i)
	if f != noFault {
		return o.fail(i, f)
	}
	colon := i
	if i, f = scanColon(o.raw, i); f != noFault {
		return o.fail(i, f)
	}
	end, f := scanValue(o.raw, i, 1)
	if f != noFault {
		return o.fail(end, f)
	}
	o.member = member{at, colon, i, end}
	return true
}

func (o *members) fail(i int, f fault) bool {
	o.ended, o.err = true, syntax(o.raw, i, f)
	return false
}

// finish checks the absence of data after the object.
func (o *members) finish(i int) bool {
	o.ended, o.err = true, checkEnd(o.raw, i)
	return false
}

// checkEnd returns an error if anything but white space follows at i.
func checkEnd(raw []byte, i int) error {
	if i = skipSpace(raw, i); i < len(raw) {
		return fmt.Errorf("more than one value: text follows at byte %d", i)
	}
	return nil
}

// name returns the member's name, without quotes and escapes.
func (o *members) name() []byte {
	quoted := o.raw[o.at:o.colon]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, quoted) // invalid UTF-8 becomes U+FFFD
	return name
}

// is reports whether the member has the given name.
func (o *members) is(name string) bool { return string(o.name()) == name }

// value returns the raw value of the member.
func (o *members) value() []byte { return o.raw[o.start:o.end] }

func unquote(raw []byte) string {
	if len(raw) >= 2 && bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	b, _ := jsontext.AppendUnquote(nil, raw) // invalid UTF-8 becomes U+FFFD
	return string(b)
}

// find locates the last member called name, the choice of most JSON parsers.
func find(obj []byte, name string) (m member, ok bool, err error) {
	m, n, err := count(obj, name)
	return m, n > 0, err
}

// count is find, and also returns the number of members with this name.
func count(obj []byte, name string) (last member, n int, err error) {
	o := walk(obj)
	for o.next() {
		if o.is(name) {
			last = o.member
			n++
		}
	}
	return last, n, o.err
}

// findOnly removes all but the last member called name and locates the last. only is obj itself if
// obj has no second, otherwise a copy.
func findOnly(obj []byte, name string) (only []byte, m member, ok bool, err error) {
	m, count, err := count(obj, name)
	if err != nil || count < 2 {
		return obj, m, count == 1, err
	}
	only = remove(obj, name, count-1)
	shift := len(obj) - len(only)
	return only, member{m.at - shift, m.colon - shift, m.start - shift, m.end - shift}, true, nil
}

// Get returns the raw value at path in the object obj. ok is false if the value is missing, or if
// obj or a value on the path is not an object.
func Get(obj []byte, path ...string) (value []byte, ok bool) {
	value = obj
	for _, name := range path {
		if lacks(value, name) {
			return nil, false
		}
		m, found, err := find(value, name)
		if !found || err != nil {
			return nil, false
		}
		value = value[m.start:m.end]
	}
	return value, true
}

// lacks reports whether raw certainly has no member called name. lacks is much faster than find.
func lacks(raw []byte, name string) bool {
	return !bytes.Contains(raw, []byte(name)) && bytes.IndexByte(raw, '\\') < 0
}

// Pick gets several members in a single pass: values[i] becomes the raw value of the member called
// names[i], or nil. If obj is not an object, all are nil and ok is false.
func Pick(obj []byte, names []string, values [][]byte) (ok bool) {
	clear(values)
	o := walk(obj)
	for o.next() {
		own := o.name()
		for i, name := range names {
			if string(own) == name {
				values[i] = o.value()
				break
			}
		}
	}
	if o.err != nil {
		clear(values)
	}
	return o.err == nil
}

// GetString returns the string at path in the object obj.
func GetString(obj []byte, path ...string) (s string, ok bool) {
	raw, _ := Get(obj, path...)
	return Text(raw)
}

// Text decodes a JSON string. raw is valid JSON or nil; ok is false if raw is not a string.
func Text(raw []byte) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return unquote(raw), true
}

// Set returns a copy of the object obj with the raw value at path. All other bytes stay unchanged.
// A nil obj means an empty object. Set creates missing objects on the path and adds new members at
// the end. Of several members with the same name, Set keeps only the last: a parser that uses the
// first must not see another value. Set fails if obj or a value on the path is not an object.
func Set(obj, value []byte, path ...string) ([]byte, error) {
	if len(path) == 0 {
		return value, nil
	}
	if obj == nil {
		obj = []byte("{}")
	}
	start, end := 0, len(obj) // of the innermost object on the path
	for i, name := range path {
		only, m, ok, err := findOnly(obj[start:end], name)
		if err != nil {
			return nil, fmt.Errorf("set %q: %w", name, err)
		}
		if len(only) < end-start {
			obj = splice(obj, start, end, only)
			end = start + len(only)
		}
		if !ok {
			return add(obj, start, end, value, path[i:]), nil
		}
		start, end = start+m.start, start+m.end
	}
	return splice(obj, start, end, value), nil
}

// add is Set for an object raw[start:end] without a member path[0].
func add(raw []byte, start, end int, value []byte, path []string) []byte {
	size := len(value)
	for _, name := range path {
		size += len(name) + len(`,"":{}`)
	}
	entry := make([]byte, 0, size)
	end = start + bytes.LastIndexByte(raw[start:end], '}')
	if body := bytes.TrimRight(raw[start:end], " \t\r\n"); body[len(body)-1] != '{' {
		entry = append(entry, ',')
	}
	for i, name := range path {
		if i > 0 {
			entry = append(entry, '{')
		}
		entry = append(AppendQuote(entry, name), ':')
	}
	entry = append(entry, value...)
	for range path[1:] {
		entry = append(entry, '}')
	}
	return splice(raw, end, end, entry)
}

// Delete returns obj without the member at path, or obj itself if the member is missing. Of several
// members with the same name on the path, Delete keeps only the last, like Set. Delete fails if obj
// or a value on the path is not an object.
func Delete(obj []byte, path ...string) ([]byte, error) {
	if len(path) > 1 {
		only, m, ok, err := findOnly(obj, path[0])
		if err != nil {
			return nil, fmt.Errorf("delete %q: %w", path[0], err)
		}
		if !ok {
			return obj, nil
		}
		inner, err := Delete(only[m.start:m.end], path[1:]...)
		switch {
		case err != nil:
			return nil, err
		case len(inner) == m.end-m.start:
			return only, nil
		}
		return splice(only, m.start, m.end, inner), nil
	}
	_, n, err := count(obj, path[0])
	switch {
	case err != nil:
		return nil, fmt.Errorf("delete %q: %w", path[0], err)
	case n == 0:
		return obj, nil
	}
	return remove(obj, path[0], n), nil
}

// remove returns obj without the first n members called name; obj has at least n. Each takes one
// adjacent comma along. All other bytes stay.
func remove(obj []byte, name string, n int) []byte {
	out := make([]byte, 0, len(obj))
	copied := 0      // bytes of obj that were copied or removed
	leading := false // all members so far are removed
	for first, o := true, walk(obj); (n > 0 || leading) && o.next(); first = false {
		separator := len(bytes.TrimRight(obj[:o.at], " \t\r\n")) - 1 // a comma, or the opening brace
		gone := n > 0 && o.is(name)
		switch {
		case gone && first:
			out, leading = append(out, obj[:o.at]...), true
		case gone && !leading:
			out = append(out, obj[copied:separator]...)
		case leading && !gone:
			copied, leading = separator+1, false
		}
		if gone {
			copied = o.end
			n--
		}
	}
	return append(out, obj[copied:]...)
}

func splice(b []byte, start, end int, with []byte) []byte {
	out := make([]byte, 0, len(b)-(end-start)+len(with))
	out = append(out, b[:start]...)
	out = append(out, with...)
	return append(out, b[end:]...)
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte { return AppendQuote(nil, s) }

// AppendQuote appends s as a JSON string, like Quote.
func AppendQuote(b []byte, s string) []byte {
	if simple(s) {
		b = append(slices.Grow(b, len(s)+2), '"')
		return append(append(b, s...), '"')
	}
	out, err := jsontext.AppendQuote(b, s)
	if err != nil { // only for invalid UTF-8, which AppendQuote has replaced
		q, _ := json.Marshal(s)
		return append(b, q...)
	}
	return out
}

// simple reports whether s needs no escapes in a JSON string.
func simple(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7F {
			return false
		}
	}
	return true
}

// IsObject reports whether raw is a valid JSON object.
func IsObject(raw []byte) bool {
	o := walk(raw)
	for o.next() {
	}
	return o.err == nil
}

// Member is a member of an object.
type Member struct {
	Name  string
	Value []byte // raw
}

// Members returns the members of the object raw, in order. ok is false if raw is not an object.
func Members(raw []byte) (all []Member, ok bool) {
	o := walk(raw)
	for o.next() {
		all = append(all, Member{string(o.name()), o.value()})
	}
	if o.err != nil {
		return nil, false
	}
	return all, true
}

// Each calls f for the members of the object raw, in order, until f returns false. Unlike Members,
// Each uses no memory per member. ok is false if the part of raw that was read is not an object.
func Each(raw []byte, f func(name, value []byte) (more bool)) (ok bool) {
	o := walk(raw)
	for o.next() {
		if !f(o.name(), o.value()) {
			return true
		}
	}
	return o.err == nil
}

// maxElements bounds the allocation of Elements for a hostile array.
const maxElements = 1 << 20

// Elements returns the raw elements of the JSON array raw. It fails for more than maxElements
// elements.
func Elements(raw []byte) ([][]byte, error) {
	items, ok, err := split(raw, maxElements)
	if err != nil {
		return nil, tooMany(err, maxElements)
	}
	if !ok {
		return nil, errors.New("not a JSON array")
	}
	return items, nil
}

// FirstElements returns the first elements of the JSON array raw, at most as many as most. more
// reports whether unread elements follow.
func FirstElements(raw []byte, most int) (items [][]byte, more bool, err error) {
	items, ok, err := split(raw, most)
	switch {
	case err == nil && !ok:
		return nil, false, errors.New("not a JSON array")
	case errors.Is(err, errTooMany):
		return items, true, nil
	}
	return items, false, err
}

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

// Object builds a JSON object by appending its members in order. Raw values are copied unchanged.
// The caller must pass valid JSON and add each name only once. The zero Object is ready to use. An
// Object must not be used concurrently, nor copied after its first member.
//
// encoding/json would parse each raw value again, change the spelling of values, and refuse very
// deep values.
type Object struct {
	b []byte // the object without its closing brace; empty before the first member
}

// NewObject returns an Object with capacity for size bytes. Within this capacity, building the
// object allocates nothing more.
func NewObject(size int) Object { return Object{make([]byte, 0, size)} }

// name begins a member.
func (o *Object) name(name string) {
	separator := byte(',')
	if len(o.b) == 0 {
		separator = '{'
	}
	o.b = append(AppendQuote(append(o.b, separator), name), ':')
}

// Raw adds a member with a raw JSON value. A nil value adds nothing, as absent
// members are nil in this package.
func (o *Object) Raw(name string, value []byte) {
	if value != nil {
		o.name(name)
		o.b = append(o.b, value...)
	}
}

// Text adds a string, quoted as [Quote] does.
func (o *Object) Text(name, value string) {
	o.name(name)
	o.b = AppendQuote(o.b, value)
}

// NonEmpty adds a string unless it is empty.
func (o *Object) NonEmpty(name, value string) {
	if value != "" {
		o.Text(name, value)
	}
}

// Int adds a number.
func (o *Object) Int(name string, value int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

// Uint adds an unsigned number.
func (o *Object) Uint(name string, value uint64) {
	o.name(name)
	o.b = strconv.AppendUint(o.b, value, 10)
}

// NonZero adds a number unless it is 0.
func (o *Object) NonZero(name string, value uint64) {
	if value != 0 {
		o.Uint(name, value)
	}
}

// Bool adds true or false.
func (o *Object) Bool(name string, value bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, value)
}

// Texts adds an array of strings unless it is empty.
func (o *Object) Texts(name string, all []string) {
	if len(all) == 0 {
		return
	}
	quoted := make([][]byte, len(all))
	for i, text := range all {
		quoted[i] = Quote(text)
	}
	o.Raw(name, Array(quoted))
}

// IsEmpty reports whether no member has been added yet.
func (o *Object) IsEmpty() bool { return len(o.b) == 0 }

// Bytes ends the object and returns the JSON. Bytes must be called only once, after the last
// member.
func (o *Object) Bytes() []byte {
	if len(o.b) == 0 {
		return append(o.b, "{}"...)
	}
	return append(o.b, '}')
}

// Array returns a JSON array of raw values, with one allocation.
func Array(items [][]byte) []byte {
	size := len("[]") + len(items)
	for _, item := range items {
		size += len(item)
	}
	b := append(make([]byte, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}
