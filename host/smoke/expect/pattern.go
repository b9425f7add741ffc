package expect

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Pattern matches texts: texts with a literal text, or texts that match "/regexp/flags". The zero
// value matches any text.
type Pattern struct {
	source string
	re     *regexp.Regexp // nil for literal text
}

// ParsePattern parses a pattern. A text is a regular expression (Go's, RE2) if it begins with a
// slash and ends with a slash and any of the flags i, m, s and U. Any other text is literal, such
// as "/usr/bin"; "/usr/" is a regular expression. Only a regular expression can be invalid.
func ParsePattern(s string) (Pattern, error) {
	end := strings.LastIndexByte(s, '/')
	if end < 1 || s[0] != '/' || strings.Trim(s[end+1:], "imsU") != "" {
		return Pattern{source: s}, nil
	}
	expr, flags := s[1:end], s[end+1:]
	if _, err := regexp.Compile(expr); err != nil {
		return Pattern{}, fmt.Errorf("%w (text between slashes is a regular expression)", err)
	}
	if flags != "" {
		expr = "(?" + flags + ":" + expr + ")"
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return Pattern{}, err
	}
	return Pattern{source: s, re: re}, nil
}

// String returns the parsed text.
func (p Pattern) String() string { return p.source }

// Match reports whether text matches.
func (p Pattern) Match(text string) bool {
	if p.re != nil {
		return p.re.MatchString(text)
	}
	return strings.Contains(text, p.source)
}

// verb returns the verb for messages about the pattern.
func (p Pattern) verb() string {
	if p.re != nil {
		return "matches"
	}
	return "contains"
}

// diff returns the diff with a literal text of several lines.
func (p Pattern) diff(got string) string {
	if p.re != nil || !strings.Contains(p.source, "\n") {
		return ""
	}
	return diffTexts(p.source, got)
}

// Text requires that a text block of a raw CallToolResult matches.
func Text(want Pattern, result []byte) *Mismatch {
	texts := Texts(result)
	for _, text := range texts {
		if want.Match(text) {
			return nil
		}
	}
	if len(texts) == 0 {
		return &Mismatch{Path: "$.content", Message: "the result has no text", Want: display.ClipSize(want.source, maxShown), Got: showContent(result)}
	}
	got := strings.Join(texts, "\n")
	return &Mismatch{
		Path: "$.content", Message: fmt.Sprintf("no text %s what is wanted", want.verb()),
		Want: display.ClipSize(want.source, maxShown), Got: display.ClipSize(got, maxShown), Diff: want.diff(got),
	}
}

// Message requires that a single text matches, such as an error message. subject names the text:
// "the error's message".
func Message(subject string, want Pattern, got string) *Mismatch {
	if want.Match(got) {
		return nil
	}
	return &Mismatch{
		Message: fmt.Sprintf("nothing in %s %s what is wanted", subject, want.verb()),
		Want:    display.ClipSize(want.source, maxShown), Got: display.ClipSize(got, maxShown), Diff: want.diff(got),
	}
}

// Texts returns the texts of the text blocks of a raw CallToolResult.
func Texts(result []byte) []string {
	var texts []string
	for _, block := range blocks(result) {
		if kind, _ := wire.GetString(block, "type"); kind != "text" {
			continue
		}
		if text, ok := wire.GetString(block, "text"); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// blocks returns the content blocks of a raw CallToolResult.
func blocks(result []byte) [][]byte {
	content, _ := wire.Get(result, "content")
	list, err := wire.Elements(content)
	if err != nil {
		return nil
	}
	return list
}

// showContent describes the content of a result without text.
func showContent(result []byte) string {
	var kinds []string
	for _, block := range blocks(result) {
		kind, _ := wire.GetString(block, "type")
		kinds = append(kinds, kind)
	}
	if kinds == nil {
		return display.ClipSize(string(result), maxShown)
	}
	return display.ClipSize("blocks: "+strings.Join(kinds, ", "), maxShown)
}

// Logs requires matching log entries in the given order, possibly with other entries in between. An
// empty want requires an empty log.
func Logs(want []Pattern, got []string) *Mismatch {
	if len(want) == 0 && len(got) > 0 {
		return &Mismatch{Path: "$[0]", Message: fmt.Sprintf("want no logs, got %d", len(got)), Got: display.ClipSize(strings.Join(got, "\n"), maxShown)}
	}
	next := 0
	for i, p := range want {
		from := next
		for next < len(got) && !p.Match(got[next]) {
			next++
		}
		if next == len(got) {
			after := ""
			if i > 0 {
				after = " after that for " + display.ClipSize(want[i-1].source, maxName)
			}
			return &Mismatch{
				Path: fmt.Sprintf("$[%d]", i), Message: fmt.Sprintf("no log entry%s %s what is wanted", after, p.verb()),
				Want: display.ClipSize(p.source, maxShown), Got: display.ClipSize(strings.Join(got[from:], "\n"), maxShown),
			}
		}
		next++
	}
	return nil
}
