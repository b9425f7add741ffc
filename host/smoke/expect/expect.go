// Package expect compares the answer of a server or script with an expectation: raw JSON ([Equal],
// [Subset]), patterns ([Text], [Logs]), members of a CallToolResult, images, progress
// notifications, and the calls and limits of a run. The result is a [Mismatch], or nil if the
// expectation is met.
//
// Concurrent use of all functions is safe, and no function keeps its arguments. Raw JSON is read as
// most clients read JSON: of several members with the same name the last counts, and invalid UTF-8
// becomes U+FFFD.
package expect

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

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

// IsError compares the isError of a raw CallToolResult. A missing isError means false.
func IsError(want bool, result []byte) *Mismatch {
	flag, ok := wire.Get(result, "isError")
	got := string(flag) == "true"
	switch {
	case ok && !got && string(flag) != "false":
		return &Mismatch{Path: "$.isError", Message: "isError is neither true nor false", Got: display.ClipSize(string(flag), maxShown)}
	case got == want:
		return nil
	case got:
		return &Mismatch{Path: "$.isError", Message: "the result is an error", Want: "no error", Got: display.ClipSize(strings.Join(Texts(result), "\n"), maxShown)}
	}
	return &Mismatch{Path: "$.isError", Message: "the result is not an error", Want: "an error", Got: display.ClipSize(strings.Join(Texts(result), "\n"), maxShown)}
}

// Meta requires that the _meta of a raw CallToolResult (or of any object) contains want, as in
// Subset.
func Meta(want, result []byte) *Mismatch {
	meta, ok := wire.Get(result, "_meta")
	if !ok {
		return &Mismatch{Path: "$._meta", Message: "there is no _meta", Want: display.ClipSize(string(want), maxShown)}
	}
	m := Subset(want, meta)
	if m != nil && m.Path != "" {
		m.Path = "$._meta" + strings.TrimPrefix(m.Path, "$")
	}
	return m
}

// maxViolations is how many violations of a schema are shown.
const maxViolations = 10

// maxSchemaWork limits the work of validation, in units; the limit is some seconds of work.
const maxSchemaWork = 5_000_000_000

// Schema requires that a raw JSON value is valid; see tools.CompileSchema.
func Schema(want *tools.Schema, got []byte) *Mismatch {
	err := want.Validate(got, tools.AtMost(maxSchemaWork))
	if err == nil {
		return nil
	}
	m := &Mismatch{Message: display.ClipSize(err.Error(), maxShown), Got: display.ClipSize(string(got), maxShown)}
	var v *tools.ValidationError
	if !errors.As(err, &v) {
		return m
	}
	m.Path = pointerPath(v.Violations[0].Pointer)
	m.Message = "does not match the schema: " + display.ClipSize(v.Violations[0].Message, maxShown)
	if n := len(v.Violations); n > 1 {
		var lines []string
		for _, violation := range v.Violations[:min(n, maxViolations)] {
			lines = append(lines, display.ClipSize(pointerPath(violation.Pointer)+": "+violation.Message, maxDiffLine))
		}
		if n > maxViolations {
			lines = append(lines, fmt.Sprintf("and %d more", n-maxViolations))
		}
		m.Message += fmt.Sprintf(" (the first of %d violations)", n)
		m.Want = "no violations of the schema"
		m.Got = strings.Join(lines, "\n")
	}
	return m
}

// pointerPath returns a JSON pointer (RFC 6901) as a path. A token in the form of an index counts
// as an index.
func pointerPath(pointer string) string {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	var steps []any
	for i, name := range strings.Split(pointer, "/") {
		if i == 0 { // before the first slash
			continue
		}
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			steps = append(steps, n)
		} else {
			steps = append(steps, unescape.Replace(name))
		}
	}
	return pathOf(steps)
}

// Calls requires exactly these calls ("server.tool") in this order.
func Calls(want, got []string) *Mismatch {
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	m := &Mismatch{Path: fmt.Sprintf("$[%d]", at)}
	switch {
	case at == len(want) && at == len(got):
		return nil
	case at == len(got):
		m.Message, m.Want = "the call is not made", display.ClipSize(want[at], maxShown)
	case at == len(want):
		m.Message, m.Got = "the call is not expected", display.ClipSize(got[at], maxShown)
	default:
		m.Message, m.Want, m.Got = "another call", display.ClipSize(want[at], maxShown), display.ClipSize(got[at], maxShown)
	}
	if len(want) > 1 || len(got) > 1 {
		m.Diff = diffLines([]byte(strings.Join(want, "\n")), []byte(strings.Join(got, "\n")))
	}
	return m
}

