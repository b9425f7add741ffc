// Package tomldoc decodes TOML from others in bounded time and memory, and changes TOML
// texts, of which all other bytes stay as they are: comments, order, blank lines, quoting.
//
//	tomldoc.go   Decode
//	guard.go     Check: the cost of a text, before it is decoded
//	scan.go      Scan: where the keys and values of a text are
//	quote.go     Quote, QuoteLine, QuoteKey: strings and keys as TOML
//	edit.go      Set, Remove: the change, and the check that nothing else has changed
//	document.go  a text as statements, with the path of each
//	remove.go    removing what is at a path
//	insert.go    adding what is not there
//	items.go     adding and removing items of arrays
//	value.go     InlineTable and other values as TOML; applying a change to decoded values
//
// The TOML library stores the whole path of each key, and recurses into nested values: some
// kilobytes of brackets or dots take gigabytes, or crash the process. So each text is
// scanned once before it is decoded. A test keeps product code from calling the library in
// any other way.
//
// The result of each change is decoded and compared with the decoded original to which the
// same change was applied. So a text is changed as it was meant, or not at all.
package tomldoc

import (
	"fmt"

	"github.com/BurntSushi/toml"
)

// MaxDepth is the maximum nesting of a text: the parts of a table's name, of the keys in it
// and of those in inline tables, and the arrays around them. Normal texts have less than
// ten.
const MaxDepth = 100

// maxCost limits the memory that the library uses for a text, in bytes, approximately.
const maxCost = 256 << 20

// Error says why a text is not decoded.
type Error struct {
	// Offset is the position in bytes; Line and Column are the line and the column in
	// bytes, from 1.
	Offset, Line, Column int
	// Deep says that the text is nested too deep; otherwise it has too many keys and
	// values.
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

// Decode is toml.Decode for texts that pass [Check]. The error may be an *[Error].
func Decode(text string, into any) (toml.MetaData, error) {
	if err := Check(text); err != nil {
		return toml.MetaData{}, err
	}
	return toml.Decode(text, into)
}
