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
	"github.com/mcp-metatool/mcp-metatool/host/display"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// maxSchema is the size of the largest schema that is read from a file, in bytes.
const maxSchema = 4 << 20

// kinds are those of checks that an expectation has a meaning for.
type kinds int

const (
	onCall kinds = 1 << iota
	onServer
)

// want is one expectation of a check.
type want struct {
	key          string // without "expect."
	line, column int
	written      config.Span // of the value in the file
	judge        judge
	renew        renew  // nil: it cannot be made of an answer
	lock         string // the file that schema_lock names
}

// judge holds an answer against an expectation.
type judge func(a *answer) *expect.Mismatch

// renew is the value, in TOML, that an answer would have met. The error says why
// there is none.
type renew func(a *answer) (string, error)

// expectation is one that files can have. read makes it of the value under the
// key, and reports what is wrong with that.
type expectation struct {
	key   string
	kinds kinds
	read  func(r *fileReader, s *config.Section, key string) (judge, renew)
}

// expectations are all there are.
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
	{"max_fuel", onCall, readFuel},
	{"max_memory", onCall, readMemory},
	{"cancelled_within", onCall, readCancelled},
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
	"resourcetemplates": "templates",
}

// expectations reads what a check expects.
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
		if e.kinds&kind == 0 {
			s.Know(key)
			s.Problem(key, "has no meaning for the check of %s", other)
			continue
		}
		w := want{key: e.key, written: s.Written(key)}
		w.line, w.column = s.Place(key)
		w.judge, w.renew = e.read(r, s, e.key)
		if e.key == "schema_lock" {
			w.lock, _ = s.String(key)
			w.lock = r.join(filepath.FromSlash(w.lock)) // readLock has said what is wrong with it
		}
		if key != e.key {
			w.renew = asJSONText(e.key)
		}
		if w.judge != nil {
			c.wants = append(c.wants, w)
		}
	}
	slices.SortStableFunc(c.wants, func(a, b want) int { return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column)) })
	s.Close(expectAliases)
}

// readText reads one pattern, or several that all have to be found.
func readText(_ *fileReader, s *config.Section, key string) (judge, renew) {
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
				return "", cannot("a pattern is not made of an answer")
			}
			return tomlText(a.text()), nil
		}
}