// Names requires that got contains all the wanted names. kind ("tool") is the noun for them.
func Names(kind string, want, got []string) *Mismatch {
	var missing []string
	for _, name := range want {
		if !slices.Contains(got, name) {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return nil
	}
	m := &Mismatch{
		Message: fmt.Sprintf("there is no %s %q", kind, display.ClipSize(missing[0], maxName)),
		Want:    display.ClipSize(strings.Join(want, ", "), maxShown), Got: display.ClipSize(strings.Join(got, ", "), maxShown),
	}
	if near := nearest.Names(missing[0], got); len(near) > 0 {
		m.Message += fmt.Sprintf(", only %q", display.ClipSize(near[0], maxName))
	}
	if n := len(missing) - 1; n > 0 {
		m.Message += fmt.Sprintf(" (and %d more of those wanted)", n)
	}
	return m
}

// ErrorType compares the error class of a run: "" is success. message is the message of the
// actual error.
func ErrorType(want, got, message string) *Mismatch {
	switch {
	case want == got:
		return nil
	case want == "":
		return &Mismatch{Message: "the run failed", Want: "success", Got: display.ClipSize(got+": "+message, maxShown)}
	case got == "":
		return &Mismatch{Message: "the run did not fail", Want: display.ClipSize(want, maxShown), Got: "success"}
	}
	return &Mismatch{Message: "the run failed in another way", Want: display.ClipSize(want, maxShown), Got: display.ClipSize(got+": "+message, maxShown)}
}

// Fuel requires that at most so many units of fuel were used.
func Fuel(most, got uint64) *Mismatch {
	return ceiling("fuel", most, got, func(n uint64) string { return fmt.Sprintf("%d units", n) })
}

// Memory requires a peak of at most so many bytes.
func Memory(most, got uint64) *Mismatch {
	return ceiling("memory", most, got, units.FormatSize)
}

// Duration requires a duration of at most so long.
func Duration(most, got time.Duration) *Mismatch {
	return ceiling("duration", most, got, units.FormatDuration)
}

func ceiling[N uint64 | time.Duration](quantity string, most, got N, format func(N) string) *Mismatch {
	if got <= most {
		return nil
	}
	return &Mismatch{Message: "more " + quantity + " than allowed", Want: "at most " + format(most), Got: format(got)}
}

// Progress requires at least atLeast progress notifications of a call, given as raw params in
// order. The progress must increase (MCP 2025-11-25, basic, utilities, progress) and must not
// exceed the total, the total must not decrease, and all must have the same token.
func Progress(atLeast int, params [][]byte) *Mismatch {
	if len(params) < atLeast {
		return &Mismatch{
			Message: "too few progress notifications",
			Want:    fmt.Sprintf("at least %d", atLeast), Got: fmt.Sprint(len(params)),
		}
	}
	var last advance
	for i, raw := range params {
		now, m := readAdvance(raw)
		if m == nil && i > 0 {
			m = now.follows(last)
		}
		if m != nil {
			m.Path = fmt.Sprintf("$[%d]%s", i, m.Path)
			return m
		}
		last = now
	}
	return nil
}

// advance is a progress notification; total is "" if absent.
type advance struct {
	token           any
	progress, total string
}

func readAdvance(raw []byte) (advance, *Mismatch) {
	v, err := jsonvalue.Decode(raw)
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return advance{}, &Mismatch{Message: "the params of a progress notification are not a JSON object", Got: display.ClipSize(string(raw), maxShown)}
	}
	var a advance
	progress, ok := params["progress"].(json.Number)
	if !ok {
		return a, &Mismatch{Path: ".progress", Message: "progress is not a number", Got: display.ClipSize(string(raw), maxShown)}
	}
	a.token, a.progress = params["progressToken"], progress.String()
	if total, has := params["total"]; has {
		n, ok := total.(json.Number)
		if !ok {
			return a, &Mismatch{Path: ".total", Message: "total is not a number", Got: Show(total)}
		}
		if a.total = n.String(); compareNumbers(a.progress, a.total) > 0 {
			return a, &Mismatch{Path: ".progress", Message: "progress exceeds the total", Want: "at most " + display.ClipSize(a.total, maxName), Got: display.ClipSize(a.progress, maxName)}
		}
	}
	return a, nil
}

// follows requires that a is an advance over last.
func (a advance) follows(last advance) *Mismatch {
	switch {
	case len(Differences(last.token, a.token, false)) > 0:
		return &Mismatch{Path: ".progressToken", Message: "the token is a different one", Want: Show(last.token), Got: Show(a.token)}
	case compareNumbers(a.progress, last.progress) <= 0:
		return &Mismatch{Path: ".progress", Message: "progress does not increase", Want: "more than " + display.ClipSize(last.progress, maxName), Got: display.ClipSize(a.progress, maxName)}
	case last.total != "" && a.total != "" && compareNumbers(a.total, last.total) < 0:
		return &Mismatch{Path: ".total", Message: "the total decreases", Want: "at least " + display.ClipSize(last.total, maxName), Got: display.ClipSize(a.total, maxName)}
	}
	return nil
}
