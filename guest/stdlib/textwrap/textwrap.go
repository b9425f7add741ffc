// Package textwrap is Python's module textwrap.
package textwrap

import (
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/re"
)

// Module returns the module textwrap.
func Module() *stdlib.Module {
	return &stdlib.Module{Name: "textwrap", Members: stdlib.Funcs(map[string]stdlib.Func{
		"dedent": dedent, "indent": indent, "wrap": wrap, "fill": wrap, "shorten": shorten,
	})}
}

func blank(line string) bool { return strings.Trim(line, " \t") == "" }

func dedent(c *stdlib.Call) (starlark.Value, error) {
	var text string
	if err := c.Unpack("text", &text); err != nil {
		return nil, err
	}
	lines := strings.Split(text, "\n")
	margin, found := "", false
	for i, line := range lines {
		if blank(line) {
			lines[i] = ""
			continue
		}
		own := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if !found {
			margin, found = own, true
			continue
		}
		n := 0
		for n < len(margin) && n < len(own) && margin[n] == own[n] {
			n++
		}
		margin = margin[:n]
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, margin)
	}
	return starlark.String(strings.Join(lines, "\n")), nil
}

func indent(c *stdlib.Call) (starlark.Value, error) {
	var text, prefix string
	var predicate starlark.Value
	if err := c.Unpack("text", &text, "prefix", &prefix, "predicate??", &predicate); err != nil {
		return nil, err
	}
	out := c.Env().NewOutput()
	for rest := text; rest != ""; {
		line := rest
		if n := lineEnd(rest); n > 0 {
			line = rest[:n]
		}
		rest = rest[len(line):]
		with := strings.TrimSpace(line) != ""
		if predicate != nil {
			v, err := c.Call(predicate, starlark.String(line))
			if err != nil {
				return nil, err
			}
			with = bool(v.Truth())
		}
		if with {
			line = prefix + line
		}
		if err := out.WriteString(line); err != nil {
			return nil, err
		}
	}
	return starlark.String(out.String()), nil
}

// lineEnd returns the length of the first line with the line end, 0 for the last line.
func lineEnd(s string) int {
	for i, r := range s {
		switch r {
		case '\r':
			if strings.HasPrefix(s[i:], "\r\n") {
				return i + 2
			}
			return i + 1
		case '\n', '\v', '\f', 0x1c, 0x1d, 0x1e:
			return i + 1
		case 0x85:
			return i + 2
		case 0x2028, 0x2029:
			return i + 3
		}
	}
	return 0
}

// wrapper has the options of a TextWrapper.
type wrapper struct {
	width                                          int
	first, rest, placeholder                       string
	expand, replace, drop, breakLong, breakHyphens bool
	tab, most                                      int // most is negative for no limit
}

// parts split text, as in Python: at white space, and words at hyphens.
const (
	whitespace = `[\t\n\x0b\x0c\r ]`
	word       = `[\w!"'&.,?]`
	letter     = `[^\d\W]`
	parts      = `(` + whitespace + `+|(?<=` + word + `)-{2,}(?=\w)|[^\t\n\x0b\x0c\r ]+?(?:-(?:(?<=` + letter + `{2}-)|(?<=` + letter + `-` + letter + `-))(?=` + letter + `-?` + letter + `)|(?=` + whitespace + `|\Z)|(?<=` + word + `)(?=-{2,}\w)))`
	simple     = `(` + whitespace + `+)`
)

func newWrapper() *wrapper {
	return &wrapper{width: 70, placeholder: " [...]", expand: true, replace: true, drop: true, breakLong: true, breakHyphens: true, tab: 8, most: -1}
}

func (w *wrapper) unpack(c *stdlib.Call, text *string, fixEndings *bool) error {
	var most starlark.Value
	err := c.Unpack("text", text, "width?", &w.width, "*", nil, "initial_indent?", &w.first, "subsequent_indent?", &w.rest,
		"expand_tabs?", &w.expand, "replace_whitespace?", &w.replace, "fix_sentence_endings?", fixEndings,
		"break_long_words?", &w.breakLong, "drop_whitespace?", &w.drop, "break_on_hyphens?", &w.breakHyphens,
		"tabsize?", &w.tab, "max_lines??", &most, "placeholder?", &w.placeholder)
	if err == nil && most != nil {
		w.most, err = stdlib.Int(most)
	}
	return err
}

// wrap is also fill.
func wrap(c *stdlib.Call) (starlark.Value, error) {
	w := newWrapper()
	var text string
	fix := false
	if err := w.unpack(c, &text, &fix); err != nil {
		return nil, err
	}
	if fix {
		return nil, c.Errorf(stdlib.ValueError, "fix_sentence_endings is not supported")
	}
	lines, err := w.lines(c, text)
	if err != nil {
		return nil, err
	}
	if c.Name == "fill" {
		return starlark.String(strings.Join(lines, "\n")), nil
	}
	out := c.Env().NewValues()
	for _, line := range lines {
		if err := out.Add(starlark.String(line)); err != nil {
			return nil, err
		}
	}
	return out.Value(), nil
}

func shorten(c *stdlib.Call) (starlark.Value, error) {
	w := newWrapper()
	var text string
	fix := false
	if err := w.unpack(c, &text, &fix); err != nil {
		return nil, err
	}
	w.most = 1
	lines, err := w.lines(c, strings.Join(strings.Fields(strings.TrimSpace(text)), " "))
	return starlark.String(strings.Join(lines, "\n")), err
}

