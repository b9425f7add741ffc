// Package lazyregexp holds regular expressions that are compiled at their first use.
//
// Most commands use few of the program's expressions. Compiling all of them was a seventh of the
// start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression with the methods of [regexp.Regexp], which may be called
// concurrently.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the expression. The first method call panics for a malformed expression, so
// expressions must be constants, which TestExpressions of the package compiles.
func New(expression string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// FindAllString calls [regexp.Regexp.FindAllString].
func (r *Regexp) FindAllString(s string, n int) []string {
	return r.compiled().FindAllString(s, n)
}

// FindAllStringIndex calls [regexp.Regexp.FindAllStringIndex].
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}

// FindAllStringSubmatch calls [regexp.Regexp.FindAllStringSubmatch].
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// FindAllStringSubmatchIndex calls [regexp.Regexp.FindAllStringSubmatchIndex].
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

// FindIndex calls [regexp.Regexp.FindIndex].
func (r *Regexp) FindIndex(b []byte) (loc []int) {
	return r.compiled().FindIndex(b)
}

// FindString calls [regexp.Regexp.FindString].
func (r *Regexp) FindString(s string) string {
	return r.compiled().FindString(s)
}

// FindStringSubmatch calls [regexp.Regexp.FindStringSubmatch].
func (r *Regexp) FindStringSubmatch(s string) []string {
	return r.compiled().FindStringSubmatch(s)
}

// FindStringSubmatchIndex calls [regexp.Regexp.FindStringSubmatchIndex].
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}

// FindSubmatch calls [regexp.Regexp.FindSubmatch].
func (r *Regexp) FindSubmatch(b []byte) [][]byte {
	return r.compiled().FindSubmatch(b)
}

// MatchString calls [regexp.Regexp.MatchString].
func (r *Regexp) MatchString(s string) bool {
	return r.compiled().MatchString(s)
}

// ReplaceAllString calls [regexp.Regexp.ReplaceAllString].
func (r *Regexp) ReplaceAllString(src, repl string) string {
	return r.compiled().ReplaceAllString(src, repl)
}

// ReplaceAllStringFunc calls [regexp.Regexp.ReplaceAllStringFunc].
func (r *Regexp) ReplaceAllStringFunc(src string, replace func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(src, replace)
}
