package compose

import (
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// object builds a JSON object from raw values, which are trusted to be valid.
// encoding/json would read each of them again, and refuse the deepest.
type object struct{ b []byte }

func (o *object) raw(name string, value []byte) {
	sep := byte(',')
	if o.b == nil {
		sep = '{'
	}
	o.b = append(o.b, sep)
	o.b = append(o.b, wire.Quote(name)...)
	o.b = append(o.b, ':')
	o.b = append(o.b, value...)
}

// text adds a string, unless it is empty.
func (o *object) text(name, value string) {
	if value != "" {
		o.raw(name, wire.Quote(value))
	}
}

// count adds a number, unless it is 0.
func (o *object) count(name string, value uint64) {
	if value != 0 {
		o.raw(name, strconv.AppendUint(nil, value, 10))
	}
}

// number is count for a number that may have a fraction.
func (o *object) number(name string, value float64) {
	if value != 0 {
		o.raw(name, wire.Marshal(value))
	}
}

func (o *object) empty() bool { return o.b == nil }

func (o *object) bytes() []byte {
	if o.b == nil {
		return []byte("{}")
	}
	return append(o.b, '}')
}

// array joins raw values.
func array(items [][]byte) []byte {
	b := []byte{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

func isEmptyObject(raw []byte) bool {
	for _, c := range raw {
		if c != '{' && c != '}' && c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return false
		}
	}
	return true
}
