// Package lazyregexp holds regular expressions that are compiled when they are first used.
//
// Most commands use few of the program's expressions. Compiling all of them was a seventh of
// the start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression. Its methods are those of [regexp.Regexp], and may be called
// concurrently.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the expression. The first method that is called panics if it is malformed, so
// expressions must be constants, which TestExpressions of the package compiles.
func New(expression string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// FindAllString is that of [regexp.Regexp].
func (r *Regexp) FindAllString(s string, n int) []string {
	return r.compiled().FindAllString(s, n)
}

// FindAllStringIndex is that of [regexp.Regexp].
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex is that of [regexp.Regexp].
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

// FindIndex is that of [regexp.Regexp].
func (r *Regexp) FindIndex(b []byte) (loc []int) {
	return r.compiled().FindIndex(b)
}

// FindString is that of [regexp.Regexp].
func (r *Regexp) FindString(s string) string {
	return r.compiled().FindString(s)
}

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string {
	return r.compiled().FindStringSubmatch(s)
}

// FindStringSubmatchIndex is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

// FindSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindSubmatch(b []byte) [][]byte {
	return r.compiled().FindSubmatch(b)
}

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool {
	return r.compiled().MatchString(s)
}

// ReplaceAllString is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.compiled().ReplaceAllString(src, repl)
}

// ReplaceAllStringFunc is that of [regexp.Regexp].
func (r *Regexp) ReplaceAllStringFunc(src string, replace func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(src, replace)
}
