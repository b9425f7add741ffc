package csv

import (
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// maxField is the length of the longest field, in bytes, as in Python.
const maxField = 131072

// state is where in a record a reader is.
type state int

const (
	startRecord state = iota
	startField
	escaped
	inField
	inQuoted
	escapedInQuoted
	quoteInQuoted
	eatNewline
	afterEscapedNewline
)

// rows reads records from lines.
type rows struct {
	call   *stdlib.Call
	format format
	next   func() (starlark.Value, error)
	lines  int

	state   state
	field   []rune
	numeric bool
	record  *stdlib.Values
}

func newRows(c *stdlib.Call, iterable starlark.Value, f format) (*rows, error) {
	next, err := c.Source(iterable)
	if err != nil {
		return nil, err
	}
	return &rows{call: c, format: f, next: next}, nil
}

// read returns the next record, nil at the end.
func (r *rows) read() ([]starlark.Value, error) {
	r.record, r.state, r.field = r.call.Env().NewValues(), startRecord, r.field[:0]
	for {
		v, err := r.next()
		if err != nil {
			return nil, err
		}
		if v == nil {
			if len(r.field) > 0 || r.state == inQuoted {
				if r.format.strict {
					return nil, fail("unexpected end of data")
				}
				return r.record.List, r.save()
			}
			return nil, nil
		}
		line, ok := starlark.AsString(v)
		if !ok {
			return nil, fail("iterator should return strings, not " + stdlib.TypeName(v) + " (the file should be opened in text mode)")
		}
		r.lines++
		for _, ch := range line {
			if err := r.feed(ch, false); err != nil {
				return nil, err
			}
		}
		if err := r.feed(0, true); err != nil {
			return nil, err
		}
		if r.state == startRecord {
			return append([]starlark.Value{}, r.record.List...), nil
		}
	}
}

// save ends a field.
func (r *rows) save() error {
	text := string(r.field)
	r.field = r.field[:0]
	if r.numeric {
		r.numeric = false
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return stdlib.Errorf(stdlib.ValueError, "could not convert string to float: %s", r.call.Env().Repr(starlark.String(text)))
		}
		return r.record.Add(starlark.Float(f))
	}
	return r.record.Add(starlark.String(text))
}

func (r *rows) add(ch rune) error {
	if len(r.field) >= maxField {
		return fail("field larger than field limit (131072)")
	}
	r.field = append(r.field, ch)
	return nil
}

func isEnd(ch rune) bool { return ch == '\n' || ch == '\r' }

// feed takes a character, or the end of a line.
func (r *rows) feed(ch rune, end bool) error {
	f := &r.format
	is := func(c rune) bool { return !end && c != 0 && ch == c }
	switch r.state {
	case startRecord:
		if end {
			return nil
		}
		if isEnd(ch) {
			r.state = eatNewline
			return nil
		}
		r.state = startField
		return r.begin(ch, end)
	case startField:
		return r.begin(ch, end)
	case escaped:
		if end || isEnd(ch) {
			if end {
				ch = '\n'
			}
			r.state = afterEscapedNewline
			return r.add(ch)
		}
		r.state = inField
		return r.add(ch)
	case afterEscapedNewline, inField:
		switch {
		case r.state == afterEscapedNewline && end:
			return nil
		case end || isEnd(ch):
			return r.endRecord(end)
		case is(f.escape):
			r.state = escaped
		case is(f.delimiter):
			r.state = startField
			return r.save()
		default:
			r.state = inField
			return r.add(ch)
		}
	case inQuoted:
		switch {
		case end:
		case is(f.escape):
			r.state = escapedInQuoted
		case is(f.quote) && f.quoting != quoteNone:
			r.state = inField
			if f.double {
				r.state = quoteInQuoted
			}
		default:
			return r.add(ch)
		}
	case escapedInQuoted:
		if end {
			ch = '\n'
		}
		r.state = inQuoted
		return r.add(ch)
	case quoteInQuoted:
		switch {
		case is(f.quote) && f.quoting != quoteNone:
			r.state = inQuoted
			return r.add(ch)
		case is(f.delimiter):
			r.state = startField
			return r.save()
		case end || isEnd(ch):
			return r.endRecord(end)
		case f.strict:
			return fail("'" + string(f.delimiter) + "' expected after '" + string(f.quote) + "'")
		}
		r.state = inField
		return r.add(ch)
	case eatNewline:
		switch {
		case end:
			r.state = startRecord
		case !isEnd(ch):
			return fail("new-line character seen in unquoted field - do you need to open the file with newline=''?")
		}
	}
	return nil
}

