package smoke

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// maxSchema is the largest schema that is read from a file, in bytes.
const maxSchema = 4 << 20

// kinds are the kinds of checks to which an expectation applies.
type kinds int

const (
	onCall kinds = 1 << iota
	onServer
)

// want is an expectation of a check.
type want struct {
	key          string // without the prefix "expect."
	line, column int
	written      config.Span // where the value is in the file
	match        matcher
	update       updater // nil if answers cannot be written as this expectation
	lock         string  // the file of schema_lock
}

// matcher compares an answer with an expectation.
type matcher func(a *answer) *expect.Mismatch

// updater returns the TOML value that the answer would have met. The error says why no value is
// possible.
type updater func(a *answer) (string, error)

// expectation is an expectation that files can have. read reads the value under the key, and
// reports mistakes in the value.
type expectation struct {
	key   string
	kinds kinds
	read  func(r *fileReader, s *config.Section, key string) (matcher, updater)
}

// expectations are all expectations.
var expectations = []expectation{
	{"text", onCall, readText},
	{"result", onCall, readResult},
	{"subset", onCall, readSubset},
	{"schema", onCall, readSchema},
	{"is_error", onCall, readIsError},
	{"error_type", onCall, readErrorType},
	{"error", onCall, readError},
	{"error_code", onCall, readErrorCode},
	{"meta", onCall, readMeta},
	{"progress", onCall, readProgress},
	{"image", onCall, readImage},
	{"logs", onCall, readLogs},
	{"calls", onCall, readCalls},
	{"permissions", onCall, readPermissions},
	{"decision", onCall, readDecision},
	{"max_fuel", onCall, readFuel},
	{"max_memory", onCall, readMemory},
	{"cancelled_within", onCall, readCancelled},
	{"snapshot", onCall, readSnapshot},
	{"snapshot_ignore", onCall, readSnapshotIgnore},
	{"max_duration", onCall | onServer, readDuration},
	{"protocol", onServer, readProtocol},
	{"capabilities", onServer, readCapabilities},
	{"tools", onServer, readNames},
	{"resources", onServer, readNames},
	{"templates", onServer, readNames},
	{"prompts", onServer, readNames},
	{"schema_lock", onServer, readLock},
}

var expectAliases = map[string]string{
	"iserror": "is_error", "output": "text", "contains": "text", "match": "text", "equals": "result", "json": "result",
	"duration": "max_duration", "fuel": "max_fuel", "memory": "max_memory", "lock": "schema_lock", "version": "protocol",
	"protocolversion": "protocol", "images": "image", "cancelled": "cancelled_within", "errormessage": "error",
	"resourcetemplates": "templates", "ignore": "snapshot_ignore",
}

// expectations reads the expectations of a check.
func (r *fileReader) expectations(s *config.Section, c *Check) {
	kind, other := onCall, "a call"
	if c.Server != "" {
		kind, other = onServer, "a server"
	}
	for _, e := range expectations {
		s.Know(e.key)
		key := e.key
		if !s.Has(key) {
			if key += "_json"; !s.Has(key) {
				continue
			}
		}
		if s.Missing(key) != nil { // the expectation is read again when its values are known
			s.Know(key)
			continue
		}
		if e.kinds&kind == 0 {
			s.Know(key)
			s.Problem(key, "has no meaning for the check of %s", other)
			continue
		}
		w := want{key: e.key, written: s.Written(key)}
		w.line, w.column = s.Place(key)
		w.match, w.update = e.read(r, s, e.key)
		if e.key == "schema_lock" {
			w.lock, _ = s.String(key)
			w.lock = r.join(filepath.FromSlash(w.lock)) // readLock has reported any error
		}
		if key != e.key {
			w.update = asJSONText(e.key)
		}
		if w.match != nil {
			c.wants = append(c.wants, w)
		}
	}
	slices.SortStableFunc(c.wants, func(a, b want) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column)) })
	s.Close(expectAliases)
}

