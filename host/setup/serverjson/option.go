package serverjson

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Option is a way of running the server of a document.
type Option struct {
	// Kind is npm, pypi, oci or nuget for packages, http or sse for addresses, or the document's
	// word.
	Kind string
	// Label names the option for people: "npm @scope/server 1.0.2".
	Label string
	// Problem is why the option cannot be used; "" if possible.
	Problem string

	where  string // in the document
	pkg    *Package
	remote *Remote
	name   string // of the document
}

// Options returns the packages and addresses of a document, in order.
func (d *Document) Options() []Option {
	var options []Option
	for i := range d.Packages {
		p := &d.Packages[i]
		o := Option{Kind: p.RegistryType, where: fmt.Sprintf("packages[%d]", i), pkg: p, name: d.Name}
		if o.Kind == "" {
			o.Kind = p.Registry
		}
		o.Label = strings.TrimSpace(o.Kind + " " + p.Identifier + " " + p.Version)
		if err := p.usable(o.where); err != nil {
			o.Problem = err.Error()
		}
		options = append(options, o)
	}
	for i := range d.Remotes {
		r := &d.Remotes[i]
		o := Option{Kind: r.Type, where: fmt.Sprintf("remotes[%d]", i), remote: r, name: d.Name}
		switch r.Type {
		case "streamable-http":
			o.Kind = string(config.StreamableHTTP)
		case "sse":
		default:
			o.Problem = fmt.Sprintf("the transport %s is not known", quoted(r.Type))
		}
		o.Label = strings.TrimSpace(o.Kind + " " + r.URL)
		options = append(options, o)
	}
	return options
}

// Runtime returns the command that runs the package: npx, uvx, docker or another command; "" for an
// address.
func (o *Option) Runtime() string {
	if o.pkg == nil || o.Problem != "" {
		return ""
	}
	command, _ := o.pkg.runtime()
	return command
}

// Input is a value for people to fill in.
type Input struct {
	// Name identifies the input in an Option: the name of an environment variable, header or
	// variable, of an option without its dashes, or of the hint for an argument.
	Name string
	// Kind is the kind of input: "environment variable", "header", "argument", "option" or
	// "variable".
	Kind string
	// Description is the publisher's, and can contain anything.
	Description string
	Required    bool
	Secret      bool
	Repeated    bool // several values are possible
	Format      string
	Default     string
	Placeholder string
	Choices     []string
}

// Check returns why a person's value is not allowed; nil for an allowed value.
func (in *Input) Check(value string) error {
	if value == "" {
		return fmt.Errorf("%s is empty", in.Name)
	}
	if strings.ContainsFunc(value, invisible) {
		return fmt.Errorf("%s contains a control character or one that is not shown", in.Name)
	}
	if len(in.Choices) > 0 && !slices.Contains(in.Choices, value) {
		return fmt.Errorf("%s has to be one of: %s", in.Name, strings.Join(in.Choices, ", "))
	}
	switch in.Format {
	case "number":
		if _, err := strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%s has to be a number", in.Name)
		}
	case "boolean":
		if value != "true" && value != "false" {
			return fmt.Errorf("%s has to be true or false", in.Name)
		}
	}
	return nil
}

// Inputs returns the values to be filled in, each once. An input in several places has the same
// value in all of them.
func (o *Option) Inputs() []Input {
	var list []Input
	add := func(in Input) {
		i := slices.IndexFunc(list, func(other Input) bool { return other.Name == in.Name })
		if i < 0 {
			list = append(list, in)
			return
		}
		list[i].Required = list[i].Required || in.Required
		list[i].Secret = list[i].Secret || in.Secret
		list[i].Repeated = list[i].Repeated || in.Repeated
	}
	for _, s := range o.slots() {
		s.inputs(add)
	}
	return list
}

// SecretNames returns the environment variables, and the headers in lower case, whose values are or
// contain secrets, according to the document.
func (o *Option) SecretNames() map[string]bool {
	names := map[string]bool{}
	for _, s := range o.slots() {
		secret := s.field.IsSecret
		for _, name := range s.variables() {
			secret = secret || s.field.Variables[name].IsSecret
		}
		switch {
		case !secret:
		case s.kind == "environment variable":
			names[s.name] = true
		case s.kind == "header":
			names[strings.ToLower(s.name)] = true
		}
	}
	return names
}

// slot is a place in the command line, environment, headers or address.
type slot struct {
	name, kind string
	repeated   bool
	field      *Field
}

