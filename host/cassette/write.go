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

	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const heading = "# Answers of tools, for tests without the tools.\n"

// Write writes the interactions to a file, as Format has them, all or nothing. A
// new file is for its owner alone: answers can be private. A file that is there is
// only replaced if it is empty or a cassette with something in it; errors are
// [ErrForeign] or those of the file system.
func (c *Cassette) Write(ctx context.Context, at regular.Place) error {
	err := replaceable(ctx, at)
	if err == nil {
		err = at.Replace(c.Format(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("cassette %s is not written: %w", at, err)
	}
	return nil
}

// ErrForeign is wrapped by the error of Write if the file is not a cassette.
var ErrForeign = errors.New("there is a file that is no cassette (move it away, or give the cassette another name)")

// replaceable is why what is at a place must not be replaced, nil if it may.
func replaceable(ctx context.Context, at regular.Place) error {
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
	// A file of nothing but comments parses as well.
	if len(data) > 0 && len(old.Interactions()) == 0 && !bytes.HasPrefix(data, []byte(heading)) {
		return ErrForeign
	}
	return nil
}

// Format is the text of a file with the interactions, the same text for the same
// interactions. Reading it gives them again, except for space in JSON and for
// text that is not UTF-8.
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

// commonTimes is the limit that all interactions have; 0 when they have none, or
// not the same.
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

// plainText is the text of a CallToolResult that has nothing else, and is as we
// would write it.
func plainText(result []byte, isError bool) (string, bool) {
	var r callResult
	if json.Unmarshal(result, &r) != nil || len(r.Content) != 1 || r.IsError != isError {
		return "", false
	}
	text := r.Content[0].Text
	again := wire.Marshal(callResult{Content: textOf(text), IsError: isError})
	return text, expect.Equal(again, result) == nil && !strings.ContainsRune(text, utf8.RuneError)
}

// maxLine is how long JSON text may be that is written on one line, in bytes.
const maxLine = 80

// writeJSON writes JSON text for people to read.
func writeJSON(b *bytes.Buffer, key string, raw []byte) {
	raw = printable(compact(raw))
	var pretty bytes.Buffer
	if len(raw) <= maxLine {
		writeKey(b, key, string(raw))
	} else if json.Indent(&pretty, raw, "", "  ") != nil || pretty.Len() > 8*len(raw) {
		writeKey(b, key, string(raw)) // nested very deep
	} else {
		writeKey(b, key, pretty.String()+"\n")
	}
}

// printable is valid JSON as it can stand in a literal string: UTF-8 without
// control characters, and no three quotes.
func printable(raw []byte) []byte {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	raw = bytes.ReplaceAll(raw, []byte("\x7f"), []byte(`\u007f`))
	return bytes.ReplaceAll(raw, []byte("'''"), []byte(`''\u0027`))
}

// writeKey writes a string under a key, on lines of its own if it has several.
func writeKey(b *bytes.Buffer, key, text string) {
	text = strings.ToValidUTF8(text, "\uFFFD")
	b.WriteString(key + " = ")
	if literal(text, true) && strings.Contains(text, "\n") {
		b.WriteString("'''\n" + text + "'''\n")
		return
	}
	b.WriteString(oneLine(text) + "\n")
}

// literal tells whether text can stand between ”' as it is or, if it has no
// more than one line, between '.
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

// oneLine is a TOML string on one line.
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