// readText reads a pattern, or several that must all match.
func readText(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	patterns := readPatterns(s, key)
	return func(a *answer) *expect.Mismatch {
			for _, p := range patterns {
				if m := expect.Text(p, a.result); m != nil {
					return m
				}
			}
			return nil
		}, func(a *answer) (string, error) {
			if len(patterns) != 1 || isRegexp(patterns[0]) {
				return "", notUpdatable("a pattern cannot be derived from an answer")
			}
			return tomlText(a.text()), nil
		}
}

// readPatterns reads a string or an array of strings as patterns.
func readPatterns(s *config.Section, key string) []expect.Pattern {
	var texts []string
	if s.IsArray(key) {
		texts = s.Strings(key)
	} else if text, ok := s.String(key); ok {
		texts = []string{text}
	}
	var patterns []expect.Pattern
	for i, text := range texts {
		p, err := expect.ParsePattern(text)
		if err != nil {
			at := key
			if s.IsArray(key) {
				at = fmt.Sprintf("%s[%d]", key, i)
			}
			var bad *syntax.Error // the text of the error would reveal the value of a variable
			if errors.As(err, &bad) {
				s.Problem(at, "is not a regular expression: %s (text between slashes is one)", bad.Code)
			} else {
				s.Problem(at, "%v", err)
			}
			continue
		}
		patterns = append(patterns, p)
	}
	return patterns
}

func isRegexp(p expect.Pattern) bool {
	return len(p.String()) > 1 && p.String()[0] == '/' && strings.LastIndexByte(p.String(), '/') > 0
}

func readResult(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value := s.JSON(key)
	return func(a *answer) *expect.Mismatch { return expect.Equal(value, a.value()) },
		func(a *answer) (string, error) { return tomlValue(a.value()) }
}

func readSubset(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value := s.JSON(key)
	return func(a *answer) *expect.Mismatch { return expect.Subset(value, a.value()) },
		func(a *answer) (string, error) { return tomlValue(project(value, a.value())) }
}

// readSchema reads a JSON Schema: a table, or the name of a file.
func readSchema(r *fileReader, s *config.Section, key string) (matcher, updater) {
	var raw []byte
	if s.IsString(key) {
		name, _ := s.String(key)
		if name = r.path(s, key, name); name == "" {
			return nil, nil
		}
		r.check.schemas = append(r.check.schemas, name)
		var err error
		if raw, err = r.file.place(name).Read(r.context(), maxSchema); err != nil {
			s.Problem(key, "%s cannot be read: %v", name, reason(err))
			return nil, nil
		}
	} else {
		raw = s.Object(key)
	}
	if raw == nil {
		return nil, nil
	}
	schema, err := tools.CompileSchema(raw, "expect.schema")
	if err != nil {
		var bad *tools.SchemaError
		if errors.As(err, &bad) {
			s.Problem(key, "%s", bad.Reason)
		} else {
			s.Problem(key, "%v", err)
		}
		return nil, nil
	}
	return func(a *answer) *expect.Mismatch { return expect.Schema(schema, a.value()) }, nil
}

func readIsError(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	var value bool
	s.Bool(key, &value)
	return func(a *answer) *expect.Mismatch { return expect.IsError(value, a.result) },
		func(a *answer) (string, error) { return fmt.Sprint(a.isError()), nil }
}

// errorTypes are the error classes for files.
var errorTypes = []string{
	string(abi.ErrValidation), string(abi.ErrRuntime), string(abi.ErrTool), string(abi.ErrTimeout), string(abi.ErrResource),
	string(abi.ErrCancelled), string(abi.ErrPermission), string(abi.ErrInternal),
}

func readErrorType(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value, ok := s.String(key)
	if ok && !slices.Contains(errorTypes, value) {
		s.Problem(key, "%q is not an error class (the classes are %s)", value, strings.Join(errorTypes, ", "))
	}
	return func(a *answer) *expect.Mismatch {
			class, message := a.failure()
			return expect.ErrorType(value, class, message)
		}, func(a *answer) (string, error) {
			class, _ := a.failure()
			if class == "" {
				return "", notUpdatable("it did not fail")
			}
			return tomlText(class), nil
		}
}

