// Package display prepares text from servers, scripts and files for terminals, logs and error
// messages, and formats sizes and times for people.
//
// Text, OneLine, Line, Excerpt, Escape, EscapeLine and Writer make text safe. Clip, ClipSize, Head
// and Summary only make text shorter. Table, Wrap and Cut lay out text in the columns of a
// terminal. All functions are safe for concurrent use.
package display

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text makes text safe for a terminal or a page: control and formatting characters, including
// overrides of the direction of text, and Unicode's separators of lines and paragraphs, become
// U+FFFD. Line breaks and tabs stay.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.In(r, unicode.C, unicode.Zl, unicode.Zp) {
			return r
		}
		return utf8.RuneError
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n"))
}

// OneLine makes text safe like [Text] and joins the lines, with single spaces as white space.
func OneLine(text string) string { return Text(strings.Join(strings.Fields(text), " ")) }

// Size formats a number of bytes.
func Size(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// Line returns text as by [Text] on one line of at most n characters, with "…" as the last one if
// text is longer. Line reads at most 16 bytes per character, so long texts are cheap.
func Line(text string, n int) string {
	cut := len(text) > 16*n
	if cut {
		text = text[:16*n]
	}
	text = strings.Join(strings.Fields(Text(text)), " ")
	if count := utf8.RuneCountInString(text); count > n || cut && count == n {
		return string([]rune(text)[:n-1]) + "…"
	}
	if cut {
		return text + "…"
	}
	return text
}

// Excerpt returns at most the first n bytes of text on one line, safe as by [Text], with "..."
// after them if text is longer. Excerpt is for logs and error messages.
func Excerpt(text string, n int) string {
	if len(text) > n {
		text = Head(text, n) + "..."
	}
	return strings.ReplaceAll(Text(text), "\n", " ")
}

// Clip shortens text to at most n bytes, in whole characters, and appends "…" to a longer text.
// Clip does not make text safe.
func Clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return Head(text, n) + "…"
}

// ClipSize is like [Clip], but also appends the size of a longer text.
func ClipSize(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return fmt.Sprintf("%s (%d bytes)", Clip(text, n), len(text))
}

// Head returns at most the first n bytes of text, in whole characters. Head does not make text
// safe.
func Head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// Summary returns the beginning of text, with single spaces as white space. A text of more than n
// characters is cut at the end of a word and "..." is appended. Summary does not make text safe.
func Summary(text string, n int) string {
	text = text[:min(len(text), 16*n)] // a long text need not be read to the end
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	cut := string([]rune(text)[:n])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:.") + "..."
}

// Escape makes text safe like [Text], but shows the replaced characters: control characters,
// bidirectional overrides and invalid UTF-8 become escapes such as \x1b. Newlines and tabs stay; a
// carriage return before a newline is dropped.
func Escape(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case Harmless(r):
			b.WriteRune(r)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// EscapeLine is like [Escape], but returns a single line: newlines become \n, and tabs spaces.
func EscapeLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Escape(s))
}

// isPlain reports whether a text consists of printable ASCII, newlines and tabs.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// Harmless reports whether Escape leaves a character unchanged. The zero-width joiner, which
// combines several emoji, is harmless.
func Harmless(r rune) bool {
	const joiner = '\u200d'
	return r == '\n' || r == '\t' || r == joiner || strconv.IsGraphic(r)
}

// Style is how text looks on a terminal with colours.
type Style int

// The styles. Good, Caution and Bad are for states.
const (
	Plain Style = iota
	Bold
	Faint
	Good
	Caution
	Bad
	Added   // in a diff
	Removed // in a diff
)

// codes are the parameters of the escape sequence SGR (ECMA-48).
var codes = [...]string{Plain: "", Bold: "1", Faint: "2", Good: "32", Caution: "33", Bad: "31", Added: "32", Removed: "31"}

// Apply returns text between the escape sequences of a style. text should be safe, see
// [Text].
func (s Style) Apply(text string) string {
	if s == Plain || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", codes[s], text)
}

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// UseColor reports whether to use colours on a file. mode is one of ColorAuto, ColorAlways and
// ColorNever. With ColorAuto, the environment decides (https://no-color.org,
// https://bixense.com/clicolors), or else whether the file is a terminal.
func UseColor(mode string, terminal bool, getenv func(string) string) bool {
	forced := getenv("CLICOLOR_FORCE")
	switch {
	case mode == ColorAlways:
		return true
	case mode == ColorNever, getenv("NO_COLOR") != "":
		return false
	case forced != "" && forced != "0":
		return true
	}
	return terminal && getenv("TERM") != "dumb" && getenv("CLICOLOR") != "0"
}

// Time formats a time for people in the local time zone, with the offset, to the second or the
// millisecond. Records, JSON and texts for agents use UTC instead.
func Time(t time.Time, to time.Duration) string {
	layout := "2006-01-02 15:04:05 -07:00"
	if to < time.Second {
		layout = "2006-01-02 15:04:05.000 -07:00"
	}
	return t.Local().Format(layout)
}

// Writer writes foreign text to a terminal, made safe as by [Text], with any division into writes.
// A Writer is safe for concurrent use.
type Writer struct {
	mu   sync.Mutex
	to   io.Writer
	held []byte // an incomplete character, or a carriage return
}

// NewWriter returns a Writer to a terminal. Call Flush at the end.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Unwrap returns the terminal, for safe text with our own escapes, such as colours.
func (w *Writer) Unwrap() io.Writer { return w.to }

// Write implements io.Writer. The end of p may be held back until more is known.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.held, p...)
	n := whole(text)
	w.held = bytes.Clone(text[n:])
	if _, err := io.WriteString(w.to, Text(string(text[:n]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes the text held back.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err := io.WriteString(w.to, Text(string(w.held)))
	w.held = nil
	return err
}

// whole returns the length of the part of text independent of the following bytes.
func whole(text []byte) int {
	n := len(text)
	if n > 0 && text[n-1] == '\r' { // possibly the first half of a line break
		return n - 1
	}
	for back := 1; back < utf8.UTFMax && back <= n; back++ {
		if c := text[n-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(text[n-back:]) {
				return n - back
			}
			break
		}
	}
	return n
}
