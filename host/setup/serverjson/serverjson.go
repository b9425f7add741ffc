// Package serverjson reads server.json, the description of MCP servers for registries (schema
// 2025-12-11), and makes configured servers of the description. Begin with [Parse], [Document] and
// [Option.Server]; [Registry] fetches documents.
//
// A document comes from strangers, and describes programs that are then run. So nothing here starts
// a shell: an argument stays a single argument. Names of packages cannot be options, addresses or
// files; control characters and invisible characters are refused; and nothing in a document is a
// variable of the configuration. A person must see the remaining command, and agree to run the
// publisher's program.
package serverjson

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// MaxSize is the largest document that is read, in bytes.
const MaxSize = 1 << 20

// Document is a server.json.
type Document struct {
	Schema      string    `json:"$schema"`
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Version     string    `json:"version"`
	Packages    []Package `json:"packages"`
	Remotes     []Remote  `json:"remotes"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`

	// Status is the registry's status: active, deprecated or deleted; "" if unknown. StatusMessage
	// has details.
	Status        string `json:"-"`
	StatusMessage string `json:"-"`
}

// Package is a program that a package manager can run.
type Package struct {
	RegistryType         string     `json:"registryType"`
	RegistryBaseURL      string     `json:"registryBaseUrl"`
	Identifier           string     `json:"identifier"`
	Version              string     `json:"version"`
	RuntimeHint          string     `json:"runtimeHint"`
	Transport            Remote     `json:"transport"`
	RuntimeArguments     []Argument `json:"runtimeArguments"`
	PackageArguments     []Argument `json:"packageArguments"`
	EnvironmentVariables []Named    `json:"environmentVariables"`

	// Registry is the older name of RegistryType (schema 2025-07-09).
	Registry string `json:"registry_type"`
}

// Remote is a server with an address.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Named          `json:"headers"`
	Variables map[string]Field `json:"variables"`
}

// Field is a value that is fixed, or that people fill in.
type Field struct {
	Description string           `json:"description"`
	IsRequired  bool             `json:"isRequired"`
	IsSecret    bool             `json:"isSecret"`
	Format      string           `json:"format"`
	Value       string           `json:"value"`
	Default     string           `json:"default"`
	Placeholder string           `json:"placeholder"`
	Choices     []string         `json:"choices"`
	Variables   map[string]Field `json:"variables"`
}

// Named is an environment variable or a header.
type Named struct {
	Name string `json:"name"`
	Field
}

// Argument is an argument of a command.
type Argument struct {
	Type       string `json:"type"` // positional, named
	Name       string `json:"name"` // of a named argument, with its dashes
	ValueHint  string `json:"valueHint"`
	IsRepeated bool   `json:"isRepeated"`
	Field
}

// Error is a fault of a document.
type Error struct {
	// Where is the place in the document, such as packages[0].identifier; "" for the whole
	// document.
	Where string
	// Text may quote the document, without control characters.
	Text string
}

func (e *Error) Error() string {
	if e.Where == "" {
		return "server.json: " + e.Text
	}
	return fmt.Sprintf("server.json: %s %s", e.Where, e.Text)
}

func wrong(where, format string, args ...any) error {
	return &Error{where, fmt.Sprintf(format, args...)}
}

// envelope is the answer of a registry.
type envelope struct {
	Server jsontext.Value `json:"server"`
	Meta   struct {
		Official struct {
			Status        string `json:"status"`
			StatusMessage string `json:"statusMessage"`
		} `json:"io.modelcontextprotocol.registry/official"`
	} `json:"_meta"`
}

// Parse reads a document, alone or in the form of a registry's answer. The error is an [*Error].
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxSize {
		return nil, wrong("", "is larger than %d bytes", MaxSize)
	}
	var e envelope
	if err := unmarshal(data, &e); err != nil {
		return nil, err
	}
	d := &Document{}
	if e.Server != nil {
		data = e.Server
		d.Status, d.StatusMessage = e.Meta.Official.Status, e.Meta.Official.StatusMessage
	}
	if err := unmarshal(data, d); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// unmarshal reads JSON. Repeated names and invalid UTF-8 are errors.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic):
		return wrong("", "has the wrong type at %s", quoted(string(semantic.JSONPointer)))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return wrong("", "has a name twice in an object")
	case errors.As(err, &syntax):
		return wrong("", "is not valid JSON (at byte %d)", syntax.ByteOffset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("", "is not complete")
	}
	return wrong("", "is not valid JSON")
}

// The limits of a document.
const (
	maxItems = 200  // packages, remotes, arguments, variables, choices: each
	maxText  = 4096 // bytes of a text that is used
	maxShort = 255  // bytes of a text that is only shown
)

var (
	namePattern     = lazyregexp.New(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)
	variablePattern = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerPattern   = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	optionPattern   = lazyregexp.New(`^[A-Za-z0-9_.:@/+-]+$`)
)

// quoted returns a text of the document for an error, shortened.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.QuoteToASCII(text)
}

