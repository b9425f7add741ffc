package pins

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Diff returns a unified diff of the pinned and the current definition, for people: a member on
// each line, and texts line by line. A line with invisible or misleading characters is quoted. Diff
// is empty if nothing differs.
func (f *Finding) Diff() string {
	return change.Diff("pinned", lines(f.was), "now", lines(f.is))
}

// lines returns a canonical definition with a member on each line; nil for none.
func lines(canonical []byte) []byte {
	v, err := jsonvalue.Decode(canonical)
	if err != nil {
		return nil
	}
	var b strings.Builder
	writeLines(&b, "", "", v)
	return []byte(b.String())
}

// writeLines writes a value whose lines begin with indent. name is the value's name, as shown.
func writeLines(b *strings.Builder, indent, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			deeper := indent
			if name != "" {
				fmt.Fprintf(b, "%s%s\n", indent, name)
				deeper += "  "
			}
			for _, member := range slices.Sorted(maps.Keys(v)) {
				writeLines(b, deeper, plainName(member)+":", v[member])
			}
			return
		}
	case []any:
		if slices.ContainsFunc(v, isLarge) {
			fmt.Fprintf(b, "%s%s\n", indent, name)
			for _, item := range v {
				writeLines(b, indent+"  ", "-", item)
			}
			return
		}
	case string:
		if strings.Contains(v, "\n") {
			fmt.Fprintf(b, "%s%s\n", indent, name)
			for line := range strings.SplitSeq(v, "\n") {
				if seen(line) && !strings.HasSuffix(line, " ") {
					fmt.Fprintf(b, "%s  | %s\n", indent, line)
				} else {
					fmt.Fprintf(b, "%s  %s\n", indent, strconv.QuoteToASCII(line))
				}
			}
			return
		}
		if !seen(v) {
			fmt.Fprintf(b, "%s%s %s\n", indent, name, strconv.QuoteToASCII(v))
			return
		}
	}
	fmt.Fprintf(b, "%s%s %s\n", indent, name, compact(v))
}

// seen reports whether people see every character of a line as the character is: no invisible
// character, no unusual white space, and no accent that usually belongs to the character before.
func seen(line string) bool {
	hidden := func(r rune) bool { return r != ' ' && (!display.Harmless(r) || unicode.IsSpace(r)) }
	return !strings.ContainsFunc(line, hidden) && norm.NFC.IsNormalString(line)
}

// isLarge reports whether an item of an array gets its own lines.
func isLarge(v any) bool {
	switch v := v.(type) {
	case map[string]any, []any:
		return true
	case string:
		return len(v) > 40 || !seen(v)
	}
	return false
}

// plainName returns a simple word unchanged, and any other name of a member as JSON.
func plainName(name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-$") == "" {
		return name
	}
	if !seen(name) {
		return strconv.QuoteToASCII(name)
	}
	quoted, _ := json.Marshal(name) // a string
	return string(quoted)
}
