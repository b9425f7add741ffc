package smoke

import (
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// noVariables is an environment without variables.
func noVariables(string) (string, bool) { return "", false }

// explainOffline changes the messages about unset variables: offline, none is read.
func explainOffline(err error) error {
	each := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // LoadWithin returns several errors like this
		each = joined.Unwrap()
	}
	for _, e := range each {
		var problem *config.Problem
		if errors.As(e, &problem) {
			notRead(problem)
		}
	}
	return err
}

// notRead changes the message of a problem about an unset variable.
func notRead(problem *config.Problem) {
	var unset *config.UnsetError
	if errors.As(problem, &unset) {
		problem.Text = "the variable " + unset.Var + " is not read with --offline"
	}
}

// explain returns the problem with the reason for offline files.
func (f *File) explain(problem *config.Problem) *config.Problem {
	if f.offline {
		notRead(problem)
	}
	return problem
}

// offline returns the check as run without servers: with its mocks, or with no mocks.
func (c *Check) offline(f *File) (*Check, error) {
	switch {
	case c.Mock != nil:
		return c, nil
	case !c.Code.none():
		unmocked := *c
		unmocked.Mock = &Mock{}
		return &unmocked, nil
	}
	if f.extends != "" {
		return nil, broken(nil, "it needs a server; with --offline, none is started, and %s is not read (give it a script and mocks)", f.extends)
	}
	return nil, broken(nil, "it needs a server, and none is started with --offline (give it a script and mocks)")
}