func (r *rows) endRecord(end bool) error {
	r.state = eatNewline
	if end {
		r.state = startRecord
	}
	return r.save()
}

// begin takes the first character of a field.
func (r *rows) begin(ch rune, end bool) error {
	f := &r.format
	switch {
	case end || isEnd(ch):
		return r.endRecord(end)
	case f.quote != 0 && ch == f.quote && f.quoting != quoteNone:
		r.state = inQuoted
	case f.escape != 0 && ch == f.escape:
		r.state = escaped
	case ch == ' ' && f.skip:
	case ch == f.delimiter:
		return r.save()
	default:
		r.numeric = f.quoting == quoteNonNumeric
		r.state = inField
		return r.add(ch)
	}
	return nil
}

func newReader(c *stdlib.Call) (starlark.Value, error) {
	args := c.Args
	var dialect starlark.Value
	if len(args) == 2 {
		dialect, args = args[1], args[:1]
	}
	f, rest, err := options(c, dialect)
	if err != nil {
		return nil, err
	}
	var iterable starlark.Value
	own := &stdlib.Call{Thread: c.Thread, Name: c.Name, Args: args, Kwargs: rest}
	if err := own.Unpack("iterable", &iterable, "/", nil); err != nil {
		return nil, err
	}
	r, err := newRows(c, iterable, f)
	if err != nil {
		return nil, err
	}
	it := stdlib.NewIterator("_csv.reader", func() (starlark.Value, error) {
		record, err := r.read()
		if record == nil || err != nil {
			return nil, err
		}
		return starlark.NewList(record), nil
	})
	return it.WithAttrs([]string{"line_num"}, func(name string) (starlark.Value, error) {
		if name == "line_num" {
			return starlark.MakeInt(r.lines), nil
		}
		return nil, nil
	}), nil
}

// dictRows is a DictReader.
type dictRows struct {
	*rows
	names           []starlark.Value // nil until the first line is read
	restKey, filler starlark.Value
}

func newDictReader(c *stdlib.Call) (starlark.Value, error) {
	f, rest, err := options(c, nil)
	if err != nil {
		return nil, err
	}
	var iterable, fields starlark.Value
	d := &dictRows{restKey: starlark.None, filler: starlark.None}
	own := &stdlib.Call{Thread: c.Thread, Name: c.Name, Args: c.Args, Kwargs: rest}
	if err := own.Unpack("f", &iterable, "fieldnames??", &fields, "restkey?", &d.restKey, "restval?", &d.filler); err != nil {
		return nil, err
	}
	if d.rows, err = newRows(c, iterable, f); err != nil {
		return nil, err
	}
	if fields != nil {
		if d.names, err = c.Elements(fields); err != nil {
			return nil, err
		}
	}
	return stdlib.NewIterator("DictReader", d.readDict).WithAttrs([]string{"fieldnames", "line_num"}, func(name string) (starlark.Value, error) {
		switch name {
		case "line_num":
			return starlark.MakeInt(d.lines), nil
		case "fieldnames":
			if err := d.readNames(); err != nil || d.names == nil {
				return starlark.None, err
			}
			return starlark.NewList(append([]starlark.Value(nil), d.names...)), nil
		}
		return nil, nil
	}), nil
}

func (d *dictRows) readNames() (err error) {
	if d.names == nil {
		d.names, err = d.read()
	}
	return err
}

func (d *dictRows) readDict() (starlark.Value, error) {
	if err := d.readNames(); err != nil || d.names == nil {
		return nil, err
	}
	record, err := d.read()
	for err == nil && record != nil && len(record) == 0 { // empty lines
		record, err = d.read()
	}
	if record == nil || err != nil {
		return nil, err
	}
	out := d.call.Env().NewDict(len(d.names))
	for i, name := range d.names {
		v := d.filler
		if i < len(record) {
			v = record[i]
		}
		if err := out.SetKey(name, v); err != nil {
			return nil, err
		}
	}
	if len(record) > len(d.names) {
		return out, out.SetKey(d.restKey, starlark.NewList(record[len(d.names):]))
	}
	return out, nil
}
