package compose

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func at(source string, column int) *abi.Position {
	return &abi.Position{File: "f", Line: 1, Column: column, Source: source}
}

// checkCaret finds the caret of a text in the last line.
func checkCaret(t *testing.T, text string, column int) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if column == 0 {
		if len(lines) != 2 {
			t.Errorf("text = %q", text)
		}
		return
	}
	last := lines[len(lines)-1]
	if got := utf8.RuneCountInString(strings.TrimPrefix(last, "    ")); !strings.HasSuffix(last, "^") || got != column {
		t.Errorf("the caret stands at %d, want %d:\n%s", got, column, text)
	}
}

func TestFailureResult(t *testing.T) {
	f := &Failure{Type: abi.ErrValidation, Message: "no <a>", Nearest: []string{"b"},
		Violations: []tools.Violation{{Pointer: "/x", Message: "bad"}}}
	want := `{"content":[{"type":"text","text":"validation error: no <a>\n  /x: bad"}],"structuredContent":{"error":{"type":"validation",` +
		`"message":"no <a>","details":{"violations":[{"pointer":"/x","message":"bad"}],"nearest":["b"]}}},"isError":true}`
	if got := string(f.Result()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(TextResult("x", []byte(`{"n":1.0}`))); got != `{"content":[{"type":"text","text":"x"}],"structuredContent":{"n":1.0},"isError":false}` {
		t.Errorf("text result = %s", got)
	}
	for i := range maxShownViolations {
		f.Violations = append(f.Violations, tools.Violation{Pointer: fmt.Sprint("/", i), Message: "bad"})
	}
	if text := f.Text(); !strings.HasSuffix(text, "\n  and 1 more") || strings.Count(text, "\n") != maxShownViolations+1 {
		t.Errorf("text of many violations: %s", text)
	}
}

func TestFailureText(t *testing.T) {
	long := make([]rune, 1000)
	for i := range long {
		long[i] = rune('a' + i%26)
	}
	for _, tt := range []struct {
		name   string
		f      Failure
		column int // the column of the caret, from 1; 0: none
	}{
		{"tabs", Failure{Position: at("\tx.é.y()", 6)}, 6},
		{"no source", Failure{Position: at("", 6)}, 0},
		{"column beyond the line", Failure{Position: at("ab", 99)}, 3},
		{"long line, start", Failure{Position: at(string(long), 10)}, 10},
		{"long line, middle", Failure{Position: at(string(long), 500)}, maxSourceLine / 2},
		{"long line, end", Failure{Position: at(string(long), 1000)}, maxSourceLine},
	} {
		t.Run(tt.name, func(t *testing.T) { checkCaret(t, tt.f.Text(), tt.column) })
	}
}
