package cassette

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Suffix is the suffix of the file names of cassettes.
const Suffix = ".cassette.toml"

// maxFile is the size of the largest readable file, in bytes.
const maxFile = 64 << 20

// Problem is an error in a file. Read and Parse return all problems in one error (see errors.Join),
// each on a line.
type Problem struct {
	File         string
	Line, Column int    // from 1, in code points; 0 if the position is not known
	Key          string // "interaction 2: params"; "" for the file as a whole
	Text         string
	Err          error // the cause, or nil
}

// Error returns a line, for example
//
//	a.cassette.toml:7:1: interaction 2: delay "1" has no unit
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + " ")
	}
	return b.String() + p.Text
}

// Unwrap returns the cause, or nil.
func (p *Problem) Unwrap() error { return p.Err }

// Read reads a file. The errors are of type *Problem.
func Read(ctx context.Context, at regular.Place) (*Cassette, error) {
	data, err := at.Read(ctx, maxFile)
	if err != nil {
		return nil, unreadable(at.String(), err)
	}
	return Parse(at.String(), data)
}

func unreadable(path string, err error) error {
	text := err.Error()
	var cause *os.PathError
	if errors.As(err, &cause) {
		text = cause.Err.Error()
	}
	return &Problem{File: path, Text: "cannot be read: " + text, Err: err}
}

// arrayKey is the key of the array of interactions.
const arrayKey = "interaction"

// Parse reads the text of a file. name is the file's name for messages. The errors are of type
// *Problem.
func Parse(name string, data []byte) (*Cassette, error) {
	text := string(bytes.TrimPrefix(data, []byte("\ufeff")))
	f := &file{name: name, positions: &positions{text: text}}
	var root map[string]any
	if _, err := tomldoc.Decode(text, &root); err != nil {
		return nil, f.syntaxProblem(err)
	}
	f.positions = findPositions(text, arrayKey)
	return f.read(root)
}

// syntaxProblem returns the Problem for an error of the TOML decoder.
func (f *file) syntaxProblem(err error) *Problem {
	p := &Problem{File: f.name, Text: strings.TrimPrefix(err.Error(), "toml: "), Err: err}
	if guarded := new(tomldoc.Error); errors.As(err, &guarded) {
		p.Line, p.Column = f.positions.line(guarded.Offset)
		p.Text = guarded.Message()
		if guarded.Deep {
			p.Text += " (write JSON text instead, under a key that ends in _json)"
		}
	}
	if syntax := new(toml.ParseError); errors.As(err, syntax) {
		p.Text = strings.TrimSuffix(syntax.Message, ".")
		p.Line, p.Column = f.positions.line(syntax.Position.Start)
	}
	return p
}

// file is a file during reading.
type file struct {
	name      string
	positions *positions
	errs      []error
}

func (f *file) read(root map[string]any) (*Cassette, error) {
	top := fields{table: root}
	top.checkKeys([]string{"times", arrayKey})
	times := top.count("times")
	if top.err != nil {
		f.problem(0, "", top.err)
	}
	tables, ok := tablesOf(root[arrayKey])
	if !ok {
		f.problem(0, "", &FieldError{Key: arrayKey, Text: "is not an array of tables ([[interaction]])"})
	}
	all := make([]Interaction, 0, len(tables))
	for n, table := range tables {
		if _, own := table["times"]; !own && times > 0 {
			table["times"] = int64(times)
		}
		i, err := FromTOML(table, Exact)
		if err != nil {
			f.problem(n+1, fmt.Sprintf("interaction %d: ", n+1), err)
			continue
		}
		i.From = f.name
		if n+1 < len(f.positions.tables) {
			line, _ := f.positions.line(f.positions.tables[n+1].offset)
			i.From = fmt.Sprintf("%s:%d", f.name, line)
		}
		all = append(all, i)
	}
	if f.errs != nil {
		return nil, errors.Join(f.errs...)
	}
	return New(all...)
}

// tablesOf returns the tables of an array, in any form of writing.
func tablesOf(v any) (tables []map[string]any, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case []map[string]any:
		return v, true
	case []any:
		for _, item := range v {
			table, ok := item.(map[string]any)
			if !ok {
				return nil, false
			}
			tables = append(tables, table)
		}
		return tables, true
	}
	return nil, false
}

// problem records an error in a table. Table 0 is the file itself.
func (f *file) problem(table int, prefix string, err error) {
	p := &Problem{File: f.name, Key: strings.TrimSuffix(prefix, " "), Text: err.Error(), Err: err}
	f.errs = append(f.errs, p)
	if table >= len(f.positions.tables) { // an inline array: [{…}, …]
		p.Line, p.Column = f.positions.line(f.positions.tables[0].keys[arrayKey].key)
		return
	}
	t := f.positions.tables[table]
	p.Line, p.Column = f.positions.line(t.offset)
	var field *FieldError
	if !errors.As(err, &field) {
		return
	}
	key, _, _ := strings.Cut(field.Key, ".")
	at, ok := t.keys[key]
	if !ok {
		at, ok = t.keys[key+"_json"]
	}
	if !ok {
		return
	}
	offset := at.key
	if start, plain := f.positions.content(at.value); plain && field.offset > 0 {
		offset = start + field.offset - 1
	}
	p.Line, p.Column = f.positions.line(offset)
}
