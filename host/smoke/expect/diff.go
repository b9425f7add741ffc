package expect

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The limits of a shown Mismatch.
const (
	maxShown      = 500     // bytes of Want and of Got
	maxName       = 80      // bytes of a name in a path
	maxPath       = 500     // bytes of a path
	maxDiffLines  = 80      // lines of a diff
	maxDiffLine   = 240     // bytes of each line of a diff
	maxDiffString = 200     // bytes of a string in a diff of JSON
	maxDiffText   = 4 << 20 // bytes of each side; larger texts are not compared line by line
	maxDiffDepth  = 100     // levels of JSON in a diff
)

// Show returns a value of [jsonvalue.Decode] as compact JSON, clipped.
func Show(v any) string { return display.ClipSize(string(encode(v, "")), maxShown) }

// encode returns a value as JSON, with members sorted by name.
func encode(v any, indent string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return []byte(err.Error()) // nested deeper than encoding/json supports
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// diffValues returns the diff of two different values; "" if Want and Got show both completely, or
// if they are too large.
func diffValues(want, got any, subset bool) string {
	w, isText := want.(string)
	if g, ok := got.(string); ok && isText {
		return diffTexts(w, g)
	}
	if !nested(want) || !nested(got) || depth(want) > maxDiffDepth || depth(got) > maxDiffDepth {
		return ""
	}
	return diffLines(encode(shorten(want), "  "), encode(shorten(align(want, got, subset)), "  "))
}

// diffTexts returns the diff of two texts; "" if both are single lines.
func diffTexts(want, got string) string {
	if !strings.Contains(want, "\n") && !strings.Contains(got, "\n") {
		return ""
	}
	return diffLines([]byte(want), []byte(got))
}

// diffLines returns the clipped unified diff of two texts. A missing newline at the end is ignored.
func diffLines(want, got []byte) string {
	if len(want) > maxDiffText || len(got) > maxDiffText {
		return ""
	}
	ends := func(text []byte) []byte {
		return append(bytes.TrimSuffix(text[:len(text):len(text)], []byte("\n")), '\n')
	}
	text := diff.Diff("want", ends(want), "got", ends(got))
	if len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[1:] // without the line "diff want got"
	var b strings.Builder
	for i, line := range lines {
		if i == maxDiffLines {
			fmt.Fprintf(&b, "… (%d more lines)\n", len(lines)-i)
			break
		}
		b.WriteString(display.ClipSize(line, maxDiffLine))
		b.WriteByte('\n')
	}
	return b.String()
}

// nested reports whether a value contains other values.
func nested(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// depth returns how deep objects and arrays are nested, 0 for a scalar.
func depth(v any) int {
	deepest := -1
	switch v := v.(type) {
	case map[string]any:
		for _, sub := range v {
			deepest = max(deepest, depth(sub))
		}
	case []any:
		for _, sub := range v {
			deepest = max(deepest, depth(sub))
		}
	default:
		return 0
	}
	return max(deepest, 0) + 1
}

// align returns got in a form that is easy to compare with want: equal numbers are written as in
// want, and for a subset only members in want are left.
func align(want, got any, subset bool) any {
	switch g := got.(type) {
	case map[string]any:
		w, ok := want.(map[string]any)
		if !ok {
			return got
		}
		aligned := make(map[string]any, len(g))
		for name, sub := range g {
			if wanted, ok := w[name]; ok {
				aligned[name] = align(wanted, sub, subset)
			} else if !subset {
				aligned[name] = sub
			}
		}
		return aligned
	case []any:
		w, ok := want.([]any)
		if !ok {
			return got
		}
		aligned := make([]any, len(g))
		for i, sub := range g {
			if aligned[i] = sub; i < len(w) {
				aligned[i] = align(w[i], sub, subset)
			}
		}
		return aligned
	case json.Number:
		if sameScalar(want, got) {
			return want
		}
	}
	return got
}

// shorten shortens long strings so that different strings stay different.
func shorten(v any) any {
	switch v := v.(type) {
	case map[string]any:
		short := make(map[string]any, len(v))
		for name, sub := range v {
			short[name] = shorten(sub)
		}
		return short
	case []any:
		short := make([]any, len(v))
		for i, sub := range v {
			short[i] = shorten(sub)
		}
		return short
	case string:
		if len(v) > maxDiffString {
			sum := sha256.Sum256([]byte(v))
			return fmt.Sprintf("%s sha256:%x", display.ClipSize(v, maxDiffString), sum[:6])
		}
	}
	return v
}
