// Package expect compares the answer of a server or script with an expectation: raw JSON ([Equal],
// [Subset]), patterns ([Text], [Logs]), members of a CallToolResult, images, progress
// notifications, and the calls and limits of a run. The result is a [Mismatch], or nil if the
// expectation is met.
//
// Concurrent use of all functions is safe, and no function keeps its arguments. Raw JSON is read as
// most clients read JSON: of several members with the same name the last counts, and invalid UTF-8
// becomes U+FFFD.
package expect

// Mismatch is an unmet expectation. All texts are clipped but not escaped: they can contain any
// text of a server.
type Mismatch struct {
	// Path is the place of the first difference, below the compared value: "$.a[2].b"; "" if there
	// is no place.
	Path string
	// Message describes the mismatch, in a sentence.
	Message string
	// Want and Got are the two sides at Path; "" if Message says everything.
	Want, Got string
	// Diff is a unified diff of the whole values, if Want and Got do not show both completely; else
	// "".
	Diff string
}

// Error returns the message with its path.
func (m *Mismatch) Error() string {
	if m.Path == "" || m.Path == "$" {
		return m.Message
	}
	return "at " + m.Path + ": " + m.Message
}
