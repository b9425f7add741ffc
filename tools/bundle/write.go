package bundle

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

const heading = "# Saved tools of mcp-metatool, for \"mcp-metatool tools import\".\n"

var errTooLarge = fmt.Errorf("the export is longer than %d bytes (export to a directory, or fewer tools)", MaxBytes)

// Text returns a bundle of tools as a single file:
//
//	format = "mcp-metatool tools 1"
//
//	[tool.greet]
//	description = "Greets a person."
//	inputSchema = '''
//	{
//	  "type": "object"
//	}
//	'''
//	limits = '{"calls":3}'
//	permissions = [
//	  "github.get_issue",
//	]
//	code = '''
//	return "hello"
//	'''
//
//	[tool.greet.files]
//	"greet.toml" = '''
//	[[check]]
//	...
//	'''
//
// Schemas and limits are JSON text, so that numbers and the order of keys are preserved. The
// permissions are the permissions of the exported tool; bounds are set by the author, if any.
func Text(list []Tool) ([]byte, error) {
	b := newWriter()
	for _, t := range list {
		b.definition(&t.Definition, "")
		if len(t.Files) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n[tool.%s.files]\n", t.Name)
		for _, f := range t.Files {
			b.text(tomldoc.Quote(f.Name), f.Content)
		}
	}
	return b.done()
}

// WriteFolder writes a bundle of tools as files in a folder, which is created if needed. Existing
// files of these tools are replaced; the files of other tools stay.
func WriteFolder(dir string, list []Tool) error {
	for _, t := range list {
		b := newWriter()
		b.definition(&t.Definition, t.Name+scriptSuffix)
		text, err := b.done()
		if err != nil {
			return err
		}
		err = NewFileStore(dir).write(".", []File{{t.Name + scriptSuffix, t.Code}, {t.Name + tomlSuffix, string(text)}})
		if err == nil {
			err = NewFileStore(dir).Put(t.Files)
		}
		if err != nil {
			return fmt.Errorf("tool %q: not exported: %w", t.Name, err)
		}
	}
	return nil
}

// Review returns the text of a tool without files, for people and diffs.
func Review(d *tools.Definition) ([]byte, error) {
	b := &writer{}
	b.definition(d, "")
	text, err := b.done()
	return bytes.TrimPrefix(text, []byte("\n")), err
}

// writer writes a bundle and keeps the first error.
type writer struct {
	bytes.Buffer
	err error
}

func newWriter() *writer {
	b := &writer{}
	b.WriteString(heading)
	b.text("format", Format)
	return b
}

func (b *writer) done() ([]byte, error) { return b.Bytes(), b.err }

// definition writes a tool. If codeFile is not empty, the file is named in place of the code.
func (b *writer) definition(d *tools.Definition, codeFile string) {
	if err := tools.CheckName(d.Name); err != nil {
		b.fail(err)
		return
	}
	fmt.Fprintf(b, "\n[tool.%s]\n", d.Name)
	if d.Description != "" {
		b.text("description", d.Description)
	}
	b.schema("inputSchema", d.InputSchema)
	if d.OutputSchema != nil {
		b.schema("outputSchema", d.OutputSchema)
	}
	if limits := d.Limits.JSON(); limits != nil {
		b.text("limits", string(limits))
	}
	if d.Durable {
		b.WriteString("durable = true\n")
	}
	if d.InDoubt != "" {
		b.text("inDoubt", string(d.InDoubt))
	}
	if p := d.Permissions; p != nil {
		if p.Of(d.Code) {
			b.list("permissions", p.List())
		}
		if p.Bounds != nil {
			b.list("bounds", p.Bounds)
		}
	}
	if len(d.Extra) > 0 {
		b.text("extra", membersText(d.Extra))
	}
	if codeFile != "" {
		b.text("code_file", codeFile)
		return
	}
	b.text("code", d.Code)
}

func (b *writer) text(key, value string) {
	switch {
	case b.err != nil:
		return
	case b.Len()+len(value) > MaxBytes:
		b.fail(errTooLarge)
		return
	case !utf8.ValidString(value):
		b.fail(fmt.Errorf("%s is not valid UTF-8", key))
	}
	fmt.Fprintf(b, "%s = %s\n", key, tomldoc.Quote(value))
	if b.Len() > MaxBytes {
		b.fail(errTooLarge)
	}
}

// list writes an array with a line for each text.
func (b *writer) list(key string, values []string) {
	if len(values) == 0 {
		fmt.Fprintf(b, "%s = []\n", key)
		return
	}
	fmt.Fprintf(b, "%s = [\n", key)
	for _, v := range values {
		if !utf8.ValidString(v) {
			b.fail(fmt.Errorf("%s is not valid UTF-8", key))
		}
		fmt.Fprintf(b, "  %s,\n", tomldoc.Quote(v))
	}
	b.WriteString("]\n")
}

func (b *writer) schema(key string, raw []byte) {
	wide, err := jsontext.AppendFormat(nil, raw, jsontext.WithIndent("  "),
		jsontext.PreserveRawStrings(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", key, err))
		return
	}
	text := strings.TrimSuffix(string(wide), "\n")
	if len(text) > 8*len(raw)+1024 { // nested too deep to be readable when indented
		text = string(raw)
	}
	if strings.Contains(text, "\n") {
		text += "\n"
	}
	b.text(key, text)
}

// fail keeps the first error.
func (b *writer) fail(err error) { b.err = cmp.Or(b.err, err) }

func membersText(members []tools.Member) string {
	var b bytes.Buffer
	for i, m := range members {
		name, err := jsontext.AppendQuote(nil, m.Name)
		if err != nil { // cannot fail: the value was read from JSON
			panic(err)
		}
		fmt.Fprintf(&b, "%c%s:%s", "{,"[min(i, 1)], name, m.Value)
	}
	return b.String() + "}"
}

// WriteText writes the text of a bundle to a file atomically.
func WriteText(file string, text []byte) error {
	return regular.Write(file, text, 0o600)
}