// readError reads patterns for the error message.
func readError(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	patterns := readPatterns(s, key)
	return func(a *answer) *expect.Mismatch {
			message, failed := a.errorMessage()
			if !failed {
				return &expect.Mismatch{Message: "it did not fail", Got: string(a.value())}
			}
			for _, p := range patterns {
				if m := expect.Message("the error's message", p, message); m != nil {
					return m
				}
			}
			return nil
		}, func(a *answer) (string, error) {
			message, failed := a.errorMessage()
			if len(patterns) != 1 || isRegexp(patterns[0]) || !failed {
				return "", notUpdatable("a pattern cannot be derived from an answer")
			}
			return tomlText(message), nil
		}
}

// readErrorCode reads the code of a JSON-RPC error.
func readErrorCode(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	var code int
	if json.Unmarshal(s.JSON(key), &code) != nil {
		s.Problem(key, "has to be a whole number, such as -32602")
	}
	return func(a *answer) *expect.Mismatch {
			if a.refused == nil {
				return &expect.Mismatch{Message: "the call was not refused", Want: fmt.Sprint(code), Got: string(a.value())}
			}
			if a.refused.Code != code {
				return &expect.Mismatch{Message: a.refusal(), Want: fmt.Sprint(code), Got: fmt.Sprint(a.refused.Code)}
			}
			return nil
		}, func(a *answer) (string, error) {
			if a.refused == nil {
				return "", notUpdatable("the call was not refused")
			}
			return fmt.Sprint(a.refused.Code), nil
		}
}

func readMeta(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value := s.Object(key)
	return func(a *answer) *expect.Mismatch { return expect.Meta(value, a.result) }, nil
}

// readCeiling reads an upper limit for a script; name is the member of the receipt with the
// actual figure.
func readCeiling(most uint64, name string, judge func(most, got uint64) *expect.Mismatch, write func(n uint64) string) (matcher, updater) {
	return func(a *answer) *expect.Mismatch {
			got, ok := a.number(name)
			if !ok {
				return &expect.Mismatch{Message: "only scripts have this, and the answer is not from a script"}
			}
			return judge(most, got)
		}, func(a *answer) (string, error) {
			got, ok := a.number(name)
			if !ok {
				return "", notUpdatable("no script has answered")
			}
			return write(got + got/5), nil
		}
}

func readFuel(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	most := uint64(math.MaxInt64)
	s.Number(key, &most, 1, math.MaxInt64)
	return readCeiling(most, "fuel", expect.Fuel, func(n uint64) string {
		const step = 100_000
		return grouped((n + step - 1) / step * step)
	})
}

func readMemory(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	most := uint64(math.MaxInt64)
	s.Size(key, &most)
	return readCeiling(most, "memory", expect.Memory, func(n uint64) string {
		return tomlText(units.FormatSize((n + 1<<20 - 1) >> 20 << 20))
	})
}

func readDuration(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	most := time.Duration(math.MaxInt64)
	s.Duration(key, &most, minTime, maxTime)
	return func(a *answer) *expect.Mismatch { return expect.Duration(most, a.took) }, nil
}

// defaultCancelled is how long work may continue after the cancellation, unless the file
// says otherwise.
const defaultCancelled = time.Second

func readCancelled(r *fileReader, s *config.Section, key string) (matcher, updater) {
	s.Duration(key, &r.check.within, minTime, maxTime)
	return cancelledWithin(r.check.within), nil
}

// cancelledWithin requires that the call was pending when cancelled, and that all work for the call
// ended in time.
func cancelledWithin(within time.Duration) matcher {
	return func(a *answer) *expect.Mismatch {
		switch {
		case !a.cancelled:
			return &expect.Mismatch{Message: fmt.Sprintf("it was answered after %s, before it was cancelled", rounded(a.took))}
		case len(a.afterCancel) > 0:
			return &expect.Mismatch{Message: "it went on although it was cancelled: " + strings.Join(a.afterCancel, "; ")}
		case a.stopped > within:
			return &expect.Mismatch{
				Message: "it took too long to end after it was cancelled",
				Want:    "at most " + units.FormatDuration(within), Got: rounded(a.stopped).String(),
			}
		}
		return nil
	}
}

