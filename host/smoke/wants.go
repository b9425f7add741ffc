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
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
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
