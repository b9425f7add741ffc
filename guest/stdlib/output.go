package stdlib

import (
	"strings"

	"go.starlark.net/starlark"
)

// Output is text growing within the memory of the run.
type Output struct {
	env  *Env
	text strings.Builder
	may  int // the length allowed before the run is asked again
}

// NewOutput returns an empty Output.
func (e *Env) NewOutput() *Output { return &Output{env: e, may: 4096} }

// WriteString appends s.
func (o *Output) WriteString(s string) error {
	if n := o.text.Len() + len(s); n > o.may {
		o.may = max(n, 2*o.may)
		if err := o.env.Charge(o.may); err != nil {
			return err
		}
	}
	o.text.WriteString(s)
	return nil
}

// Len returns the number of bytes.
func (o *Output) Len() int { return o.text.Len() }

// String returns the text.
func (o *Output) String() string { return o.text.String() }

// Values is a list growing within the memory of the run.
type Values struct {
	env  *Env
	List []starlark.Value
	may  int
}

// NewValues returns an empty list.
func (e *Env) NewValues() *Values { return &Values{env: e, may: 256} }

// valueSize is the size of a value in a slice, in bytes.
const valueSize = 16

// Add appends v.
func (l *Values) Add(v starlark.Value) error {
	if len(l.List) >= l.may {
		l.may *= 2
		if err := l.env.Charge(l.may * valueSize); err != nil {
			return err
		}
	}
	l.List = append(l.List, v)
	return nil
}

// Value returns the list for scripts.
func (l *Values) Value() *starlark.List { return starlark.NewList(l.List) }

// Elements returns the elements of a value, as many as the memory of the run holds.
func (c *Call) Elements(v starlark.Value) ([]starlark.Value, error) {
	switch v := v.(type) {
	case starlark.Tuple:
		return append([]starlark.Value(nil), v...), nil
	case starlark.Sequence:
		if n := v.Len(); n > 256 {
			if err := c.Env().Charge(n * valueSize); err != nil {
				return nil, err
			}
		}
	}
	list := c.Env().NewValues()
	err := Each(v, list.Add)
	return list.List, err
}