// check refuses documents that could mislead a person or a program.
func (d *Document) check() error {
	if !namePattern.MatchString(d.Name) || len(d.Name) > 200 {
		return wrong("name", "%s is not the name of a server (want NAMESPACE/NAME, such as io.github.user/weather)", quoted(d.Name))
	}
	for _, text := range []struct {
		where, text string
		most        int
	}{
		{"version", d.Version, maxShort}, {"title", d.Title, maxShort}, {"repository.url", d.Repository.URL, 2048},
	} {
		if err := checkText(text.where, text.text); err != nil {
			return err
		}
		if len(text.text) > text.most {
			return wrong(text.where, "is longer than %d bytes", text.most)
		}
	}
	if len(d.Packages) > maxItems || len(d.Remotes) > maxItems {
		return wrong("", "has more than %d packages or remotes", maxItems)
	}
	for i := range d.Packages {
		if err := d.Packages[i].check(fmt.Sprintf("packages[%d]", i)); err != nil {
			return err
		}
	}
	for i := range d.Remotes {
		if err := d.Remotes[i].check(fmt.Sprintf("remotes[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Package) check(at string) error {
	for _, text := range []struct{ where, text string }{
		{"registryType", p.RegistryType}, {"registryBaseUrl", p.RegistryBaseURL}, {"identifier", p.Identifier},
		{"version", p.Version}, {"runtimeHint", p.RuntimeHint}, {"transport.type", p.Transport.Type}, {"transport.url", p.Transport.URL},
	} {
		if err := checkText(at+"."+text.where, text.text); err != nil {
			return err
		}
	}
	if len(p.EnvironmentVariables) > maxItems || len(p.RuntimeArguments) > maxItems || len(p.PackageArguments) > maxItems {
		return wrong(at, "has more than %d arguments or variables", maxItems)
	}
	for i, v := range p.EnvironmentVariables {
		where := fmt.Sprintf("%s.environmentVariables[%d]", at, i)
		if !variablePattern.MatchString(v.Name) {
			return wrong(where, "has a name that is not the name of a variable: %s", quoted(v.Name))
		}
		if err := v.check(where); err != nil {
			return err
		}
	}
	for _, list := range []struct {
		key       string
		arguments []Argument
	}{{"runtimeArguments", p.RuntimeArguments}, {"packageArguments", p.PackageArguments}} {
		for i, a := range list.arguments {
			if err := a.check(fmt.Sprintf("%s.%s[%d]", at, list.key, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *Argument) check(at string) error {
	switch a.Type {
	case "positional":
	case "named":
		if !optionPattern.MatchString(a.Name) {
			return wrong(at, "has a name that is not the name of an option: %s", quoted(a.Name))
		}
	default:
		return wrong(at, "has the type %s (there are positional and named)", quoted(a.Type))
	}
	if err := checkText(at+".valueHint", a.ValueHint); err != nil {
		return err
	}
	return a.Field.check(at)
}

func (r *Remote) check(at string) error {
	if err := checkText(at+".type", r.Type); err != nil {
		return err
	}
	if err := checkText(at+".url", r.URL); err != nil {
		return err
	}
	if len(r.Headers) > maxItems || len(r.Variables) > maxItems {
		return wrong(at, "has more than %d headers or variables", maxItems)
	}
	for i, h := range r.Headers {
		where := fmt.Sprintf("%s.headers[%d]", at, i)
		if !headerPattern.MatchString(h.Name) {
			return wrong(where, "has a name that is not the name of a header: %s", quoted(h.Name))
		}
		if err := h.check(where); err != nil {
			return err
		}
	}
	return checkFields(at+".variables", r.Variables, true)
}

// check checks a field and its variables.
func (f *Field) check(at string) error {
	for _, text := range slices.Concat([]string{f.Value, f.Default, f.Placeholder, f.Format}, f.Choices) {
		if err := checkText(at, text); err != nil {
			return err
		}
	}
	if len(f.Choices) > maxItems || len(f.Variables) > maxItems {
		return wrong(at, "has more than %d choices or variables", maxItems)
	}
	return checkFields(at+".variables", f.Variables, true)
}

// checkFields checks variables. The variables of a variable have no meaning.
func checkFields(at string, fields map[string]Field, outer bool) error {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f := fields[name]
		if err := checkText(at, name); err != nil {
			return err
		}
		if len(f.Variables) > 0 || !outer {
			return wrong(at, "has variables in a variable")
		}
		if err := f.check(at + "." + quoted(name)); err != nil {
			return err
		}
	}
	return nil
}

// checkText refuses texts with invisible characters.
func checkText(at, text string) error {
	switch {
	case len(text) > maxText:
		return wrong(at, "is longer than %d bytes", maxText)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, invisible):
		return wrong(at, "contains a control character or one that is not shown: %s", quoted(text))
	}
	return nil
}

// invisible reports whether a character is not shown plainly: control characters, characters that
// change the direction of text, and white space other than a space.
func invisible(r rune) bool {
	return r != ' ' && (unicode.In(r, unicode.C, unicode.Z) || r == utf8.RuneError)
}

// checkURL checks an address after its variables were filled in; rest is the same address with
// variables of the configuration replaced by harmless text.
func checkURL(at, rest string) error {
	u, err := url.Parse(rest)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Fragment != "" || strings.ContainsAny(rest, " {}<>\"\\") {
		return wrong(at, "is not an http or https address: %s", quoted(rest))
	}
	return nil
}
