package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Parse reads a bundle in one file. The tools are sorted by name. Errors in the bundle are an
// [*Error] with file as the file's name. Tools with code in a separate file are refused.
func Parse(data []byte, file string) ([]Tool, error) {
	return parse(data, file, nil)
}

// parse is Parse with the folder of the file.
func parse(data []byte, file string, folder *folder) ([]Tool, error) {
	r := &reader{file: file, data: strings.TrimPrefix(string(data), "\ufeff"), folder: folder}
	if len(data) > MaxBytes {
		return nil, &Error{File: file, Text: fmt.Sprintf("is %d bytes long (at most %d)", len(data), MaxBytes)}
	}
	if !utf8.ValidString(r.data) {
		return nil, &Error{File: file, Text: "is not valid UTF-8"}
	}
	var top map[string]toml.Primitive
	var err error
	if r.md, err = tomldoc.Decode(r.data, &top); err != nil {
		return nil, r.place(err)
	}
	if err := r.format(top); err != nil {
		return nil, err
	}
	var list map[string]toml.Primitive
	if table, ok := top["tool"]; ok {
		if err := r.decode(table, &list); err != nil {
			return nil, err
		}
	}
	out := make([]Tool, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		t, err := r.tool(name, list[name])
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, checkClashes(out, file)
}

// checkClashes requires names of different files on every system.
func checkClashes(list []Tool, file string) error {
	seen := map[string]string{}
	for _, t := range list {
		key := strings.ToLower(t.Name)
		if other, ok := seen[key]; ok {
			return &Error{File: file, Text: fmt.Sprintf("has tool %q twice, or in another case as %q (rename one)", t.Name, other)}
		}
		seen[key] = t.Name
	}
	return nil
}

// reader reads a bundle.
type reader struct {
	file   string
	data   string
	md     toml.MetaData
	folder *folder
}

// format checks everything in a bundle except the tools.
func (r *reader) format(top map[string]toml.Primitive) error {
	format, ok := top["format"]
	if !ok {
		return &Error{File: r.file, Text: fmt.Sprintf("is not an export of tools (it would say format = %q)", Format)}
	}
	var text string
	if err := r.decode(format, &text); err != nil {
		return err
	}
	if text != Format {
		return r.refuse(format, fmt.Errorf("format %s is not known (this program reads %q)", quoted(text), Format))
	}
	for _, key := range slices.Sorted(maps.Keys(top)) {
		if key != "format" && key != "tool" {
			return r.refuse(top[key], fmt.Errorf("unknown key %s (there are format and tool)", quoted(key)))
		}
	}
	return nil
}

// toolKeys are the keys of a tool.
var toolKeys = []string{"description", "inputSchema", "outputSchema", "limits", "durable", "inDoubt", "permissions", "bounds", "extra", "code", "code_file", "files"}

func (r *reader) tool(name string, table toml.Primitive) (Tool, error) {
	t := Tool{Definition: tools.Definition{Name: name}}
	if err := tools.CheckName(name); err != nil {
		return t, r.refuse(table, err)
	}
	var keys map[string]toml.Primitive
	if err := r.decode(table, &keys); err != nil {
		return t, err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := r.key(&t, key, keys[key]); err != nil {
			return t, err
		}
	}
	if err := t.Check(); err != nil {
		return t, r.refuse(table, err)
	}
	return t, nil
}

// key reads a key of a tool.
func (r *reader) key(t *Tool, key string, value toml.Primitive) error {
	if key == "files" {
		return r.files(t, value)
	}
	if key == "permissions" || key == "bounds" {
		return r.permissions(t, key, value)
	}
	if key == "durable" {
		if r.md.PrimitiveDecode(value, &t.Durable) != nil {
			return r.refuse(value, errors.New("must be true or false"))
		}
		return nil
	}
	if !slices.Contains(toolKeys, key) {
		return r.refuse(value, fmt.Errorf("tool %q: unknown key %s (there are %s)", t.Name, quoted(key), strings.Join(toolKeys, ", ")))
	}
	var text string
	err := r.decode(value, &text)
	if err != nil {
		return err
	}
	switch key {
	case "description":
		t.Description = text
	case "inputSchema":
		t.InputSchema = []byte(text)
		_, err = tools.CompileInputSchema(t.InputSchema, key)
	case "outputSchema":
		t.OutputSchema = []byte(text)
		_, err = tools.CompileSchema(t.OutputSchema, key)
	case "limits":
		t.Limits, err = tools.ParseLimits([]byte(text))
	case "inDoubt":
		t.InDoubt, err = tools.CheckInDoubt(text)
	case "extra":
		t.Extra, err = tools.ParseExtra([]byte(text))
	case "code":
		t.Code += text // code_file is read later and requires an empty Code
	case "code_file":
		err = r.codeFile(t, text)
	}
	if err != nil {
		return r.refuse(value, fmt.Errorf("tool %q: %w", t.Name, err))
	}
	return nil
}

// permissions reads the targets the tool may call, or the bounds set by the author. The targets are
// only the exporter's claim: the import derives them from the script.
func (r *reader) permissions(t *Tool, key string, value toml.Primitive) error {
	var targets []string
	if err := r.md.PrimitiveDecode(value, &targets); err != nil || targets == nil {
		return r.refuse(value, errors.New("must be an array of texts"))
	}
	for _, target := range targets {
		if err := tools.CheckTarget(target); err != nil {
			return r.refuse(value, fmt.Errorf("tool %q: %s: %s %w", t.Name, key, quoted(target), err))
		}
	}
	if t.Permissions == nil {
		t.Permissions = &tools.Permissions{}
	}
	slices.Sort(targets)
	if key == "bounds" {
		t.Permissions.Bounds = targets
	} else {
		t.Permissions.Calls = targets
	}
	return nil
}

// codeFile reads the script of a tool and the files next to it.
func (r *reader) codeFile(t *Tool, name string) (err error) {
	switch {
	case t.Code != "":
		return errors.New("has code and code_file (leave one out)")
	case name != t.Name+scriptSuffix:
		return fmt.Errorf("code_file %s must be %q, beside the bundle", quoted(name), t.Name+scriptSuffix)
	case r.folder == nil:
		return errors.New("code_file is only for bundles in files (write the script as code)")
	}
	if t.Code, err = readText(r.folder.root, name, &r.folder.left); err != nil {
		return err
	}
	beside, err := filesOf(r.folder.root, t.Name, &r.folder.left)
	t.Files = append(t.Files, beside...)
	return err
}

// files reads the files contained in the bundle.
func (r *reader) files(t *Tool, table toml.Primitive) error {
	var keys map[string]toml.Primitive
	if err := r.decode(table, &keys); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		if !Owns(t.Name, name) {
			return r.refuse(keys[name], fmt.Errorf("tool %q: %s is not a file beside it (they are called %[1]s.toml, %[1]s.cassette.toml, %[1]s.ANYTHING.cassette.toml, or the same with lock)", t.Name, quoted(name)))
		}
		if slices.ContainsFunc(t.Files, func(f File) bool { return f.Name == name }) {
			return r.refuse(keys[name], fmt.Errorf("tool %q: %s is also in %s (leave one out)", t.Name, name, FilesDir))
		}
		f := File{Name: name}
		if err := r.decode(keys[name], &f.Content); err != nil {
			return err
		}
		t.Files = append(t.Files, f)
	}
	slices.SortFunc(t.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// decode decodes a text into a *string, or the keys of a table into a map.
func (r *reader) decode(value toml.Primitive, into any) error {
	err := r.md.PrimitiveDecode(value, into)
	want := "a text in quotes"
	if keys, ok := into.(*map[string]toml.Primitive); ok {
		want = "a table"
		if *keys == nil { // the library reports no error for other values
			err = errors.New("no table")
		}
	}
	if err != nil {
		return r.refuse(value, errors.New("must be "+want))
	}
	return nil
}

// refuse returns an error at the position of a value.
func (r *reader) refuse(value toml.Primitive, err error) error {
	return r.place(r.md.PrimitiveDecode(value, &refusal{err}))
}

// refusal makes the library return the position of a value, which the library does only for errors.
type refusal struct{ err error }

// UnmarshalTOML implements toml.Unmarshaler.
func (r *refusal) UnmarshalTOML(any) error { return r.err }

// place converts an error of the library.
func (r *reader) place(err error) error {
	var parse toml.ParseError
	var guarded *tomldoc.Error
	switch {
	case errors.As(err, &guarded):
		return r.at(guarded.Offset, positionedError{guarded.Message(), err})
	case err == nil:
		return nil
	case errors.As(err, &parse):
		return r.at(parse.Position.Start, positionedError{parse.Message, err})
	}
	return &Error{File: r.file, Text: err.Error(), Err: err}
}

// positionedError is an error with a position.
type positionedError struct {
	message string
	cause   error
}

func (p positionedError) Error() string { return p.message }
func (p positionedError) Unwrap() error { return p.cause }

func (r *reader) at(offset int, err error) error {
	before := r.data[:max(0, min(offset, len(r.data)))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Error{File: r.file, Line: line, Column: column, Text: err.Error(), Err: err}
}

// quoted returns a text of the bundle for a message.
func quoted(text string) string { return strconv.Quote(display.Clip(text, 60)) }

// folder is the folder of a bundle, with the number of bytes that may still be read.
type folder struct {
	root *os.Root
	left int64
}

func openFolder(dir string) (*folder, error) {
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &folder{root, MaxBytes}, nil
}

// Read reads a bundle: a file, or every *.toml in a folder. A file with the extension .json is a
// tool in the format of the store. The path itself may be a symbolic link; links below it are not
// followed. An [*Error] means that the bundle is wrong.
func Read(ctx context.Context, path string) ([]Tool, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return readFolder(path)
	}
	if filepath.Ext(path) == ".star" {
		return nil, &Error{File: path, Text: "is a script, which has neither a description nor an input schema " +
			"(write a TOML file that has them, and names the script in code_file)"}
	}
	data, err := regular.Read(ctx, path, MaxBytes)
	if errors.Is(err, regular.ErrNotRegular) {
		return nil, &Error{File: path, Text: "is neither a regular file nor a folder", Err: err}
	}
	if sized := new(regular.SizeError); errors.As(err, &sized) {
		return nil, &Error{File: path, Text: sized.Error(), Err: err}
	}
	if err != nil {
		return nil, err
	}
	if filepath.Ext(path) == ".json" {
		return readStored(data, path)
	}
	f, err := openFolder(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	return parse(data, path, f)
}

func readStored(data []byte, path string) ([]Tool, error) {
	d, err := tools.ParseFile(data)
	if err != nil {
		return nil, &Error{File: path, Text: err.Error(), Err: err}
	}
	d.Metadata = tools.Metadata{} // the metadata is from another machine
	return []Tool{{Definition: d}}, nil
}

func readFolder(dir string) ([]Tool, error) {
	f, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer f.root.Close()
	names, err := namesIn(f.root, ".")
	if err != nil {
		return nil, &Error{File: dir, Text: err.Error(), Err: err}
	}
	var out []Tool
	for _, name := range names {
		if filepath.Ext(name) != tomlSuffix || strings.HasPrefix(name, ".") {
			continue
		}
		data, err := readText(f.root, name, &f.left)
		if err != nil {
			return nil, inFolder(dir, err)
		}
		list, err := parse([]byte(data), name, f)
		if err != nil {
			return nil, inFolder(dir, err)
		}
		out = append(out, list...)
	}
	if err := checkClashes(out, dir); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
	return out, checkOrphans(dir, names, out)
}

// checkOrphans requires a tool for each script; otherwise a script would be silently left out.
func checkOrphans(dir string, names []string, list []Tool) error {
	for _, name := range names {
		tool, ok := strings.CutSuffix(name, scriptSuffix)
		if ok && !slices.ContainsFunc(list, func(t Tool) bool { return t.Name == tool }) {
			return &Error{File: filepath.Join(dir, name), Text: fmt.Sprintf("belongs to no tool (write %s%s for it)", tool, tomlSuffix)}
		}
	}
	return nil
}

// inFolder prepends the folder to the file name in an error.
func inFolder(dir string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		e.File = filepath.Join(dir, e.File)
	}
	return err
}
