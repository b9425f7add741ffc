package serverjson

import (
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
			return wrong(at, "has a name that is not that of an option: %s", quoted(a.Name))
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
			return wrong(where, "has a name that is not that of a header: %s", quoted(h.Name))
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
