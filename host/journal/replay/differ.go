package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Difference is a difference between a replay and the record.
type Difference struct {
	// In is the call of the saved tool with the differing run, for example "call 3 (tools.x)"; ""
	// for the run itself.
	In string `json:"in,omitempty"`
	// What is the differing part: "call 3", "log 2", "undo 1", "compensation 1", "result",
	// "failure", "outcome", "fuel", "memory".
	What string `json:"what"`
	// Message describes the difference.
	Message string `json:"message"`
	// Diff is a unified diff of readable JSON or text; "" if Message is enough.
	Diff string `json:"diff,omitempty"`
	// Position is the position in the script, nil if unknown.
	Position *abi.Position `json:"position,omitempty"`
}

// Limits of the shown text.
const (
	maxDifferences = 100
	maxDiffInput   = 1 << 20 // bytes of each side
	maxDiffLines   = 200
	maxDiffLine    = 400 // bytes
	maxShort       = 200 // bytes of a value in a message
)

// unified returns the unified diff of two texts.
func unified(recorded, replayed string) string {
	return unifiedAs("recorded", recorded, "replayed", replayed)
}

// unifiedAs is unified with other names.
func unifiedAs(nameA, a, nameB, b string) string {
	if len(a) > maxDiffInput || len(b) > maxDiffInput {
		return fmt.Sprintf("(%d and %d bytes, too many for a diff; the first that differs is number %d)\n",
			len(a), len(b), 1+commonPrefix(a, b))
	}
	line := func(s string) []byte {
		if s == "" {
			return nil
		}
		return []byte(strings.TrimSuffix(s, "\n") + "\n")
	}
	text := diff.Diff(nameA, line(a), nameB, line(b))
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) < 2 {
		return ""
	}
	var out strings.Builder
	for i, l := range lines[1:] { // without the line "diff recorded replayed"
		if i == maxDiffLines {
			fmt.Fprintf(&out, "(%d lines more)\n", len(lines)-1-i)
			break
		}
		out.WriteString(display.ClipSize(l, maxDiffLine) + "\n")
	}
	return out.String()
}

// commonPrefix returns the length of the common prefix of two texts, in bytes.
func commonPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// pretty indents JSON. Numbers and the order of members stay as they are, and so does
// invalid JSON.
func pretty(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// differJSON returns the difference between two JSON values.
func differJSON(what string, recorded, replayed []byte) Difference {
	d := Difference{What: what, Message: "differs", Diff: unified(pretty(recorded), pretty(replayed))}
	if d.Diff == "" {
		d.Message = fmt.Sprintf("is the same JSON, written differently: recorded %s, replayed %s",
			display.ClipSize(string(recorded), maxShort), display.ClipSize(string(replayed), maxShort))
	}
	return d
}

// callText formats a call in the syntax of scripts, on several lines.
func callText(c abi.ToolCall) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", callName(c))
	for _, flag := range []struct {
		name string
		set  bool
	}{{"exact", c.Exact}, {"raw", c.Raw}} {
		if flag.set {
			fmt.Fprintf(&b, "%s: true\n", flag.name)
		}
	}
	if c.Timeout != 0 {
		fmt.Fprintf(&b, "timeout: %v\n", c.Timeout)
	}
	if len(c.Meta) > 0 {
		fmt.Fprintf(&b, "meta: %s\n", pretty(c.Meta))
	}
	fmt.Fprintf(&b, "arguments: %s\n", pretty(c.Arguments))
	return b.String()
}

func callName(c abi.ToolCall) string { return c.Server + "." + c.Tool }

// callLine formats a call on a line.
func callLine(c abi.ToolCall) string {
	return fmt.Sprintf("%s(%s)", callName(c), display.ClipSize(string(c.Arguments), maxShort))
}

// callWithOptions formats a complete call on one line, with the options that affect the server or
// the answer.
func callWithOptions(c abi.ToolCall) string {
	line := callName(c)
	if c.Raw {
		line += ".raw"
	}
	line += "(" + string(c.Arguments) + ")"
	if c.Timeout != 0 {
		line += fmt.Sprintf(", timeout %v s", c.Timeout)
	}
	if len(c.Meta) > 0 {
		line += ", meta " + string(c.Meta)
	}
	return line
}

// differCall returns the difference between two calls.
func differCall(what string, recorded, replayed abi.ToolCall) Difference {
	d := Difference{What: what, Diff: unified(callText(recorded), callText(replayed))}
	switch {
	case callName(recorded) != callName(replayed):
		d.Message = fmt.Sprintf("is of %s, recorded was %s", callName(replayed), callName(recorded))
	case d.Diff == "":
		d.Message = fmt.Sprintf("of %s has the same arguments, written differently: recorded %s, replayed %s", callName(replayed),
			display.ClipSize(string(recorded.Arguments), maxShort), display.ClipSize(string(replayed.Arguments), maxShort))
	case !bytes.Equal(recorded.Arguments, replayed.Arguments):
		d.Message = "of " + callName(replayed) + " has other arguments"
	default:
		d.Message = "of " + callName(replayed) + " is made with other options"
	}
	return d
}

// levels are the names of log levels.
var levels = map[abi.LogLevel]string{abi.LogInfo: "info", abi.LogWarn: "warning", abi.LogError: "error"}

func logLine(level abi.LogLevel, text string) string { return levels[level] + ": " + text }
