package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// EntryError says what is wrong with the entry of one upstream, on one line and without
// the name of the file and the values in it: clients may see it.
type EntryError struct {
	Upstream string
	Problems []*Problem // at least one
}

func (e *EntryError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		// The name of the upstream is where this text is used.
		key := strings.TrimPrefix(strings.TrimPrefix(p.Key, fmt.Sprintf("upstream %q", e.Upstream)), ": ")
		texts[i] = cmp.Or(p.public, p.Text)
		if key != "" {
			texts[i] = key + ": " + texts[i]
		}
	}
	return "its entry in the configuration is wrong: " + strings.Join(texts, "; ")
}

// Unwrap returns the problems.
func (e *EntryError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		errs[i] = p
	}
	return errs
}

// Unset returns the variables that the entry needs and that are not set. others is what else
// is wrong with it.
func (e *EntryError) Unset() (names []string, others []*Problem) {
	for _, p := range e.Problems {
		if unset := new(UnsetError); errors.As(p, &unset) {
			names = append(names, unset.Var)
		} else {
			others = append(others, p)
		}
	}
	return names, others
}

// text returns the error, "" for none.
func (e *EntryError) text() string {
	if e == nil {
		return ""
	}
	return e.Error()
}

// SameInvalid reports whether the same is wrong with the entries of two upstreams.
func SameInvalid(a, b *Upstream) bool { return a.Invalid.text() == b.Invalid.text() }

// LeftOut returns the problems of upstreams that [Load] has left out, because they have no
// valid name or share it with others. See [LoadOptions.Tolerate].
func (c *Config) LeftOut() []*Problem { return c.leftOut }

// Mistakes returns the problems that [LoadOptions.Tolerate] keeps from being errors.
func (c *Config) Mistakes() []*Problem {
	all := slices.Clone(c.leftOut)
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; u.Invalid != nil {
			all = append(all, u.Invalid.Problems...)
		}
	}
	return all
}

// entry reads one upstream with decode. If its problems are tolerated, they are kept with it.
func (r *reader) entry(c *Config, decode func()) {
	before, had := len(r.problems), len(c.Upstreams)
	decode()
	if !r.tolerate || len(r.problems) == before {
		return
	}
	found := slices.Clone(r.problems[before:])
	r.problems = r.problems[:before]
	if len(c.Upstreams) > had {
		if u := &c.Upstreams[had]; namePattern.MatchString(u.Name) && !abi.Reserved(abi.Ident(u.Name)) {
			u.Invalid = &EntryError{u.Name, found}
			return
		}
	}
	c.Upstreams = c.Upstreams[:had]
	r.leftOut = append(r.leftOut, found...)
}