// readPatterns are those of a string, or of an array of them.
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
			var bad *syntax.Error // its text would quote a variable's value
			if errors.As(err, &bad) {
				s.Problem(at, "is no regular expression: %s (text between slashes is one)", bad.Code)
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

func readResult(_ *fileReader, s *config.Section, key string) (judge, renew) {
	value := s.JSON(key)
	return func(a *answer) *expect.Mismatch { return expect.Equal(value, a.value()) },
		func(a *answer) (string, error) { return tomlValue(a.value()) }
}

func readSubset(_ *fileReader, s *config.Section, key string) (judge, renew) {
	value := s.JSON(key)
	return func(a *answer) *expect.Mismatch { return expect.Subset(value, a.value()) },
		func(a *answer) (string, error) { return tomlValue(project(value, a.value())) }
}

// readSchema reads a JSON Schema: a table, or the name of a file.
func readSchema(r *fileReader, s *config.Section, key string) (judge, renew) {
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

func readIsError(_ *fileReader, s *config.Section, key string) (judge, renew) {
	var value bool
	s.Bool(key, &value)
	return func(a *answer) *expect.Mismatch { return expect.IsError(value, a.result) },
		func(a *answer) (string, error) { return fmt.Sprint(a.isError()), nil }
}

// errorTypes are the classes of errors, as a file has them.
var errorTypes = []string{
	string(abi.ErrValidation), string(abi.ErrRuntime), string(abi.ErrTool), string(abi.ErrTimeout), string(abi.ErrResource),
	string(abi.ErrCancelled), string(abi.ErrPermission), string(abi.ErrInternal),
}

func readErrorType(_ *fileReader, s *config.Section, key string) (judge, renew) {
	value, ok := s.String(key)
	if ok && !slices.Contains(errorTypes, value) {
		s.Problem(key, "%q is no class of errors (there are %s)", value, strings.Join(errorTypes, ", "))
	}
	return func(a *answer) *expect.Mismatch {
			class, message := a.failure()
			return expect.ErrorType(value, class, message)
		}, func(a *answer) (string, error) {
			class, _ := a.failure()
			if class == "" {
				return "", cannot("it did not fail")
			}
			return tomlText(class), nil
		}
}

// readError reads what the message of an error has to be like.
func readError(_ *fileReader, s *config.Section, key string) (judge, renew) {
	patterns := readPatterns(s, key)
	return func(a *answer) *expect.Mismatch {
			message, failed := a.errorMessage()
			if !failed {
				return &expect.Mismatch{Message: "it did not fail", Got: display.Clip(string(a.value()), maxOutput)}
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
				return "", cannot("a pattern is not made of an answer")
			}
			return tomlText(message), nil
		}
}

// readErrorCode reads the code of a JSON-RPC error.
func readErrorCode(_ *fileReader, s *config.Section, key string) (judge, renew) {
	var code int
	if json.Unmarshal(s.JSON(key), &code) != nil {
		s.Problem(key, "has to be a whole number, such as -32602")
	}
	return func(a *answer) *expect.Mismatch {
			if a.refused == nil {
				return &expect.Mismatch{Message: "the call was not refused", Want: fmt.Sprint(code), Got: display.Clip(string(a.value()), maxOutput)}
			}
			if a.refused.Code != code {
				return &expect.Mismatch{Message: a.refusal(), Want: fmt.Sprint(code), Got: fmt.Sprint(a.refused.Code)}
			}
			return nil
		}, func(a *answer) (string, error) {
			if a.refused == nil {
				return "", cannot("the call was not refused")
			}
			return fmt.Sprint(a.refused.Code), nil
		}
}

func readMeta(_ *fileReader, s *config.Section, key string) (judge, renew) {
	value := s.Object(key)
	return func(a *answer) *expect.Mismatch { return expect.Meta(value, a.result) }, nil
}

// readCeiling reads a number that a script must not pass; name is what its
// receipt calls that.
func readCeiling(most uint64, name string, judge func(most, got uint64) *expect.Mismatch, write func(n uint64) string) (judge, renew) {
	return func(a *answer) *expect.Mismatch {
			got, ok := a.number(name)
			if !ok {
				return &expect.Mismatch{Message: "only scripts have that, and none has answered"}
			}
			return judge(most, got)
		}, func(a *answer) (string, error) {
			got, ok := a.number(name)
			if !ok {
				return "", cannot("no script has answered")
			}
			return write(got + got/5), nil
		}
}

func readFuel(_ *fileReader, s *config.Section, key string) (judge, renew) {
	most := uint64(math.MaxInt64)
	s.Number(key, &most, 1, math.MaxInt64)
	return readCeiling(most, "fuel", expect.Fuel, func(n uint64) string {
		const step = 100_000
		return grouped((n + step - 1) / step * step)
	})
}

func readMemory(_ *fileReader, s *config.Section, key string) (judge, renew) {
	most := uint64(math.MaxInt64)
	s.Size(key, &most)
	return readCeiling(most, "memory", expect.Memory, func(n uint64) string {
		return tomlText(units.FormatSize((n + 1<<20 - 1) >> 20 << 20))
	})
}

func readDuration(_ *fileReader, s *config.Section, key string) (judge, renew) {
	most := time.Duration(math.MaxInt64)
	s.Duration(key, &most, minTime, maxTime)
	return func(a *answer) *expect.Mismatch { return expect.Duration(most, a.took) }, nil
}

// defaultCancelled is how long work may go on after it was taken back, where a
// file does not say.
const defaultCancelled = time.Second

func readCancelled(r *fileReader, s *config.Section, key string) (judge, renew) {
	s.Duration(key, &r.check.within, minTime, maxTime)
	return cancelledWithin(r.check.within), nil
}

// cancelledWithin wants that a call was still under way when it was taken back,
// and that all work for it ended soon.
func cancelledWithin(within time.Duration) judge {
	return func(a *answer) *expect.Mismatch {
		switch {
		case !a.cancelled:
			return &expect.Mismatch{Message: fmt.Sprintf("it was answered after %s, before it was taken back", rounded(a.took))}
		case len(a.unheeded) > 0:
			return &expect.Mismatch{Message: "it went on although it was taken back: " + strings.Join(a.unheeded, "; ")}
		case a.over > within:
			return &expect.Mismatch{
				Message: "it took too long to end after it was taken back",
				Want:    "at most " + units.FormatDuration(within), Got: rounded(a.over).String(),
			}
		}
		return nil
	}
}

// rounded is a measured time for people.
func rounded(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}
