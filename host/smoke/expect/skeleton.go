package expect

import (
	"regexp"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Equal compares two JSON values: objects with the same members in any order,
// arrays with the same items in the same order, numbers by value (1 and 1.0 and
// 10e-1 are equal; all digits count, however many).
func Equal(want, got []byte) *Mismatch { return nil }

// Subset is Equal but that objects may have members that want does not have,
// at any depth. Arrays have the same length.
func Subset(want, got []byte) *Mismatch { return nil }

// Pattern is what a text is held against: text that it contains, or
// "/regexp/flags". The zero value matches any text.
type Pattern struct {
	source string
	re     *regexp.Regexp // nil: literal
}

// ParsePattern reads a pattern. It is a regular expression (Go's, RE2) when it
// begins with a slash and ends in a slash and none or more of the flags i, m, s
// and U; else it is literal text. Only a regular expression can be wrong.
func ParsePattern(s string) (Pattern, error) { return Pattern{source: s}, nil }

// String is the pattern as it was parsed.
func (p Pattern) String() string { return p.source }

// Match tells whether text matches.
func (p Pattern) Match(text string) bool { return false }

// Text wants that a text block of a raw CallToolResult matches.
func Text(want Pattern, result []byte) *Mismatch { return nil }

// Message wants that a single text matches, such as an error's message. what
// names it: "the error's message".
func Message(what string, want Pattern, got string) *Mismatch { return nil }

// Logs wants log entries that match, in that order; others may come between
// them. An empty want wants no logs at all.
func Logs(want []Pattern, got []string) *Mismatch { return nil }

// IsError wants the isError of a raw CallToolResult; one that has none is not.
func IsError(want bool, result []byte) *Mismatch { return nil }

// Meta wants the _meta of a raw CallToolResult (or of any object) to have all
// of want, as in Subset.
func Meta(want, result []byte) *Mismatch { return nil }

// Schema wants a raw JSON value to be valid; see tools.CompileSchema.
func Schema(want *tools.Schema, got []byte) *Mismatch { return nil }

// ImageWant says what images are expected of a result.
type ImageWant struct {
	// MIME is the type that one of them has, "" for any: image/png, image/jpeg,
	// image/gif or image/webp.
	MIME string
	// Width and Height in pixels of that image; 0 for any.
	Width, Height int
	// Count is how many images there are; 0 for one or more.
	Count int
}

// Image wants the image blocks of a raw CallToolResult to decode to the end and
// to be of the types they say, and one of them to be as wanted.
func Image(want ImageWant, result []byte) *Mismatch { return nil }

// Progress wants at least atLeast progress notifications of one call, given as
// their raw params in order: progress strictly rises (MCP 2025-11-25, basic,
// utilities, progress), does not pass the total, and the total never shrinks.
func Progress(atLeast int, params [][]byte) *Mismatch { return nil }

// Calls wants exactly these calls ("server.tool") in this order.
func Calls(want, got []string) *Mismatch { return nil }

// Names wants all of these names to be among got; kind ("tool") is what they
// are names of.
func Names(kind string, want, got []string) *Mismatch { return nil }

// ErrorType wants a run's class of error: "" for success. message is that of
// the error got.
func ErrorType(want, got, message string) *Mismatch { return nil }

// Fuel wants at most so many units.
func Fuel(most, got uint64) *Mismatch { return nil }

// Memory wants a peak of at most so many bytes.
func Memory(most, got uint64) *Mismatch { return nil }

// Duration wants it to have taken at most so long.
func Duration(most, got time.Duration) *Mismatch { return nil }