// rounded rounds a measured duration for people.
func rounded(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// readProgress reads true, or the minimum number of notifications.
func readProgress(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	least := uint64(1)
	if !s.IsTrue(key) {
		s.Number(key, &least, 0, math.MaxInt32)
	}
	return func(a *answer) *expect.Mismatch { return expect.Progress(int(least), a.progress) },
		func(a *answer) (string, error) {
			if m := expect.Progress(0, a.progress); m != nil {
				return "", notUpdatable("%s", m.Message)
			}
			return fmt.Sprint(len(a.progress)), nil
		}
}

// readImage reads true, or properties of the image.
func readImage(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	var w expect.ImageWant
	if s.IsTrue(key) {
		s.Know(key)
	} else if sub := s.Section(key); sub != nil {
		w.MIME, _ = sub.String("mime")
		for name, v := range map[string]*int{"width": &w.Width, "height": &w.Height, "count": &w.Count} {
			n := uint64(0)
			sub.Number(name, &n, 1, 1<<20)
			*v = int(n)
		}
		sub.Close(map[string]string{"mimetype": "mime", "type": "mime", "number": "count"})
	}
	return func(a *answer) *expect.Mismatch { return expect.Image(w, a.result) }, nil
}

func readLogs(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	patterns := readPatterns(s, key)
	literal := true
	for _, p := range patterns {
		literal = literal && !isRegexp(p)
	}
	return func(a *answer) *expect.Mismatch {
			if m := a.requireScript(); m != nil {
				return m
			}
			return expect.Logs(patterns, a.logs())
		}, func(a *answer) (string, error) {
			if !literal || !s.IsArray(key) {
				return "", notUpdatable("a pattern cannot be derived from an answer")
			}
			return tomlStrings(a.logs()), nil
		}
}

func readCalls(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	names := s.Strings(key)
	return func(a *answer) *expect.Mismatch {
			if m := a.requireScript(); m != nil {
				return m
			}
			return expect.Calls(names, a.calls(names))
		}, func(a *answer) (string, error) {
			return tomlStrings(a.calls(names)), nil
		}
}

// requireScript returns a mismatch if the answer is not from a script.
func (a *answer) requireScript() *expect.Mismatch {
	_, script := a.script()
	_, class := wire.GetString(a.result, "structuredContent", "error", "type")
	if script || class {
		return nil
	}
	return &expect.Mismatch{Message: "only scripts have this, and the answer is not from a script"}
}

// project returns the part of got in want: the members of objects with the same names.
func project(want, got []byte) []byte {
	var w, g map[string]json.RawMessage
	if jsonvalue.Unmarshal(want, &w) != nil || w == nil || jsonvalue.Unmarshal(got, &g) != nil || g == nil {
		return got
	}
	out := []byte("{}")
	for _, name := range memberNames(want) {
		value, ok := g[name]
		if !ok {
			continue
		}
		if next, err := wire.Set(out, project(w[name], value), name); err == nil {
			out = next
		}
	}
	return out
}

// readPermissions reads the largest expected permissions of a script.
func readPermissions(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	allowed := s.Strings(key)
	for _, target := range allowed {
		if err := tools.CheckTarget(target); err != nil {
			s.Problem(key, "%q %v", display.Clip(target, 80), err)
			return nil, nil
		}
	}
	return func(a *answer) *expect.Mismatch {
			p, m := a.permissions()
			if m != nil {
				return m
			}
			var more []string
			for _, target := range p.List() {
				if !tools.Covers(allowed, target) {
					more = append(more, target)
				}
			}
			if more == nil {
				return nil
			}
			return &expect.Mismatch{
				Message: fmt.Sprintf("the script may call more than that: %s", display.Line(strings.Join(more, ", "), 1000)),
				Want:    "at most " + targets(allowed), Got: targets(p.List()),
			}
		}, func(a *answer) (string, error) {
			p, m := a.permissions()
			if m != nil {
				return "", m
			}
			return tomlStrings(p.List()), nil
		}
}

// targets lists targets for a message.
func targets(list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	return strings.Join(list, ", ")
}

// permissions returns the permissions of the script that has answered.
func (a *answer) permissions() (*tools.Permissions, *expect.Mismatch) {
	if a.run == nil {
		return nil, &expect.Mismatch{Message: "only scripts have this, and the answer is not from a script"}
	}
	p := a.run.Definition.Permissions
	if !p.Of(a.run.Definition.Code) {
		return nil, &expect.Mismatch{Message: "what the script may call is not known"}
	}
	return p, nil
}

// readDecision reads the expected policy decision about the call: an action, or a table with the
// deciding rule and the client.
func readDecision(r *fileReader, s *config.Section, key string) (matcher, updater) {
	var action, rule, client string
	var ok bool
	if s.IsTable(key) {
		t := s.Section(key)
		action, ok = t.String("action")
		rule, _ = t.String("rule")
		client, _ = t.String("client")
		t.Close(map[string]string{"decision": "action", "name": "rule", "token": "client"})
	} else {
		action, ok = s.String(key)
	}
	if !ok {
		if s.IsTable(key) {
			s.Problem(key, `has no action ("allow", "ask" or "deny")`)
		}
		return nil, nil
	}
	switch policy.Action(action) {
	case policy.Allow:
	case policy.Ask:
		r.check.refused = client == "" && r.check.Approve != approveAllow
	case policy.Deny:
		r.check.refused = client == ""
	default:
		s.Problem(key, `%q is not one of "allow", "ask", "deny"`, action)
		return nil, nil
	}
	return func(a *answer) *expect.Mismatch {
		if a.decide == nil {
			return &expect.Mismatch{Message: "only a call without mocks has a decision: policy is not asked about the others"}
		}
		d := a.decide(client)
		switch {
		case d.Action != policy.Action(action):
			return &expect.Mismatch{Message: fmt.Sprintf("policy decides otherwise, by rule %q", d.Rule), Want: action, Got: string(d.Action)}
		case rule != "" && d.Rule != rule:
			return &expect.Mismatch{Message: "another rule decides", Want: rule, Got: d.Rule}
		case d.Action == policy.Deny && client == "" && a.result != nil && !a.isError():
			return &expect.Mismatch{Message: "policy denies the call, but it was made"}
		}
		return nil
	}, nil
}

// pointer is a JSON pointer (RFC 6901) to members of a value, as its steps.
type pointer []string

// anyStep is the step for every member or item, in a pointer to replaced values.
const anyStep = "*"

func parsePointer(text string) (pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf("%q is not a JSON pointer (it begins with a slash: \"/structuredContent/time\")", text)
	}
	steps := strings.Split(text[1:], "/")
	for i, s := range steps {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~") {
			return nil, fmt.Errorf("%q is not a JSON pointer (~ is written ~0, and / in a name is ~1)", text)
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return steps, nil
}

// String returns the pointer as written.
func (p pointer) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
	}
	return b.String()
}

// find returns the target of the pointer in raw JSON. Without a target, at is the index of the
// first step that leads nowhere.
func (p pointer) find(raw json.RawMessage) (found json.RawMessage, at int, ok bool) {
	for at, step := range p {
		if items, err := wire.Elements(raw); err == nil {
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(items) || strconv.Itoa(i) != step {
				return nil, at, false
			}
			raw = items[i]
		} else if raw, ok = wire.Get(raw, step); !ok {
			return nil, at, false
		}
	}
	return raw, len(p), true
}

// replace replaces the targets of the pointer in a value of jsonvalue.Decode. v is changed, and
// returned.
func (p pointer) replace(v, with any) any {
	if len(p) == 0 {
		return with
	}
	step, rest := p[0], p[1:]
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range v {
			if step == anyStep || step == name {
				v[name] = rest.replace(sub, with)
			}
		}
	case []any:
		for i, sub := range v {
			if step == anyStep || step == strconv.Itoa(i) {
				v[i] = rest.replace(sub, with)
			}
		}
	}
	return v
}
