// Package csv is Python's modules csv and io, the latter with StringIO and BytesIO.
package csv

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
)

// The modes of quoting.
const (
	quoteMinimal = iota
	quoteAll
	quoteNonNumeric
	quoteNone
)

const errorClass = "csv.Error"

// Module returns the module csv.
func Module() *stdlib.Module {
	members := stdlib.Funcs(map[string]stdlib.Func{
		"reader": newReader, "writer": newWriter, "DictReader": newDictReader, "DictWriter": newDictWriter,
		"list_dialects": func(c *stdlib.Call) (starlark.Value, error) {
			return starlark.NewList([]starlark.Value{starlark.String("excel"), starlark.String("excel-tab"), starlark.String("unix")}), c.Unpack()
		},
	})
	members["Error"] = stdlib.ErrorClass(errorClass)
	for i, name := range []string{"QUOTE_MINIMAL", "QUOTE_ALL", "QUOTE_NONNUMERIC", "QUOTE_NONE"} {
		members[name] = starlark.MakeInt(i)
	}
	return &stdlib.Module{Name: "csv", Members: members}
}

func fail(message string) error { return &stdlib.Error{Class: errorClass, Message: message} }

// format says how a file is written. A rune 0 is none.
type format struct {
	delimiter, quote, escape rune
	double, skip, strict     bool
	end                      string
	quoting                  int
}

// names are the keywords of formats.
var names = map[string]bool{
	"dialect": true, "delimiter": true, "quotechar": true, "escapechar": true, "doublequote": true,
	"skipinitialspace": true, "strict": true, "lineterminator": true, "quoting": true,
}

// options reads the keywords of a format and returns the other keywords. positional is a dialect
// given by position, nil for none.
func options(c *stdlib.Call, positional starlark.Value) (format, []starlark.Tuple, error) {
	f := format{delimiter: ',', quote: '"', double: true, end: "\r\n"}
	var rest, own []starlark.Tuple
	for _, kv := range c.Kwargs {
		switch name := string(kv[0].(starlark.String)); {
		case name == "dialect":
			positional = kv[1]
		case names[name]:
			own = append(own, kv)
		default:
			rest = append(rest, kv)
		}
	}
	if positional != nil && positional != starlark.None {
		name, ok := starlark.AsString(positional)
		switch {
		case ok && name == "excel":
		case ok && name == "excel-tab":
			f.delimiter = '\t'
		case ok && name == "unix":
			f.end, f.quoting = "\n", quoteAll
		default:
			return f, nil, fail("unknown dialect")
		}
	}
	var delimiter, quote, escape starlark.Value
	named := &stdlib.Call{Thread: c.Thread, Name: c.Name, Kwargs: own}
	err := named.Unpack("*", nil, "delimiter?", &delimiter, "quotechar?", &quote, "escapechar?", &escape, "doublequote?", &f.double,
		"skipinitialspace?", &f.skip, "strict?", &f.strict, "lineterminator?", &f.end, "quoting?", &f.quoting)
	if err != nil {
		return f, nil, err
	}
	for _, p := range []struct {
		name string
		v    starlark.Value
		to   *rune
	}{{"delimiter", delimiter, &f.delimiter}, {"quotechar", quote, &f.quote}, {"escapechar", escape, &f.escape}} {
		if err := oneCharacter(p.name, p.v, p.to); err != nil {
			return f, nil, err
		}
	}
	if quote == starlark.None && f.quoting == quoteMinimal {
		f.quoting = quoteNone
	}
	switch {
	case f.quoting < quoteMinimal || f.quoting > quoteNone:
		return f, nil, stdlib.Errorf(stdlib.TypeError, `bad "quoting" value`)
	case f.quote == 0 && f.quoting != quoteNone:
		return f, nil, stdlib.Errorf(stdlib.TypeError, "quotechar must be set if quoting enabled")
	}
	return f, rest, nil
}

func oneCharacter(name string, v starlark.Value, to *rune) error {
	if v == nil {
		return nil
	}
	if v == starlark.None && name != "delimiter" {
		*to = 0
		return nil
	}
	s, ok := starlark.AsString(v)
	if !ok {
		return stdlib.Errorf(stdlib.TypeError, `"%s" must be string or None, not %s`, name, stdlib.TypeName(v))
	}
	if utf8.RuneCountInString(s) != 1 {
		return stdlib.Errorf(stdlib.TypeError, `"%s" must be a 1-character string`, name)
	}
	*to, _ = utf8.DecodeRuneInString(s)
	return nil
}

// needsQuotes reports whether a field must be quoted to be read again.
func (f *format) needsQuotes(field string) bool {
	return strings.ContainsRune(field, f.delimiter) || f.quote != 0 && strings.ContainsRune(field, f.quote) ||
		f.escape != 0 && strings.ContainsRune(field, f.escape) || strings.ContainsAny(field, f.end) || strings.ContainsAny(field, "\r\n")
}

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
