package csv

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// writer is a writer, or with names a DictWriter.
type writer struct {
	file   starlark.Value
	format format
	// Of a DictWriter.
	names  []starlark.Value
	filler starlark.Value
	ignore bool
}

var _ starlark.HasAttrs = (*writer)(nil)

func newWriter(c *stdlib.Call) (starlark.Value, error) {
	args := c.Args
	var dialect starlark.Value
	if len(args) == 2 {
		dialect, args = args[1], args[:1]
	}
	w := &writer{}
	var rest []starlark.Tuple
	var err error
	if w.format, rest, err = options(c, dialect); err != nil {
		return nil, err
	}
	own := &stdlib.Call{Thread: c.Thread, Name: c.Name, Args: args, Kwargs: rest}
	return w, own.Unpack("csvfile", &w.file, "/", nil)
}

func newDictWriter(c *stdlib.Call) (starlark.Value, error) {
	w := &writer{filler: starlark.String("")}
	f, rest, err := options(c, nil)
	if err != nil {
		return nil, err
	}
	w.format = f
	var fields starlark.Value
	extra := "raise"
	own := &stdlib.Call{Thread: c.Thread, Name: c.Name, Args: c.Args, Kwargs: rest}
	if err := own.Unpack("f", &w.file, "fieldnames", &fields, "restval?", &w.filler, "extrasaction?", &extra); err != nil {
		return nil, err
	}
	if extra != "raise" && extra != "ignore" {
		return nil, stdlib.Errorf(stdlib.ValueError, "extrasaction (%s) must be 'raise' or 'ignore'", extra)
	}
	w.ignore = extra == "ignore"
	if w.names, err = c.Elements(fields); err != nil {
		return nil, err
	}
	if w.names == nil {
		w.names = []starlark.Value{}
	}
	return w, nil
}

func (*writer) String() string       { return "<_csv.writer object>" }
func (*writer) Type() string         { return "_csv.writer" }
func (*writer) Freeze()              {}
func (*writer) Truth() starlark.Bool { return true }

// Hash fails: a hash has no use.
func (*writer) Hash() (uint32, error) {
	return 0, stdlib.Errorf(stdlib.TypeError, "unhashable type: '_csv.writer'")
}

func (w *writer) AttrNames() []string {
	if w.names != nil {
		return []string{"fieldnames", "writeheader", "writerow", "writerows"}
	}
	return []string{"writerow", "writerows"}
}

func (w *writer) Attr(name string) (starlark.Value, error) {
	switch {
	case name == "writerow" || name == "writerows":
		return stdlib.NewFunc(name, w.write), nil
	case name == "writeheader" && w.names != nil:
		return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
			if err := c.Unpack(); err != nil {
				return nil, err
			}
			return w.row(c, w.names)
		}), nil
	case name == "fieldnames" && w.names != nil:
		return starlark.NewList(append([]starlark.Value(nil), w.names...)), nil
	}
	return nil, nil
}

// write is writerow and writerows.
func (w *writer) write(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("row", &v, "/", nil); err != nil {
		return nil, err
	}
	one := func(row starlark.Value) (starlark.Value, error) {
		if w.names != nil {
			fields, err := w.fields(c, row)
			if err != nil {
				return nil, err
			}
			return w.row(c, fields)
		}
		fields, err := c.Elements(row)
		if err != nil {
			return nil, fail("iterable expected, not " + stdlib.TypeName(row))
		}
		return w.row(c, fields)
	}
	if c.Name == "writerow" {
		return one(v)
	}
	return starlark.None, stdlib.Each(v, func(row starlark.Value) error {
		_, err := one(row)
		return err
	})
}

// fields returns the values of a dict in the order of the names.
func (w *writer) fields(c *stdlib.Call, row starlark.Value) ([]starlark.Value, error) {
	like, ok := row.(stdlib.DictLike)
	if !ok {
		return nil, stdlib.Errorf(stdlib.AttributeError, "'%s' object has no attribute 'keys'", stdlib.TypeName(row))
	}
	d := like.Underlying()
	out := make([]starlark.Value, len(w.names))
	known := 0
	for i, name := range w.names {
		v, found, err := d.Get(name)
		if err != nil {
			return nil, err
		}
		if out[i] = w.filler; found {
			out[i] = v
			known++
		}
	}
	if !w.ignore && known < d.Len() {
		return nil, stdlib.Errorf(stdlib.ValueError, "dict contains fields not in fieldnames: %s", w.unknown(c, d))
	}
	return out, nil
}

func (w *writer) unknown(c *stdlib.Call, d *starlark.Dict) string {
	var extra []starlark.Value
	for k := range d.Entries() {
		known := false
		for _, name := range w.names {
			same, _ := stdlib.Equal(k, name)
			known = known || same
		}
		if !known {
			extra = append(extra, k)
		}
	}
	return stdlib.JoinRepr(extra, c.Env().Repr)
}

// row writes a record and returns the result of the file's write.
func (w *writer) row(c *stdlib.Call, fields []starlark.Value) (starlark.Value, error) {
	var b strings.Builder
	for i, v := range fields {
		if i > 0 {
			b.WriteRune(w.format.delimiter)
		}
		text := ""
		if v != starlark.None {
			text = c.Env().Str(v)
		}
		if err := w.field(&b, v, text, len(fields)); err != nil {
			return nil, err
		}
	}
	b.WriteString(w.format.end)
	return c.CallMethod(w.file, "write", starlark.String(b.String()))
}

func (w *writer) field(b *strings.Builder, v starlark.Value, text string, count int) error {
	f := &w.format
	quoted := f.quoting == quoteAll
	switch v.(type) {
	case starlark.Int, starlark.Float, starlark.Bool:
	default:
		quoted = quoted || f.quoting == quoteNonNumeric
	}
	if f.quoting == quoteMinimal && f.needsQuotes(text) && !(!f.double && f.escape != 0 && !strings.ContainsRune(text, f.delimiter) && !strings.ContainsAny(text, "\r\n")) {
		quoted = true
	}
	if text == "" && count == 1 {
		if f.quoting == quoteNone {
			return fail("single empty field record must be quoted")
		}
		quoted = true
	}
	if quoted {
		b.WriteRune(f.quote)
	}
	for _, ch := range text {
		special := ch == f.quote && f.quote != 0 || ch == f.escape && f.escape != 0
		if !quoted {
			special = special || ch == f.delimiter || isEnd(ch) || strings.ContainsRune(f.end, ch)
		}
		if special {
			if quoted && ch == f.quote && f.double {
				b.WriteRune(f.quote)
			} else if f.escape != 0 {
				b.WriteRune(f.escape)
			} else if !quoted || ch == f.quote {
				return fail("need to escape, but no escapechar set")
			}
		}
		b.WriteRune(ch)
	}
	if quoted {
		b.WriteRune(f.quote)
	}
	return nil
}
