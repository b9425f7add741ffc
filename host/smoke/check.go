package smoke

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Check is a [[check]] of a file.
type Check struct {
	// Name is the name in reports; never "".
	Name string
	// Line and Column are where the check begins, from 1.
	Line, Column int
	// Server is the upstream whose handshake and lists are checked; "" for a check of a call.
	Server string
	// Call is the public name of the tool; "" if Code gives the name.
	Call string
	// Code is the script to run; the zero value for none.
	Code  Code
	place func(path string) regular.Place // of the file
	// Params are the arguments, and Meta is the _meta of the request: raw JSON objects.
	// Meta may be nil.
	Params, Meta []byte
	// Mock answers the script's calls. Without a Mock, the upstreams answer.
	Mock *Mock
	// Timeout limits the check; 0 means the timeout of the file.
	Timeout time.Duration
	// CancelAfter is when the call is cancelled; 0 means never.
	CancelAfter time.Duration
	// Approve is the decision of a person about calls for which policy says "ask": "allow" or
	// "deny"; "" if the check does not expect the question.
	Approve string
	// Skip is why the check is skipped; "" for a check that runs.
	Skip string
	// Phase is the time of the check, Tags are the tags of the check and its file, and Row is the
	// number of its row, from 1; 0 for none.
	Phase Phase
	Tags  []string
	Row   int

	captures []capture
	retry    retry
	needs    []string       // the captured values in its references
	uses     map[string]int // the number of references to each value
	from     *source

	number int // among the tables of its phase, from 1
	wants  []want
	within time.Duration // of cancelled_within

	schemas  []string // files with JSON Schemas
	refused  bool     // policy has to ask for the call or deny the call
	snapshot *snapshot
	ignored  []pointer // of snapshot_ignore
}

// Code says where a script is.
type Code struct {
	Inline string // the script itself
	File   string // path of a script, or of a definition in a .json file
	Saved  string // name of a saved tool
}

// none reports whether c has no script.
func (c Code) none() bool { return c == Code{} }

// label returns the name of the check in messages about the file.
func (c *Check) label() string { return fmt.Sprintf("%s %q", c.Phase.key(), c.Name) }

// has reports whether the check has an expectation with any of the keys.
func (c *Check) has(keys ...string) bool {
	for _, w := range c.wants {
		for _, k := range keys {
			if w.key == k {
				return true
			}
		}
	}
	return false
}

var checkAliases = map[string]string{
	"tool": "call", "args": "params", "arguments": "params", "expected": "expect", "want": "expect", "script": "code",
	"mocks": "mock", "cassette": "mock", "upstream": "server", "title": "name", "description": "name", "tag": "tags",
	"captures": "capture", "approval": "approve", "extract": "capture", "retries": "retry", "row": "rows", "table": "rows", "data": "rows", "cases": "rows",
}

// readCheck reads a check from a table without references.
func (r *fileReader) readCheck(s *config.Section, c *Check) {
	r.check = c
	c.Code = r.code(s)
	if c.kind(s) == onServer {
		for _, key := range []string{"params", "meta", "mock", "cancel_after", "approve"} {
			if s.Has(key) {
				s.Problem(key, "has no meaning for the check of a server")
			}
		}
		s.Know("params", "meta", "mock", "cancel_after", "approve")
	} else {
		r.request(s, c)
	}
	s.Duration("timeout", &c.Timeout, minTime, maxTime)
	c.skip(s)
	c.readRetry(s)
	r.readCaptures(s, c)
	if e := s.Section("expect"); e != nil {
		r.expectations(e, c)
	}
	if c.CancelAfter > 0 && !c.has("cancelled_within") {
		c.wants = append(c.wants, want{key: "cancelled_within", line: c.Line, column: c.Column, match: cancelledWithin(defaultCancelled)})
	}
	if !s.Has("cancel_after") && c.has("cancelled_within") {
		s.Problem("expect.cancelled_within", "has no meaning without cancel_after (say when the call is cancelled)")
	}
	if c.snapshot != nil {
		c.snapshot.ignore = c.ignored
	} else if c.ignored != nil && s.Missing("expect.snapshot") == nil {
		s.Problem("expect.snapshot_ignore", "has no meaning without snapshot")
	}
	s.Close(checkAliases)
}

