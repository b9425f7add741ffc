package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// entryPoints are the functions that take bytes, each with a name that is looked for.
var entryPoints = map[string]struct {
	name string
	do   func(raw []byte)
}{
	"Shape.Check":   {"taskId", func(raw []byte) { _ = TaskShape.Check(raw) }},
	"Parse":         {"params", func(raw []byte) { _, _ = Parse(raw) }},
	"ParseRepaired": {"result", func(raw []byte) { _, _ = ParseRepaired(raw) }},
	"ParseError":    {"message", func(raw []byte) { _ = ParseError(raw).Error() }},
	"Split":         {"id", func(raw []byte) { _, _, _ = Split(raw) }},
	"IDKey":         {"id", func(raw []byte) { IDKey(raw) }},
	"Get":           {"a", func(raw []byte) { Get(raw, "a", "a", "x") }},
	"GetString":     {"a", func(raw []byte) { GetString(raw, "a") }},
	"Pick":          {"a", func(raw []byte) { Pick(raw, []string{"x", "a"}, make([][]byte, 2)) }},
	"Text":          {"a", func(raw []byte) { Text(raw) }},
	"Set":           {"a", func(raw []byte) { _, _ = Set(raw, []byte("1"), "a", "a", "x") }},
	"Delete":        {"a", func(raw []byte) { _, _ = Delete(raw, "a"); _, _ = Delete(raw, "a", "a", "x") }},
	"Without":       {"a", func(raw []byte) { _, _ = Without(raw, "x", "a") }},
	"IsObject":      {"a", func(raw []byte) { IsObject(raw) }},
	"Members":       {"a", func(raw []byte) { Members(raw) }},
	"Each":          {"a", func(raw []byte) { Each(raw, func(_, _ []byte) bool { return true }) }},
	"Elements":      {"a", func(raw []byte) { _, _ = Elements(raw) }},
	"FirstElements": {"a", func(raw []byte) { _, _, _ = FirstElements(raw, 1000) }},
	"Extend": {"a", func(raw []byte) {
		if IsObject(raw) {
			Extend(raw, []byte(`{"b":1}`))
			Extend([]byte(`{"b":1}`), raw)
		}
	}},
	"Array":        {"a", func(raw []byte) { Array(bytes.SplitAfter(raw, []byte(","))) }},
	"Object.Raw":   {"a", func(raw []byte) { var o Object; o.Raw("a", raw); o.Raw("b", raw); o.Bytes() }},
	"AppendQuote":  {"a", func(raw []byte) { AppendQuote(nil, string(raw)) }},
	"AppendLine":   {"a", func(raw []byte) { AppendLine(nil, raw) }},
	"Request":      {"a", func(raw []byte) { Request(1, string(raw), raw) }},
	"Notification": {"a", func(raw []byte) { Notification(string(raw), raw) }},
	"Response":     {"a", func(raw []byte) { Response(raw, Reply{Result: raw}) }},
	"WriteLines": {"a", func(raw []byte) {
		_, _, _, _ = WriteLines(io.Discard, nil, bytes.SplitAfter(raw, []byte(",")))
		_, _, _, _ = WriteLines(brokenPipe{}, nil, bytes.SplitAfter(raw, []byte(",")))
	}},
	"NewReader": {"a", func(raw []byte) {
		for r := NewReader(bytes.NewReader(raw), len(raw)/2); ; {
			if _, err := r.Read(); err != nil && !errors.As(err, new(*TooLargeError)) {
				break
			}
		}
	}},
	"NewEventReader": {"a", func(raw []byte) {
		for _, between := range []string{"\r", "\n", "\r\n", "\ndata:", "\n\n", "\r:", "\nid:"} {
			r := NewEventReader(bytes.NewReader(bytes.ReplaceAll(raw, []byte(","), []byte(between))), len(raw)/2)
			for {
				if _, err := r.Next(); err != nil && !errors.As(err, new(*TooLargeError)) {
					break
				}
			}
			r.Release()
		}
	}},
	"ReadBudget.ReadAll": {"a", func(raw []byte) {
		var r *ReadBudget
		_, _ = r.ReadAll(bytes.NewReader(raw), -1, len(raw)+1, 10)
		_, _ = r.ReadAll(bytes.NewReader(raw), int64(len(raw)), len(raw)/2, 10)
	}},
	"CancelParams": {"requestId", func(raw []byte) {
		CancelParams(&CancelledError{Params: raw}, 1)
		_ = (&CancelledError{Params: raw}).Error()
	}},
	// These take strings.
	"Quote":    {"a", func(raw []byte) { Quote(string(raw)) }},
	"Fold":     {"a", func(raw []byte) { Fold(string(raw)) }},
	"URIForms": {"a", func(raw []byte) { URIForms("file://" + string(raw)); URIForms(string(raw)) }},
}

// brokenPipe takes a few bytes.
type brokenPipe struct{}

func (brokenPipe) Write(b []byte) (int, error) { return min(len(b), 100), context.Canceled }

// TestLinear checks that no message makes us work out of proportion to its size.
func TestLinear(t *testing.T) {
	for entry, e := range entryPoints {
		for _, shape := range linear.Shapes {
			t.Run(entry+"/"+shape.Name, func(t *testing.T) {
				linear.Check(t, func(size int) []byte { return shape.Make(size, e.name) }, e.do)
			})
		}
	}
}

// TestLinearIsComplete checks that entryPoints has all exported functions that take bytes.
func TestLinearIsComplete(t *testing.T) {
	var table []string
	strings := []string{"Quote", "Fold", "URIForms", "CancelParams"} // take strings and errors
	for entry := range entryPoints {
		if !slices.Contains(strings, entry) {
			table = append(table, entry)
		}
	}
	linear.CheckTable(t, ".", table, map[string]string{
		"NoWait.Write": "hands the bytes to the system",
	})
}
