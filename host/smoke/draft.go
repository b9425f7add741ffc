package smoke

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Draft has the contents of a first file of checks. All texts of servers are untrusted: they become
// data or comments of the file, and never refer to variables.
type Draft struct {
	// Path is the file, as a person would write the path.
	Path string
	// Config is the configuration that the file uses, as its path in the file; "" for none.
	Config string
	// Upstreams are tables of upstreams, as TOML, for a file without a configuration.
	Upstreams string
	Servers   []DraftServer
	// Saved are the saved tools.
	Saved []tools.Definition
	// All also writes a skipped check for each tool that may change data.
	All bool
	// Lock makes the file compare the definitions with a lock, which --record has to write
	// first.
	Lock bool
	// LeftOut are the servers that are disabled or did not start.
	LeftOut []string
}

// DraftServer is a server with its offer.
type DraftServer struct {
	Name string
	// Names are the server's lists, by surface: the keys of the definitions.
	Names map[wire.Surface][]string
	Tools []DraftTool // the tools that clients can call
}

// DraftTool is a tool that a file of checks may call.
type DraftTool struct {
	Name       string // public name
	Definition []byte // raw definition, without secrets
	// Refused is why a check of the tool cannot pass, if known; "" otherwise.
	Refused string
}

// DraftSummary counts the contents of a file that Draft.Text has returned.
type DraftSummary struct {
	Checks  int // all
	Skipped int // checks for a person to complete
	Left    int // tools without a check
}

// maxDrafted is how many tools of a server get a check.
const maxDrafted = 100

// ReadOnly reports whether the tool claims not to change anything (MCP 2025-11-25,
// ToolAnnotations). A file calls only such tools before a person has read the file.
func (t *DraftTool) ReadOnly() bool {
	hint, _ := wire.Get(t.Definition, "annotations", "readOnlyHint")
	return string(hint) == "true"
}

// Arguments returns arguments for a call of the tool, as a JSON object; false if only a person can
// know arguments.
func (t *DraftTool) Arguments() (args []byte, ok bool) {
	schema, _ := wire.Get(t.Definition, "inputSchema")
	p := draftParams(schema)
	return p.args, p.reason == ""
}

// Text returns the file.
func (d *Draft) Text() ([]byte, DraftSummary) {
	w := draftWriter{draft: d}
	w.line("# Begun by mcp-metatool smoke init. Run the checks: mcp-metatool smoke %s", display.EscapeLine(d.Path))
	w.line("# All that checks can have: https://github.com/mcp-metatool/mcp-metatool/blob/main/docs/smoke.md")
	if d.Config != "" {
		w.line("[smoke]\nconfig = %s", draftString(d.Config))
	}
	if d.Upstreams != "" {
		w.line("%s", strings.TrimSpace(d.Upstreams))
	}
	if len(d.LeftOut) > 0 {
		w.line("")
		w.comment("Servers without checks, because they are disabled or did not start: " + strings.Join(d.LeftOut, ", "))
	}
	for i := range d.Servers {
		w.server(&d.Servers[i])
	}
	for i := range d.Saved {
		w.saved(&d.Saved[i])
	}
	return []byte(w.text.String()), w.DraftSummary
}

// draftWriter writes a file.
type draftWriter struct {
	draft *Draft
	text  strings.Builder
	DraftSummary
}

func (w *draftWriter) line(format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
}

// comment writes a comment, on as many lines as needed.
func (w *draftWriter) comment(text string) {
	for _, line := range display.Wrap(display.EscapeLine(text), 90) {
		w.line("# %s", strings.TrimSpace(line))
	}
}

// check begins a check, with a comment above.
func (w *draftWriter) check(comment string) {
	w.line("")
	if comment != "" {
		w.line("# %s", comment)
	}
	w.line("[[check]]")
	w.Checks++
}

// skip marks a check as skipped.
func (w *draftWriter) skip(why string) {
	w.line("skip = %s", draftString(why))
	w.Skipped++
}

// server writes the checks of a server: its lists, and calls of its tools.
func (w *draftWriter) server(s *DraftServer) {
	w.check("")
	w.line("server = %s", draftString(s.Name))
	for _, surface := range []wire.Surface{wire.Tools, wire.Templates, wire.Prompts} { // resources come and go
		names := slices.DeleteFunc(slices.Clone(s.Names[surface]), func(name string) bool {
			return strings.Contains(name, "\x00") // strings of a file cannot have NUL
		})
		if len(names) > 0 {
			w.line("expect.%s = %s", keyOf(surface), draftStrings(names))
		}
	}
	if w.draft.Lock {
		name := strings.TrimSuffix(filepath.Base(w.draft.Path), filepath.Ext(w.draft.Path))
		w.line("expect.schema_lock = %s", draftString(name+".lock.json"))
	}
	var left []string
	written := 0
	for i := range s.Tools {
		t := &s.Tools[i]
		if written == maxDrafted || !t.ReadOnly() && !w.draft.All {
			left = append(left, t.Name)
			continue
		}
		written++
		w.tool(t)
	}
	w.left(left)
}

