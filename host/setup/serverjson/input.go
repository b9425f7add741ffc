package serverjson

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"slices"
	"strconv"
	"strings"
)

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