// slots returns all places with values, in order.
func (o *Option) slots() []slot {
	var list []slot
	if o.remote != nil {
		list = append(list, o.remote.address())
		for i := range o.remote.Headers {
			h := &o.remote.Headers[i]
			list = append(list, slot{h.Name, "header", false, &h.Field})
		}
		return list
	}
	for _, arguments := range [][]Argument{o.pkg.RuntimeArguments, o.pkg.PackageArguments} {
		for i := range arguments {
			list = append(list, arguments[i].slot(i))
		}
	}
	for i := range o.pkg.EnvironmentVariables {
		v := &o.pkg.EnvironmentVariables[i]
		list = append(list, slot{v.Name, "environment variable", false, &v.Field})
	}
	return list
}

// address returns the place of the address.
func (r *Remote) address() slot {
	return slot{"url", "address", false, &Field{Value: r.URL, Variables: r.Variables, IsRequired: true}}
}

// slot returns the place of argument number i.
func (a *Argument) slot(i int) slot {
	if a.Type == "named" {
		return slot{strings.TrimLeft(a.Name, "-"), "option", a.IsRepeated, &a.Field}
	}
	name := a.ValueHint
	if name == "" {
		name = fmt.Sprintf("argument%d", i+1)
	}
	return slot{name, "argument", a.IsRepeated, &a.Field}
}

// inputs calls add for the values to be filled in for the slot: its value, or the variables in a
// fixed value.
func (s *slot) inputs(add func(Input)) {
	if s.field.Value == "" {
		if s.isFlag() {
			return
		}
		add(asInput(s.name, s.kind, s.repeated, s.field.IsRequired, s.field))
		return
	}
	for _, name := range s.variables() {
		v := s.field.Variables[name]
		if v.Value == "" {
			add(asInput(name, "variable", s.repeated, v.IsRequired || s.kind == "address", &v))
		}
	}
}

// flags are options of the commands that have no value.
var flags = []string{
	"i", "t", "it", "ti", "interactive", "tty", "rm", "init", "privileged", "read-only", "P", "publish-all", // docker
	"y", "yes", "quiet", "q", "no-cache", "isolated", "offline", "prerelease", // npx, uvx, dnx
}

// isFlag reports whether the slot, which has no fixed value, is an option without a value: a known
// option, or an option without any description.
func (s *slot) isFlag() bool {
	f := s.field
	if s.kind != "option" || f.Default != "" || len(f.Choices) > 0 || f.Format != "" || f.Placeholder != "" || f.IsSecret {
		return false
	}
	return slices.Contains(flags, s.name) || !f.IsRequired && f.Description == ""
}

var braces = lazyregexp.New(`\{[^{}]*\}`)

