package tomldoc

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForm is matched by errors.Is if a text is written in a form in which the change cannot
// be made.
var ErrForm = errors.New("it is written in a form that cannot be edited by a program")

// PathError says where in a text a change failed.
type PathError struct {
	Path []string
	Err  error // [ErrForm], or an error of [Decode]
}

func (e *PathError) Error() string { return fmt.Sprintf("%s: %v", quotePath(e.Path), e.Err) }

// Unwrap returns the cause.
func (e *PathError) Unwrap() error { return e.Err }

const bom = "\ufeff"

// Set sets the value at a path: a string, bool, int64, float64, a []any or []string, or a
// [InlineTable]. Missing tables on the way are added. An existing table is changed key by key: keys
// missing from the new table are removed, and equal values stay as written. The error is a
// [*PathError]. A path through an array is an ErrForm.
func Set(text string, path []string, value any) (string, error) {
	return change(text, path, func(d *document) error {
		return d.set(path, value)
	}, func(root map[string]any) bool {
		return setValue(root, path, plainValue(value))
	})
}

// Remove removes the value at a path, with the comment lines directly above the header of a table
// and directly below its last line. Comments between blank lines and tables in comments stay. A
// missing value is no error. The error is a [*PathError].
func Remove(text string, path []string) (string, error) {
	return change(text, path, func(d *document) error {
		d.remove(path)
		return nil
	}, func(root map[string]any) bool {
		removeValue(root, path)
		return true
	})
}

// change edits a text, and compares the result with the values from apply.
func change(text string, path []string, edit func(*document) error, apply func(map[string]any) bool) (string, error) {
	fail := func(err error) (string, error) { return "", &PathError{path, err} }
	rest, marked := strings.CutPrefix(text, bom)
	want, err := decode(rest)
	if err != nil {
		return fail(err)
	}
	if len(path) == 0 || !apply(want) {
		return fail(ErrForm)
	}
	d := newDocument(rest)
	if err := edit(d); err != nil {
		return fail(err)
	}
	got, err := decode(d.text)
	if err != nil {
		return fail(ErrForm)
	}
	dropEmptied(want, got, path)
	if !same(got, want) {
		return fail(ErrForm)
	}
	if marked {
		return bom + d.text, nil
	}
	return d.text, nil
}

func decode(text string) (map[string]any, error) {
	root := map[string]any{}
	_, err := Decode(text, &root)
	return root, err
}

// Get returns the decoded value at a path, as decoded by the TOML library, and whether the value
// exists. The error is from [Decode].
func Get(text string, path []string) (any, bool, error) {
	root, err := decode(strings.TrimPrefix(text, bom))
	if err != nil {
		return nil, false, err
	}
	v, ok := lookup(root, path)
	return v, ok, nil
}

// lookup returns the value at a path in decoded values.
func lookup(root map[string]any, path []string) (any, bool) {
	var v any = root
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = m[key]; !ok {
			return nil, false
		}
	}
	return v, true
}

// quotePath writes a path as a dotted key.
func quotePath(path []string) string {
	keys := make([]string, len(path))
	for i, name := range path {
		keys[i] = QuoteKey(name)
	}
	return strings.Join(keys, ".")
}
