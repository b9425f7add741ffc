// Package tomldoc decodes TOML from others in bounded time and memory.
//
//	tomldoc.go  Decode
//	guard.go    Check: what a text would cost, before it is decoded
//
// The TOML library keeps the whole path of each key, and recurses into what is
// nested: some kilobytes of brackets or dots take gigabytes, or end the process.
// So each text is looked through once before. A test keeps product code from
// calling the library in any other way.
package tomldoc

import (
	"fmt"

	"github.com/BurntSushi/toml"
)

// MaxDepth is how deep a text may be nested: the parts of a table's name, of the
// keys in it and of those in inline tables, and the arrays around them. What
// people write has less than ten.
const MaxDepth = 100

// maxCost bounds what the library makes of a text, in bytes, about.
const maxCost = 256 << 20

// Error says why a text is not decoded.
type Error struct {
	// Offset is that of the place, in bytes; Line and Column are its line and the
	// column in bytes, from 1.
	Offset, Line, Column int
	// Deep tells that it is nested too deep; else it has too many keys and values.
	Deep bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message())
}

// Message is the error without the place.
func (e *Error) Message() string {
	if e.Deep {
		return fmt.Sprintf("is nested deeper than %d levels", MaxDepth)
	}
	return "has too many keys and values, or too long keys"
}

// Decode decodes a text that [Check] lets pass; it is toml.Decode otherwise. The
// error may be an *[Error].
func Decode(text string, into any) (toml.MetaData, error) {
	if err := Check(text); err != nil {
		return toml.MetaData{}, err
	}
	return toml.Decode(text, into)
}