// variables returns the names of the variables in a fixed value, each once, in order.
func (s *slot) variables() []string {
	var names []string
	for _, m := range braces.FindAllString(s.field.Value, -1) {
		name := m[1 : len(m)-1]
		if _, ok := s.field.Variables[name]; ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func asInput(name, kind string, repeated, required bool, f *Field) Input {
	return Input{
		Name: name, Kind: kind, Description: f.Description, Required: required, Secret: f.IsSecret, Repeated: repeated,
		Format: f.Format, Default: f.Default, Placeholder: f.Placeholder, Choices: f.Choices,
	}
}

// MissingError says which required inputs have no value.
type MissingError struct{ Inputs []Input }

func (e *MissingError) Error() string {
	names := make([]string, len(e.Inputs))
	for i, in := range e.Inputs {
		names[i] = in.Name
	}
	return "no value for " + strings.Join(names, ", ")
}

// Server returns the server for the configuration. values has the texts for inputs by name, in the
// language of the configuration: see [edit.Literal]. An input without a text gets its default. The
// error is an [*Error] or a [*MissingError].
func (o *Option) Server(values map[string][]string) (edit.Server, error) {
	if o.Problem != "" {
		return edit.Server{}, wrong(o.where, "cannot be used: %s", o.Problem)
	}
	var missing []Input
	for _, in := range o.Inputs() {
		if in.Required && in.Default == "" && len(values[in.Name]) == 0 {
			missing = append(missing, in)
		}
	}
	if missing != nil {
		return edit.Server{}, &MissingError{missing}
	}
	if o.remote != nil {
		return o.remoteServer(values)
	}
	return o.pkg.server(o.where, values)
}

// texts returns the texts of a slot in the language of the configuration; none for an omitted slot.
func (s *slot) texts(at string, values map[string][]string) ([]string, error) {
	f := s.field
	if f.Value == "" {
		return valuesOf(values, s.name, f), nil
	}
	names := s.variables()
	if len(names) == 0 {
		return []string{edit.Literal(f.Value)}, nil
	}
	count := 1
	filled := map[string][]string{}
	for _, name := range names {
		v := f.Variables[name]
		filled[name] = valuesOf(values, name, &v)
		if len(filled[name]) == 0 {
			return nil, nil // cannot be complete
		}
		if s.repeated {
			count = max(count, len(filled[name]))
		}
	}
	texts := make([]string, count)
	for i := range texts {
		var ok bool
		texts[i], ok = fill(f.Value, func(name string) (string, bool) {
			list, ok := filled[name]
			if !ok {
				return "", false
			}
			return list[min(i, len(list)-1)], true
		})
		if !ok {
			return nil, wrong(at, "%s %s has a $ before a variable, which a configuration cannot express", s.kind, quoted(s.name))
		}
	}
	return texts, nil
}

// valuesOf returns the values of an input, or its default.
func valuesOf(values map[string][]string, name string, f *Field) []string {
	switch {
	case f.Value != "":
		return []string{edit.Literal(f.Value)}
	case len(values[name]) > 0:
		return values[name]
	case f.Default != "":
		return []string{edit.Literal(f.Default)}
	}
	return nil
}

// fill replaces {name} in a template. Unknown names stay. fill returns false if the result has a $
// before a variable of the configuration.
func fill(template string, value func(name string) (string, bool)) (string, bool) {
	text, at := "", 0
	for _, m := range braces.FindAllStringIndex(template, -1) {
		filled, ok := value(template[m[0]+1 : m[1]-1])
		if !ok {
			continue
		}
		text, ok = join(text, edit.Literal(template[at:m[0]]))
		if ok {
			text, ok = join(text, filled)
		}
		if !ok {
			return "", false
		}
		at = m[1]
	}
	return join(text, edit.Literal(template[at:]))
}

// join joins two texts in the language of the configuration. A $ and a { that meet must not become
// a variable. join returns false if the language cannot express the joined text.
func join(a, b string) (string, bool) {
	switch {
	case !strings.HasSuffix(a, "$"):
	case strings.HasPrefix(b, "{"):
		a += "$" // $${ stands for ${
	case strings.HasPrefix(b, "${"):
		return "", false
	}
	return a + b, true
}

// words returns the words of arguments.
func words(at string, arguments []Argument, values map[string][]string) ([]string, error) {
	var list []string
	for i := range arguments {
		a := &arguments[i]
		s := a.slot(i)
		if s.field.Value == "" && s.isFlag() {
			list = append(list, edit.Literal(a.Name))
			continue
		}
		texts, err := s.texts(at, values)
		if err != nil {
			return nil, err
		}
		if !s.repeated && len(texts) > 1 {
			texts = texts[:1]
		}
		for _, text := range texts {
			switch {
			case a.Type != "named":
				list = append(list, text)
			case strings.HasPrefix(a.Name, "--"): // a single word, so that the value cannot be an option
				list = append(list, edit.Literal(a.Name)+"="+text)
			default:
				list = append(list, edit.Literal(a.Name), text)
			}
		}
	}
	return list, nil
}

// settings returns variables or headers with a value.
func settings(at string, list []Named, kind string, values map[string][]string) ([]edit.Setting, error) {
	var set []edit.Setting
	for i := range list {
		s := slot{list[i].Name, kind, false, &list[i].Field}
		texts, err := s.texts(at, values)
		if err != nil {
			return nil, err
		}
		again := slices.ContainsFunc(set, func(other edit.Setting) bool { return strings.EqualFold(other.Name, s.name) })
		if len(texts) > 0 && !again {
			set = append(set, edit.Setting{Name: s.name, Value: texts[0]})
		}
	}
	return set, nil
}

func (o *Option) remoteServer(values map[string][]string) (edit.Server, error) {
	headers, err := settings(o.where, o.remote.Headers, "header", values)
	if err != nil {
		return edit.Server{}, err
	}
	s := edit.Server{Transport: config.StreamableHTTP, Headers: headers}
	if o.remote.Type == "sse" {
		s.Transport = config.LegacySSE
	}
	address := o.remote.address()
	texts, err := address.texts(o.where, values)
	if err != nil {
		return edit.Server{}, err
	}
	if len(texts) > 0 {
		s.URL = texts[0]
	}
	if err := checkURL(o.where+".url", withoutVariables(s.URL)); err != nil {
		return edit.Server{}, err
	}
	return s, nil
}

// withoutVariables replaces the variables of a text in the language of the configuration.
func withoutVariables(text string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		if !ok {
			return b.String() + text
		}
		if strings.HasSuffix(before, "$") { // an escape
			b.WriteString(before + "{")
			text = rest
			continue
		}
		_, after, _ := strings.Cut(rest, "}")
		fmt.Fprintf(&b, "%sx", before)
		text = after
	}
}
