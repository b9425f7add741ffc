package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one error in a configuration. [Load] joins all that it finds (see
// [errors.Join]), one line each; [errors.As] finds the first.
type Problem struct {
	// File is the file as it was named, "" for an environment variable.
	File string
	// Line and Column count from 1; 0 if the place is unknown. Columns count code points.
	Line, Column int
	// Key is the setting, such as `upstream "github": args[1]`; "" for the whole file.
	Key string
	// Text says what is wrong and what to do. A value is quoted as it is in the file,
	// before ${VAR} is expanded. Values of args, env, url, headers, client_secret and
	// tokens are never quoted.
	Text string
	// public is Text without values of the file.
	public string
	// Err is the cause, if there is one: an [UnsetError], or an error from reading the
	// file.
	Err error
}

// Error returns a line such as
//
//	config.toml:7:3: upstream "github": unknown key "comand" (did you mean "command"?)
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
	}
	for _, s := range []string{p.Key, p.Text} {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Unwrap returns the cause, or nil.
func (p *Problem) Unwrap() error { return p.Err }

// UnsetError is the cause of a [Problem] with a ${VAR} that is not set and has no
// default.
type UnsetError struct{ Var string }

func (e *UnsetError) Error() string {
	return fmt.Sprintf("env %s is not set (set it, or give a default: ${%s:-})", e.Var, e.Var)
}

// ErrNotFound is the cause of a [Problem] with a configuration file that a flag or the
// environment names and that does not exist.
var ErrNotFound = errors.New("there is no such file")

// join returns one error for all problems, nil if there are none.
func join(problems []*Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}
