package expect

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
