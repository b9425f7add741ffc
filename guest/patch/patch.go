// Package patch makes the interpreter that the guest is built with: a copy of
// go.starlark.net with a few changes. It is a tool for building and testing the
// guest and is not linked into the product.
//
//	patch.go  copies the module and applies the edits
//	edits/    the edits, one file for each file of the module
//
// The edits make strings indexed, cut, counted and searched by code points, and
// iterable, as in Python. Starlark counts bytes, so that "Zoë"[:3] ends in half a
// character. They also let package guest/extend add methods and operators, let
// iterators fail, compile assignments in expressions (a binary operator = in the
// tree), give the remainder of floats Python's sign, and raise the limit of shifts.
//
// Those whose names begin with speed_ change nothing that scripts can see. On wasm, an
// allocation, a call and a type assertion to an interface each take as long as many
// simple operations, so:
//
//	interp    one stack of values for all calls of a thread; frequent opcodes before
//	          the switch, which is a binary search; operations on small ints, loops
//	          over ranges and lists, and list[int] without calls; names by index;
//	          no check for a cancelled thread and no defer in each call
//	eval      the same for calls, and for arguments that are all positional
//	value     the names by index; iterators of lists and ranges; small dicts in one
//	          allocation, and lazy ones without a table
//	hashtable a shorter hash of strings; lazy dicts
//	lazydict  dicts whose values are made when they are needed
//	assert_*  asserting the interfaces of most dicts and objects
//	profile   the check whether the profiler is on, without a call
//	int       not for wasm any more
//	int_wasm  small ints as pointers, which take no memory
//
// For a new version of the module: where an edit does not fit, look at what has changed
// there, and write the edit again; TestOverlay of guest/interp compares the two.
//
// A file of edits names a file of the module and has old lines with the new lines
// that replace them:
//
//	-- starlark/value.go --
//	<<<<<<<
//	old lines
//	=======
//	new lines
//	>>>>>>>
//
// The old lines must occur exactly once, so that no edit is lost when the
// module is updated. A file that begins with ++ starlark/name.go ++ is a new one.
package patch

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Module is the path of the module that is patched.
const Module = "go.starlark.net"

//go:embed edits/*.txt
var files embed.FS

// ErrEdit is wrapped by errors that say that an edit is malformed or does not fit
// the module.
var ErrEdit = errors.New("guest/patch: the edits do not fit the module")

// Copy writes a patched copy of the module in folder from to the new folder to:
// its packages without tests, and go.mod.
func Copy(from, to string) error { return apply(from, to, "*.txt") }

// CopySlow is Copy without the edits that only make the interpreter faster: the two must
// run every program alike.
func CopySlow(from, to string) error { return apply(from, to, "[^s]*.txt") }

// apply applies the files of edits that match a pattern.
func apply(from, to, pattern string) error {
	edits, err := readEdits(pattern)
	if err != nil {
		return err
	}
	err = fs.WalkDir(os.DirFS(from), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(name))
		if d.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		if name != "go.mod" && (!strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go")) {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(from, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		for _, e := range edits[name] {
			if n := bytes.Count(content, e.old); n != 1 {
				return fmt.Errorf("%w: %s has these lines %d times, not once:\n%s", ErrEdit, name, n, e.old)
			}
			content = bytes.Replace(content, e.old, e.new, 1)
		}
		delete(edits, name)
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		return err
	}
	for name, list := range edits {
		if !list[0].newFile() {
			return fmt.Errorf("%w: it has no %s", ErrEdit, name)
		}
	}
	for name, list := range edits {
		if err := os.WriteFile(filepath.Join(to, filepath.FromSlash(name)), list[0].new, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// edit replaces lines.
type edit struct{ old, new []byte }

// newFile reports whether the edit is a new file. It does not fit a file that exists,
// which has no lines many times.
func (e edit) newFile() bool { return len(e.old) == 0 }

// readEdits returns the edits of matching files, keyed by the files that they change.
func readEdits(pattern string) (map[string][]edit, error) {
	names, err := fs.Glob(files, "edits/"+pattern)
	if err != nil {
		return nil, err
	}
	all := map[string][]edit{}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		target, edits, err := parseEdits(string(text))
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrEdit, name, err)
		}
		all[target] = append(all[target], edits...)
	}
	return all, nil
}

// The lines that edits are made of.
const (
	oldFollows = "<<<<<<<\n"
	newFollows = "=======\n"
	editEnds   = ">>>>>>>\n"
)

func parseEdits(text string) (target string, edits []edit, err error) {
	head, rest, _ := strings.Cut(text, "\n")
	if name, ok := strings.CutPrefix(head, "++ "); ok {
		target, ok := strings.CutSuffix(name, " ++")
		if !ok || target == "" || rest == "" {
			return "", nil, fmt.Errorf("the first line is %q, not ++ FILE ++ before the lines of that file", head)
		}
		return target, []edit{{new: []byte(rest)}}, nil
	}
	target, begins := strings.CutPrefix(head, "-- ")
	target, ends := strings.CutSuffix(target, " --")
	if !begins || !ends || target == "" {
		return "", nil, fmt.Errorf("the first line is %q, not -- FILE --", head)
	}
	for rest != "" {
		body, after, ended := strings.Cut(rest, editEnds)
		body, begun := strings.CutPrefix(body, oldFollows)
		old, replacement, cut := strings.Cut(body, newFollows)
		if !begun || !cut || !ended || old == "" {
			return "", nil, fmt.Errorf("edit %d is not <<<<<<<, lines, =======, lines, >>>>>>>", len(edits)+1)
		}
		edits = append(edits, edit{[]byte(old), []byte(replacement)})
		rest = after
	}
	return target, edits, nil
}
