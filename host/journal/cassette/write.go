package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const heading = "# Answers of tools, for tests without the tools.\n"

// Write writes the interactions to a file in the form of Format, atomically. Only the owner can
// read a new file, because answers can be private. Write replaces an existing file only if the file
// is empty or a cassette. The error wraps [ErrForeign] or comes from the file system.
func (c *Cassette) Write(ctx context.Context, at regular.Place) error {
	err := checkReplaceable(ctx, at)
	if err == nil {
		err = at.Replace(c.Format(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cassette %s is not written: %w", at, err)
	}
	return nil
}

// ErrForeign means that Write did not replace a file other than a cassette.
var ErrForeign = errors.New("the file exists and is not a cassette (move the file away, or give the cassette another name)")

// checkReplaceable returns an error if the file at a place must not be replaced.
func checkReplaceable(ctx context.Context, at regular.Place) error {
	data, err := at.Read(ctx, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	old, err := Parse(at.String(), data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	// A file with only comments parses too.
	if len(data) > 0 && len(old.Interactions()) == 0 && !bytes.HasPrefix(data, []byte(heading)) {
		return ErrForeign
	}
	return nil
}

// Format returns the text of a file with the interactions. The text is deterministic. Parsing the
// text returns the same interactions, except for white space in JSON and for invalid UTF-8.
func (c *Cassette) Format() []byte {
	var b bytes.Buffer
	b.WriteString(heading)
	times := c.commonTimes()
	if times > 0 {
		fmt.Fprintf(&b, "times = %d\n", times)
	}
	for n := range c.interactions {
		i := &c.interactions[n]
		fmt.Fprintf(&b, "\n[[%s]]\n", arrayKey)
		writeKey(&b, "tool", i.name())
		if i.Params != nil {
			writeJSON(&b, "params_json", i.Params)
		}
		if i.Match != "" && i.Match != Exact {
			writeKey(&b, "match", string(i.Match))
		}
		i.writeAnswer(&b)
		if i.Delay > 0 {
			writeKey(&b, "delay", units.FormatDuration(i.Delay))
		}
		if i.Times != times {
			fmt.Fprintf(&b, "times = %d\n", i.Times)
		}
	}
	return b.Bytes()
}

// commonTimes returns the common value of Times of all interactions, or 0.
func (c *Cassette) commonTimes() int {
	if len(c.interactions) == 0 {
		return 0
	}
	for n := range c.interactions {
		if c.interactions[n].Times != c.interactions[0].Times {
			return 0
		}
	}
	return c.interactions[0].Times
}

func (i *Interaction) writeAnswer(b *bytes.Buffer) {
	switch {
	case i.Returns != nil:
		writeJSON(b, "returns_json", i.Returns)
	case i.Denied != "":
		writeKey(b, "denied", i.Denied)
	case i.RPCError != nil:
		writeJSON(b, "error_json", i.RPCError)
	case i.Raises != nil && i.Raises.Details == nil:
		writeKey(b, "raises", i.Raises.Message)
	case i.Raises != nil:
		details := string(printable(compact(i.Raises.Details)))
		fmt.Fprintf(b, "raises = { message = %s, details_json = %s }\n", oneLine(i.Raises.Message), oneLine(details))
	default:
		if text, ok := plainText(i.Result, false); ok {
			writeKey(b, "text", text)
		} else if text, ok := plainText(i.Result, true); ok {
			writeKey(b, "raises", text)
		} else {
			writeJSON(b, "result_json", i.Result)
		}
	}
}

// plainText returns the text of a CallToolResult with nothing but the text.
func plainText(result []byte, isError bool) (string, bool) {
	var r callResult
	if jsonvalue.Unmarshal(result, &r) != nil || len(r.Content) != 1 || r.IsError != isError {
		return "", false
	}
	text := r.Content[0].Text
	again := wire.Marshal(callResult{Content: textBlocks(text), IsError: isError})
	return text, expect.Equal(again, result) == nil && !strings.ContainsRune(text, utf8.RuneError)
}

// maxLine is the maximum length of JSON text on a line, in bytes.
const maxLine = 80

// writeJSON writes JSON text in a readable form.
func writeJSON(b *bytes.Buffer, key string, raw []byte) {
	raw = printable(compact(raw))
	var pretty bytes.Buffer
	if len(raw) <= maxLine {
		writeKey(b, key, string(raw))
	} else if json.Indent(&pretty, raw, "", "  ") != nil || pretty.Len() > 8*len(raw) {
		writeKey(b, key, string(raw)) // nested very deeply
	} else {
		writeKey(b, key, pretty.String()+"\n")
	}
}

// printable returns valid JSON in a form suitable for a TOML literal string: UTF-8 without control
// characters and without three quotes in a row.
func printable(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	raw = bytes.ReplaceAll(raw, []byte("\x7f"), []byte(`\u007f`))
	return bytes.ReplaceAll(raw, []byte("'''"), []byte(`''\u0027`))
}

// writeKey writes a string under a key, as a multi-line string if the string has several lines.
func writeKey(b *bytes.Buffer, key, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	b.WriteString(key + " = ")
	if literal(text, true) && strings.Contains(text, "\n") {
		b.WriteString("'''\n" + text + "'''\n")
		return
	}
	b.WriteString(oneLine(text) + "\n")
}

// literal reports whether text can be a TOML literal string: a multi-line string between three
// single quotes if lines is set, otherwise a string between single quotes.
func literal(text string, lines bool) bool {
	for _, c := range text {
		if c == '\n' && lines || c == '\t' {
			continue
		}
		if c < ' ' || c == 0x7f {
			return false
		}
	}
	if lines {
		return !strings.Contains(text, "'''") && !strings.HasSuffix(text, "'")
	}
	return !strings.Contains(text, "'")
}

// oneLine returns text as a TOML string on one line.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.ContainsAny(text, `"\`) && literal(text, false) {
		return "'" + text + "'"
	}
	b := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c < ' ' || c == 0x7f:
			b = append(b, `\u00`...)
			if c < 0x10 {
				b = append(b, '0')
			}
			b = strconv.AppendInt(b, int64(c), 16)
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return string(append(b, '"'))
}
