// Package patch makes the guest's interpreter: a copy of go.starlark.net with a few changes,
// applied by [Copy]. The package is a tool for building and testing the guest and is not linked
// into the product.
//
// The edits make strings indexed, cut, counted and searched by code points, and iterable, as in
// Python. (Starlark counts bytes: "Zoë"[:3] ends in half a character.) They also let package
// guest/extend add methods and operators, let iterators fail, compile assignments in expressions,
// give the remainder of floats Python's sign, and raise the limit of shifts. Edits named speed_
// only make the interpreter faster.
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

// Module is the path of the patched module.
const Module = "go.starlark.net"

//go:embed edits/*.txt
var files embed.FS

// ErrEdit is wrapped by errors about malformed edits and edits that do not fit the module.
var ErrEdit = errors.New("guest/patch: the edits do not fit the module")

// Copy writes a patched copy of the module in folder from to the new folder to:
// its packages without tests, and go.mod.
func Copy(from, to string) error { return apply(from, to, "*.txt") }

// CopySlow is Copy without the edits for speed: both interpreters must run every program alike. On
// wasm, an allocation, a call and a type assertion to an interface each take as long as many simple
// operations, so the edits for speed change:
//
//	interp    one stack of values for all calls of a thread; frequent opcodes before
//	          the switch, which is a binary search; operations on small ints, loops
//	          over ranges and lists, and list[int] without calls; names by index;
//	          no check for a cancelled thread and no defer in each call
//	eval      the same for calls, and for arguments that are all positional
//	value     the names by index; iterators of lists and ranges; small dicts in one
//	          allocation, and lazy ones without a table
//	hashtable a shorter hash of strings; lazy dicts
//	lazydict  dicts with values made on demand
//	assert_*  asserting the interfaces of most dicts and objects
//	profile   the check whether the profiler is on, without a call
//	int       no longer for wasm
//	int_wasm  small ints as pointers, which take no memory
func CopySlow(from, to string) error { return apply(from, to, "[^s]*.txt") }

// apply applies the files of edits with matching names.
//
// For a new version of the module: where an edit does not fit, look at the changes there, and write
// the edit again; TestOverlay of guest/interp compares the two interpreters.
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

// newFile reports whether the edit is a new file. A new file does not fit an existing file, which
// has no lines many times.
func (e edit) newFile() bool { return len(e.old) == 0 }

// readEdits returns the edits of matching files, keyed by the changed files. A file of edits names
// a file of the module and has old lines with the new lines in their place:
//
//	-- starlark/value.go --
//	<<<<<<<
//	old lines
//	=======
//	new lines
//	>>>>>>>
//
// The old lines must occur exactly once, so no edit is lost in an update of the module. A file with
// the first line ++ starlark/name.go ++ is a new file.
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

// The marker lines of edits.
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
