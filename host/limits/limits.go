// Package limits is the table of all limits that a user can meet: what each is
// called, the configuration key that sets it, its default and bounds, the class
// of its error, and what to do about it.
//
//	table.go   one row for each limit
//	limits.go  Limit: what a row says, and Explain for errors
//
// Package config reads, checks and describes limits by their rows. Packages that
// enforce a limit (sandbox, wire, budget) know only its name: their errors have a
// method LimitName, and those who show such an error add the remedy with
// [Explain] or [Find]. Tests hold docs/configuration.md and docs/security.md
// against the table.
//
// To add a limit, add its row here and the field of its value in config
// (limits.go there), and use the field. The tests of config and of the documents
// fail until both know it.
package limits

import (
	"errors"
	"strconv"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Unit is what a limit is counted in.
type Unit uint8

const (
	Count    Unit = iota // of things; of units of the meter for fuel
	Bytes                // written as sizes: "64MB"
	Duration             // nanoseconds, written as durations: "30s"
)

// Limit is a row of the table. Rows do not change.
type Limit struct {
	// Name is what errors call the limit, such as "memory"; "" if none does.
	Name string
	// Section is the table of the configuration with the key, such as
	// "execution"; "" for its top level. Key is the name of the key in TOML; ""
	// for a limit that is fixed.
	Section, Key string
	Unit         Unit
	// Default is the value if the key is not set, or that of a fixed limit. It is
	// 0 if Derived says where the value comes from.
	Default int64
	Derived string
	// Least and Most are the bounds of what can be configured.
	Least, Most int64
	// Class is the class of the error in a script; "" if meeting the limit is no
	// error of a script.
	Class abi.ErrorType
	// Advice is what helps besides another value, such as "try again later".
	Advice string
}

// Setting is the key with its section, such as "execution.max_memory"; "" for a
// fixed limit.
func (l *Limit) Setting() string {
	if l.Section == "" || l.Key == "" {
		return l.Key
	}
	return l.Section + "." + l.Key
}

// Remedy says what to do when the limit was met, such as "raise
// execution.max_memory". It is "this limit is fixed" if nothing can be done.
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

// Format writes a value of the limit for people: "128MiB", "30s", "1000".
func (l *Limit) Format(value int64) string {
	switch l.Unit {
	case Bytes:
		return units.FormatSize(uint64(value))
	case Duration:
		return units.FormatDuration(time.Duration(value))
	}
	return strconv.FormatInt(value, 10)
}

// Find is the limit that errors call name; nil if there is none.
func Find(name string) *Limit {
	for _, l := range All {
		if l.Name == name && name != "" {
			return l
		}
	}
	return nil
}

// Met is implemented by errors that say which limit was met. LimitName is a Name
// of the table.
type Met interface {
	error
	LimitName() string
}

// Explain is the text of an error with the remedy behind it, if a limit was met:
// "message is larger than 1024 bytes (raise max_message)".
func Explain(err error) string {
	var met Met
	if errors.As(err, &met) {
		switch l := Find(met.LimitName()); {
		case l != nil && l.Key == "":
			return err.Error() + "; " + l.Remedy()
		case l != nil:
			return err.Error() + " (" + l.Remedy() + ")"
		}
	}
	return err.Error()
}
