package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// span is a part of a text, from one byte offset up to another.
type span struct{ from, to int }

// expansion is a string of the file with its variables expanded.
type expansion struct {
	text string
	// vars are the parts of text that came from the environment. Defaults are not among
	// them, because they are in the file.
	vars []varSpan
	// refs are the references in text, in which they are as in the file.
	refs []refSpan
}

// refSpan is a reference within a text.
type refSpan struct {
	span
	Reference
}

// varSpan is the value of a variable within a text.
type varSpan struct {
	span
	name string
}

// fromVariable reports whether a part of the text comes from a variable, or has one in it.
func (e expansion) fromVariable(part span) bool {
	return slices.ContainsFunc(e.vars, func(v varSpan) bool { return v.from < part.to && part.from < v.to })
}

var (
	errExpression = errors.New("contains a ${ that does not begin ${NAME}, ${NAME:-default}, ${cmd:COMMAND}, ${file:PATH} or ${keyring:NAME} (write $${ for a literal ${)")
	errNUL        = errors.New("contains a NUL character")
)

// expand replaces the variables in s by their values:
//
//	${NAME}           the value of NAME, which must be set
//	${NAME:-default}  default if NAME is not set or empty; it cannot hold a }
//	$${               the two characters ${
//	${cmd:COMMAND}, ${file:PATH}, ${keyring:NAME}
//	                  a reference, which stays as it is; see [Reference]. It cannot
//	                  hold a }
//
// Every other $ is literal. The value of a variable is not expanded again. There is an
// error for each variable that is not set; an invalid expression ends the expansion with
// a last error. The expansion is then incomplete.
func expand(s string, getenv func(string) (string, bool)) (e expansion, errs []error) {
	var b strings.Builder
	defer func() { e.text = b.String() }()
	for {
		at := strings.Index(s, "${")
		if at < 0 {
			b.WriteString(s)
			return e, errs
		}
		if at > 0 && s[at-1] == '$' {
			b.WriteString(s[:at-1] + "${")
			s = s[at+2:]
			continue
		}
		b.WriteString(s[:at])
		expression, rest, closed := strings.Cut(s[at+2:], "}")
		name, def, hasDefault := strings.Cut(expression, ":-")
		isVar := isVarName(name) && !strings.Contains(def, "${")
		ref, isRef := parseReference(expression)
		if !closed || !isVar && (!isRef || strings.Contains(expression, "${")) {
			return e, append(errs, errExpression)
		}
		s = rest
		if !isVar {
			from := b.Len()
			b.WriteString(ref.String())
			e.refs = append(e.refs, refSpan{span{from, b.Len()}, ref})
			continue
		}
		value, ok := getenv(name)
		switch {
		case hasDefault && value == "":
			b.WriteString(def)
		case !ok:
			errs = append(errs, &UnsetError{Var: name})
		default:
			from := b.Len()
			b.WriteString(value)
			e.vars = append(e.vars, varSpan{span{from, b.Len()}, name})
		}
	}
}

// isVarName reports whether s is a name that shells allow.
func isVarName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// expandHome replaces a leading ~ by the home directory.
func expandHome(path string, home func() (string, error)) (string, error) {
	if !strings.HasPrefix(path, "~") {
		return path, nil
	}
	rest := path[1:]
	if rest != "" && rest[0] != '/' && rest[0] != filepath.Separator {
		return "", errors.New("the home directory of another user (~name) is not looked up: write the path out")
	}
	dir, err := home()
	if err != nil {
		return "", fmt.Errorf("the home directory is not known: %w", err)
	}
	return filepath.Join(dir, rest), nil
}
