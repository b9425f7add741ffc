package smoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Phase says when a check runs.
type Phase string

// The phases, in their order.
const (
	Setup    Phase = "setup" // before the checks of the file
	Main     Phase = ""
	Teardown Phase = "teardown" // after them, whatever has happened
)

// key returns the key of the tables of a phase.
func (p Phase) key() string { return cmp.Or(string(p), "check") }

// source is the table of a check.
type source struct {
	section *config.Section
	phase   Phase
	index   int // among the tables of the phase
	order   int // among all tables of the file, as they run
	row     row
	again   bool // some of its values become known only later
}

// readFilled reads a check, as far as its values are known before the run.
func (r *fileReader) readFilled(from *source) *Check {
	c := &Check{}
	s := from.section.Fill(r.filling(from, c, func(name string) ([]byte, error) {
		return nil, &captureError{name, r.file.captures[name].check, notYet}
	}))
	r.begin(s, from, c)
	for _, key := range []string{"server", "call", "mock", "tags", "retry", "expect.snapshot"} {
		var captured *captureError
		if missing := s.Missing(key); missing != nil && errors.As(missing, &captured) && (key != "mock" || s.IsString(key)) {
			s.Problem(key, "cannot have a captured value (only variables and values of rows)")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.uses)) {
		if at := r.file.captures[name]; at != nil && at.order >= from.order && !from.row.has(name) {
			s.Problem("", "%v", r.unknown(from, name))
		}
	}
	from.again = s.Missing("") != nil
	r.readCheck(s, c)
	return c
}

// has reports whether the row has a column.
func (r row) has(name string) bool {
	_, ok := r.values[name]
	return ok
}

// label returns the name of the table in messages about the file: the written name.
func (from *source) label() string {
	c := Check{Phase: from.phase}
	c.Name, _ = from.written("name")
	c.Server, _ = from.written("server")
	c.Call, _ = from.written("call")
	c.setName(from.index)
	return c.label()
}

// written returns the string under a key of the table, as written.
func (from *source) written(key string) (string, bool) {
	if !from.section.IsString(key) {
		return "", false
	}
	return from.section.Verbatim(key)
}

// setName names a nameless check by its index in its phase.
func (c *Check) setName(index int) {
	c.Name = cmp.Or(c.Name, c.Call, c.Server, fmt.Sprintf("%s %d", c.Phase.key(), index+1))
}

// begin reads the name and the position of a check. A name with unknown values stays as written.
// Names are keys: variables are not expanded there.
func (r *fileReader) begin(s *config.Section, from *source, c *Check) {
	*c = Check{
		place: r.file.place, Params: []byte("{}"), within: defaultCancelled, number: from.index + 1,
		Phase: from.phase, Row: from.row.number, from: from, uses: c.uses, needs: c.needs,
	}
	c.Line, c.Column = s.Place("")
	for key, to := range map[string]*string{"name": &c.Name, "server": &c.Server, "call": &c.Call} {
		text, _ := s.Verbatim(key)
		raw, _ := from.written(key)
		*to = cmp.Or(text, raw)
	}
	c.setName(from.index)
	if c.Row > 0 && !config.HasReferences(from.label()) {
		c.Name += fmt.Sprintf(" (row %d)", c.Row)
	}
	s.Know("rows")
	if c.Phase == Main {
		c.Tags = slices.Compact(append(slices.Clone(r.file.tags), readTags(s, "tags")...))
	}
}

// ready returns the check as run: with the values that other checks have captured. The error is a
// *BrokenError.
func (f *File) ready(ctx context.Context, c *Check, captured func(name string) ([]byte, error), hide func(...string)) (*Check, error) {
	if !c.from.again {
		return c, nil
	}
	r := &fileReader{opts: f.reader.opts, file: f, dir: f.reader.dir, planned: c}
	r.opts.Load.Context = ctx
	filled := &Check{}
	var missing *config.Problem
	secrets, err := c.from.section.Reread(r.filling(c.from, filled, captured), func(s *config.Section) {
		r.begin(s, c.from, filled)
		if missing = s.Missing(""); missing == nil {
			r.readCheck(s, filled)
		}
	})
	hide(secrets...)
	switch {
	case missing != nil:
		return c, brokenAt(f.explain(missing))
	case err != nil:
		return c, broken(err, "with the values of this run, the check is wrong: %v", err)
	}
	if err := r.checkServer(filled); err != nil {
		return c, brokenAt(err)
	}
	return filled, nil
}
