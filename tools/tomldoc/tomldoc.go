// Package tomldoc decodes foreign TOML in bounded time and memory ([Decode]), and changes TOML
// texts ([Set], [Remove], [Append]) without touching other bytes: comments, order, blank lines,
// quoting.
//
// The TOML library stores the whole path of each key, and recurses into nested values: some
// kilobytes of brackets or dots take gigabytes, or crash the process. So each text is scanned once
// before decoding ([Check]). A test keeps product code from calling the library in any other way.
//
// The result of each change is decoded and compared with the decoded original after the same
// change. So a text is changed as intended, or not at all.
package tomldoc

import (
	"fmt"

	"github.com/BurntSushi/toml"
)

// MaxDepth is the maximum nesting of a text: the parts of a table's name, of the keys in the table
// and in inline tables, and the arrays around them. Normal texts have less than ten.
const MaxDepth = 100

// maxCost limits the memory used by the library for a text, in bytes, approximately.
const maxCost = 256 << 20

// Error says why a text is not decoded.
type Error struct {
	// Offset is the position in bytes; Line and Column are the line and the column in
	// bytes, from 1.
	Offset, Line, Column int
	// Deep means a text nested too deep; otherwise the text has too many keys and values.
	Deep bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message())
}

// Message returns the error without the position.
func (e *Error) Message() string {
	if e.Deep {
		return fmt.Sprintf("is nested deeper than %d levels", MaxDepth)
	}
	return "has too many keys and values, or too long keys"
}

// Decode is toml.Decode for texts accepted by [Check]. The error may be an *[Error].
func Decode(text string, into any) (toml.MetaData, error) {
	if err := Check(text); err != nil {
		return toml.MetaData{}, err
	}
	return toml.Decode(text, into)
}