// kind returns the kind of the check. A check with no subject, or with too many, is reported.
func (c *Check) kind(s *config.Section) kinds {
	switch {
	case s.Has("server") && (s.Has("call") || s.Has("code")):
		s.Problem("server", "cannot be combined with call or code (make two checks of it)")
	case !s.Has("server") && !s.Has("call") && !s.Has("code"):
		s.Problem("", "has neither call nor code nor server (say what to check)")
	}
	for _, key := range []string{"server", "call"} {
		if text, ok := s.Verbatim(key); ok && text == "" {
			s.Problem(key, "is empty")
		}
	}
	if s.Has("server") {
		return onServer
	}
	return onCall
}

// request reads the tool and the arguments of a call.
func (r *fileReader) request(s *config.Section, c *Check) {
	if params := s.Object("params"); params != nil {
		c.Params = params
	}
	c.Meta = s.Object("meta")
	c.Mock = r.mock(s)
	s.Duration("cancel_after", &c.CancelAfter, minTime, maxTime)
	c.readApprove(s)
	if name := c.toolName(); !c.Code.none() && name != "" && tools.CheckName(name) != nil {
		s.Problem(cmp.Or(map[bool]string{true: "call"}[c.Call != ""], "code"),
			"%q cannot name a composite tool (use up to 64 letters, digits, _ and -)", name)
	}
}

// toolName returns the name of the check's script; "" if the definition in its file has the name.
func (c *Check) toolName() string {
	if c.Call != "" || c.Code.Saved != "" {
		return cmp.Or(c.Call, c.Code.Saved)
	}
	switch filepath.Ext(c.Code.File) {
	case ".json":
		return ""
	case "":
		return fmt.Sprintf("%s_%d", c.Phase.key(), c.number)
	}
	return strings.TrimSuffix(filepath.Base(c.Code.File), filepath.Ext(c.Code.File))
}

// code reads the reference to a script. A name with an extension is a file, text that cannot be a
// name is a script, and any other name is a saved tool.
func (r *fileReader) code(s *config.Section) Code {
	text, ok := s.Verbatim("code")
	switch ext := filepath.Ext(text); {
	case !ok:
	case strings.TrimSpace(text) == "":
		s.Problem("code", "is empty (name a script's file or a saved tool, or write the script)")
	case strings.Contains(text, "\n"):
		return Code{Inline: text}
	case ext == ".star" || ext == ".json":
		return Code{File: r.path(s, "code", text)}
	case strings.ContainsAny(text, " \t(="):
		return Code{Inline: text}
	case strings.ContainsAny(text, `/\`):
		return Code{File: r.path(s, "code", text)}
	case tools.CheckName(text) == nil:
		return Code{Saved: text}
	default:
		s.Problem("code", "%q is neither a file (NAME.star, NAME.json) nor the name of a saved tool nor a script", text)
	}
	return Code{}
}

// skip reads whether the check is skipped: true, or the reason.
func (c *Check) skip(s *config.Section) {
	if s.IsString("skip") {
		c.Skip, _ = s.String("skip")
		return
	}
	skip := false
	s.Bool("skip", &skip)
	if skip {
		c.Skip = "its file says so"
	}
}

// hint suggests which of the known names was meant.
func hint(name string, known []string) string {
	if near := nearest.Names(name, known); near != nil {
		return " (did you mean " + strings.Join(near, ", ") + "?)"
	}
	if len(known) > 0 {
		return " (there are " + strings.Join(known, ", ") + ")"
	}
	return ""
}
