// Package expect holds what a server or a script answered against what is
// expected of it.
//
//	expect.go    Mismatch
//	json.go      Equal and Subset of raw JSON
//	value.go     JSON values: reading, walking both sides, numbers
//	diff.go      unified diffs, clipping
//	pattern.go   Pattern: literal text or /regexp/flags; Text, Logs
//	result.go    members of a CallToolResult: IsError, Meta, Schema
//	image.go     Image: blocks that decode; png.go: PNG as viewers read it
//	progress.go  Progress: the notifications of one call
//	run.go       Calls, ErrorType, ceilings of a run
//
// All functions return nil when the expectation is met. They are safe for
// concurrent use and keep nothing they are given. Raw JSON is read as most
// clients read it: of members with the same name the last counts, and text that
// is not UTF-8 has U+FFFD for it.
package expect

// Mismatch is an expectation that is not met. All texts are clipped, none is
// escaped: they can hold whatever a server has sent.
type Mismatch struct {
	// Path is where the first difference is: "$.a[2].b" below the value that was
	// compared; "" when that means nothing.
	Path string
	// Message says what is wrong, in one sentence.
	Message string
	// Want and Got are the two sides at Path; "" when Message says all.
	Want, Got string
	// Diff is a unified diff of the whole value, wanted to got, when it is
	// larger than what Want and Got show; else "".
	Diff string
}

// Error is the message with its place.
func (m *Mismatch) Error() string {
	if m.Path == "" || m.Path == "$" {
		return m.Message
	}
	return "at " + m.Path + ": " + m.Message
}