// keyOf returns the key of the expectation for a list of a server.
func keyOf(surface wire.Surface) string {
	for key, s := range surfaceOf {
		if s.surface == surface {
			return key
		}
	}
	return ""
}

// tool writes the check of a tool.
func (w *draftWriter) tool(t *DraftTool) {
	description, _ := wire.GetString(t.Definition, "description")
	schema, _ := wire.Get(t.Definition, "inputSchema")
	w.check(display.Line(description, 90))
	w.line("call = %s", draftString(t.Name))
	params := draftParams(schema)
	if params.text != "" {
		w.line("params = %s", params.text)
	}
	switch {
	case !t.ReadOnly():
		w.skip("it may change something: remove this line if it may be called")
	case params.reason != "":
		w.skip(params.reason)
	case t.Refused != "":
		w.skip(t.Refused)
	}
}

// left writes which tools are not called.
func (w *draftWriter) left(names []string) {
	if len(names) == 0 {
		return
	}
	w.Left += len(names)
	w.line("")
	w.comment("Not called, because they do not say that they only read: " + strings.Join(names, ", "))
}

// saved writes the check of a saved tool. The effect of the tool's script is not known here.
func (w *draftWriter) saved(def *tools.Definition) {
	w.check(display.Line(def.Description, 90))
	w.line("call = %s", draftString(def.Name))
	params := draftParams(def.InputSchema)
	if params.text != "" {
		w.line("params = %s", params.text)
	}
	reason := "its script may change something: remove this line if it may be run"
	if params.reason != "" {
		reason = params.reason
	}
	w.skip(reason)
}

// draftString returns text as a TOML string, in which nothing is a variable or a reference.
func draftString(text string) string {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return tomldoc.QuoteLine(protected(text))
}

// maxDraftLine is how long a list on a line may be, in bytes.
const maxDraftLine = 80

// draftStrings returns a list, on a single line if short.
func draftStrings(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = draftString(text)
	}
	if list := "[" + strings.Join(quoted, ", ") + "]"; len(list) <= maxDraftLine {
		return list
	}
	return "[\n  " + strings.Join(quoted, ",\n  ") + ",\n]"
}

// draftedParams are arguments for a tool without earlier calls.
type draftedParams struct {
	args   []byte // the JSON object
	text   string // the arguments as a TOML value, with empty values for a person to replace; "" for none
	reason string // the task for a person before the tool can be called; "" for none
}

// maxDraftedParams bounds the text of arguments, in bytes.
const maxDraftedParams = 2000

// draftParams finds arguments that are valid for a schema: the required arguments, with the values
// of the schema itself. draftParams invents no values, because a tool could do anything with them.
func draftParams(schema []byte) draftedParams {
	compiled, err := tools.CompileInputSchema(schema, "inputSchema")
	if err != nil {
		return draftedParams{reason: "its inputSchema cannot be used, so give it params, and remove this line"}
	}
	var object, shown wire.Object
	var missing []string
	for _, name := range requiredOf(schema) {
		property, _ := wire.Get(schema, "properties", name)
		value, ok := givenValue(property)
		if !ok {
			missing = append(missing, name)
			value = emptyValue(property)
		} else {
			object.Raw(name, value)
		}
		shown.Raw(name, value)
	}
	d := draftedParams{args: object.Bytes()}
	// Strings of a file cannot have a NUL.
	if text, err := tomlValue(shown.Bytes()); err == nil && text != "{}" && len(text) <= maxDraftedParams && !strings.Contains(text, `\u0000`) {
		d.text = text
	}
	valid := compiled.ValidateArguments(object.Bytes(), nil) == nil
	switch {
	case len(missing) > 0:
		d.reason = fmt.Sprintf("give it values for %s, and remove this line", strings.Join(missing, ", "))
	case !valid || d.text == "" && len(requiredOf(schema)) > 0:
		d.reason = "give it params, and remove this line"
	}
	return d
}

// requiredOf returns the names of the required properties, in order.
func requiredOf(schema []byte) []string {
	raw, _ := wire.Get(schema, "required")
	var names []string
	_ = jsonvalue.Unmarshal(raw, &names) // none, unless raw is an array of strings
	return names
}

// givenValue returns a value in the schema of a property.
func givenValue(property []byte) ([]byte, bool) {
	for _, key := range []string{"const", "default"} {
		if value, ok := wire.Get(property, key); ok {
			return usable(value)
		}
	}
	for _, key := range []string{"examples", "enum"} {
		list, _ := wire.Get(property, key)
		if items, err := wire.Elements(list); err == nil && len(items) > 0 {
			return usable(items[0])
		}
	}
	return nil, false
}

// usable reports whether a value can be written as TOML.
func usable(value []byte) ([]byte, bool) {
	_, err := tomlValue(value)
	return value, err == nil
}

// emptyValue returns a value for a person to replace.
func emptyValue(property []byte) []byte {
	kind, _ := wire.GetString(property, "type")
	switch kind {
	case "number", "integer":
		return []byte("0")
	case "boolean":
		return []byte("false")
	case "array":
		return []byte("[]")
	case "object":
		return []byte("{}")
	}
	return []byte(`""`)
}
