// Package limits is the table of all limits that a user can reach: name, configuration key, default
// and bounds, class of the error, and remedy. Package config reads, checks and describes limits
// with this table. Packages that enforce a limit (sandbox, wire, budget) know only the name: their
// errors have a method LimitName, and code that shows such an error adds the remedy with [Explain]
// or [Find].
//
// To add a limit, add a row in table.go and the field for the value in package config (limits.go
// there). The tests of config and of the documents fail until both are done.
package limits

import (
	"errors"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Unit is the unit of a limit.
type Unit uint8

const (
	Count    Unit = iota // a number of things; for fuel, of WebAssembly instructions
	Bytes                // written as sizes: "64MB"
	Duration             // nanoseconds, written as durations: "30s"
)

// Limit is a row of the table. Rows do not change.
type Limit struct {
	// Name is the name of the limit in errors, such as "memory"; "" if no error names the limit.
	Name string
	// Section is the table of the configuration with the key, such as "execution"; "" for the top
	// level. Key is the name of the key in TOML; "" for a fixed limit.
	Section, Key string
	Unit         Unit
	// Default is the value if the key is not set, or the value of a fixed limit. 0 if Derived is
	// set.
	Default int64
	Derived string
	// Least and Most bound the configured value.
	Least, Most int64
	// Class is the class of the error in a script; "" if a script does not get an error.
	Class abi.ErrorType
	// Advice is a remedy other than a higher limit, for example "try again later".
	Advice string
}

// Setting returns the key with its section, for example "execution.max_memory"; "" for a fixed
// limit.
func (l *Limit) Setting() string {
	if l.Section == "" || l.Key == "" {
		return l.Key
	}
	return l.Section + "." + l.Key
}

// Remedy returns the remedy for a reached limit, for example "raise execution.max_memory", or "this
// limit is fixed".
func (l *Limit) Remedy() string {
	switch {
	case l.Key == "" && l.Advice == "":
		return "this limit is fixed"
	case l.Key == "":
		return l.Advice
	case l.Advice == "":
		return "raise " + l.Setting()
	}
	return l.Advice + ", or raise " + l.Setting()
}

// Format returns a value of the limit for people: "128MiB", "30s", "1000".
func (l *Limit) Format(value int64) string {
	switch l.Unit {
	case Bytes:
		return units.FormatSize(uint64(value))
	case Duration:
		return units.FormatDuration(time.Duration(value))
	}
	return strconv.FormatInt(value, 10)
}

// Find returns the limit with this name in errors, or nil.
func Find(name string) *Limit {
	for _, l := range All {
		if l.Name == name && name != "" {
			return l
		}
	}
	return nil
}

// Reached is implemented by errors about a reached limit. LimitName returns a Name in the table.
type Reached interface {
	error
	LimitName() string
}

// Explain returns the text of an error, followed by the remedy if a limit was reached:
// "message is larger than 1024 bytes (raise max_message)".
func Explain(err error) string {
	var reached Reached
	if errors.As(err, &reached) {
		switch l := Find(reached.LimitName()); {
		case l != nil && l.Key == "":
			return err.Error() + "; " + l.Remedy()
		case l != nil:
			return err.Error() + " (" + l.Remedy() + ")"
		}
	}
	return err.Error()
}
