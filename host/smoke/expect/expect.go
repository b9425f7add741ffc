// Package expect compares the answer of a server or script with an expectation.
//
//	expect.go    Mismatch
//	json.go      Equal and Subset of raw JSON
//	value.go     JSON values: parsing, differences, numbers
//	diff.go      unified diffs, clipping
//	pattern.go   Pattern: literal text or /regexp/flags; Text, Logs
//	result.go    members of a CallToolResult: IsError, Meta, Schema
//	image.go     Image: blocks that can be decoded; png.go: PNG as viewers read it
//	progress.go  Progress: the notifications of one call
//	run.go       Calls, ErrorType, upper limits of a run
//
// All functions return nil if the expectation is met. They are safe for concurrent use and
// do not keep their arguments. Raw JSON is read as most clients do: of several members with
// the same name the last one counts, and invalid UTF-8 becomes U+FFFD.
package expect

// Mismatch is an expectation that is not met. All texts are clipped but not escaped: they
// can contain anything that a server has sent.
type Mismatch struct {
	// Path is the place of the first difference, below the value that was compared:
	// "$.a[2].b"; "" if it does not apply.
	Path string
	// Message says what is wrong, in one sentence.
	Message string
	// Want and Got are the two sides at Path; "" if Message says everything.
	Want, Got string
	// Diff is a unified diff of the whole values, if they are larger than what Want and Got
	// show; else "".
	Diff string
}

// Error returns the message with its path.
func (m *Mismatch) Error() string {
	if m.Path == "" || m.Path == "$" {
		return m.Message
	}
	return "at " + m.Path + ": " + m.Message
}
