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
		var unset *config.UnsetError
		if errors.As(e, &problem) && errors.As(e, &unset) {
			problem.Text = "the variable " + unset.Var + " is not read with --offline"
		}
	}
	return err
}

// offline returns the check as it runs without servers: with its mocks, or with none.
func (c *Check) offline() (*Check, error) {
	switch {
	case c.Mock != nil:
		return c, nil
	case !c.Code.none():
		unmocked := *c
		unmocked.Mock = &Mock{}
		return &unmocked, nil
	}
	return nil, broken(nil, "it needs a server, and none is started with --offline (give it a script and mocks)")
}