// chunks splits text into words and white space.
func (w *wrapper) chunks(text string) ([]string, error) {
	if w.expand {
		text = expandTabs(text, w.tab)
	}
	if w.replace {
		text = strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ", "\r", " ").Replace(text)
	}
	pattern := parts
	if !w.breakHyphens {
		pattern = simple
	}
	p, err := re.Compile(pattern, 0)
	if err != nil {
		return nil, err
	}
	var out []string
	last := 0
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	err = re.NewSearcher(p, text, 0).All(0, func(m *re.Match) (bool, error) {
		add(text[last:m.Spans[0]])
		add(text[m.Spans[0]:m.Spans[1]])
		last = m.Spans[1]
		return true, nil
	})
	add(text[last:])
	return out, err
}

func expandTabs(text string, size int) string {
	if !strings.Contains(text, "\t") {
		return text
	}
	var b strings.Builder
	column := 0
	for _, r := range text {
		switch r {
		case '\t':
			for n := size; size > 0 && n > column%size; n-- {
				b.WriteByte(' ')
			}
			column = 0
			continue
		case '\n', '\r':
			column = -1
		}
		b.WriteRune(r)
		column++
	}
	return b.String()
}

func length(s string) int { return utf8.RuneCountInString(s) }

// longer reports whether a text has more than n characters.
func longer(s string, n int) bool {
	return n < 0 || len(s) > utf8.UTFMax*n || len(s) > n && length(s) > n
}

func total(chunks []string) (n int) {
	for _, c := range chunks {
		n += length(c)
	}
	return n
}

func isSpace(s string) bool { return strings.TrimSpace(s) == "" }

// lines is TextWrapper.wrap.
func (w *wrapper) lines(c *stdlib.Call, text string) ([]string, error) {
	if w.tab > 1000 || w.tab < 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "tabsize must be between 0 and 1000")
	}
	chunks, err := w.chunks(text)
	if err != nil {
		return nil, err
	}
	if w.width <= 0 {
		return nil, stdlib.Errorf(stdlib.ValueError, "invalid width %d (must be > 0)", w.width)
	}
	if w.most >= 0 {
		indent := w.first
		if w.most > 1 {
			indent = w.rest
		}
		if length(indent)+length(strings.TrimLeft(w.placeholder, " \t\n\r\v\f")) > w.width {
			return nil, stdlib.Errorf(stdlib.ValueError, "placeholder too large for max width")
		}
	}
	var lines []string
	size := 0
	for len(chunks) > 0 {
		indent := w.rest
		if len(lines) == 0 {
			indent = w.first
		}
		if w.drop && len(lines) > 0 && isSpace(chunks[0]) {
			chunks = chunks[1:]
		}
		var line []string
		line, chunks = w.take(chunks, w.width-length(indent))
		if w.drop && len(line) > 0 && isSpace(line[len(line)-1]) {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		end := len(chunks) == 0 || w.drop && len(chunks) == 1 && isSpace(chunks[0])
		if w.most >= 0 && len(lines)+1 >= w.most && !(end && total(line) <= w.width-length(indent)) && !(len(lines)+1 < w.most) {
			return w.cut(lines, line, indent), nil
		}
		text := indent + strings.Join(line, "")
		if size += len(text); size > 4096 {
			if err := c.Env().Charge(2 * size); err != nil {
				return nil, err
			}
		}
		lines = append(lines, text)
	}
	return lines, nil
}

// take returns the chunks fitting in a line, and the rest.
func (w *wrapper) take(chunks []string, width int) (line, rest []string) {
	used := 0
	for len(chunks) > 0 && !longer(chunks[0], width-used) {
		used += length(chunks[0])
		line = append(line, chunks[0])
		chunks = chunks[1:]
	}
	if len(chunks) == 0 || !longer(chunks[0], width) {
		return line, chunks
	}
	// A word longer than a line.
	space := width - used
	if width < 1 {
		space = 1
	}
	if !w.breakLong {
		if len(line) == 0 {
			return chunks[:1], chunks[1:]
		}
		return line, chunks
	}
	word := chunks[0]
	end := 0 // of the fitting part, in bytes
	for i := range word {
		if space <= 0 {
			break
		}
		space--
		end = i + 1
		for end < len(word) && !utf8.RuneStart(word[end]) {
			end++
		}
	}
	if hyphen := strings.LastIndexByte(word[:end], '-'); w.breakHyphens && hyphen > 0 && strings.Trim(word[:hyphen], "-") != "" {
		end = hyphen + 1
	}
	line = append(line, word[:end])
	if chunks[0] = word[end:]; chunks[0] == "" {
		chunks = chunks[1:] // where the indent is too long, Python goes on for ever
	}
	return line, chunks
}

// cut returns the lines with the placeholder in the last line.
func (w *wrapper) cut(lines, line []string, indent string) []string {
	for len(line) > 0 {
		if !isSpace(line[len(line)-1]) && total(line)+length(w.placeholder) <= w.width-length(indent) {
			return append(lines, indent+strings.Join(line, "")+w.placeholder)
		}
		line = line[:len(line)-1]
	}
	if n := len(lines); n > 0 {
		before := strings.TrimRight(lines[n-1], " \t\n\r\v\f")
		if length(before)+length(w.placeholder) <= w.width {
			lines[n-1] = before + w.placeholder
			return lines
		}
	}
	return append(lines, indent+strings.TrimLeft(w.placeholder, " \t\n\r\v\f"))
}
