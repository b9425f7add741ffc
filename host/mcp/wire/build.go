package wire

import "strconv"

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
