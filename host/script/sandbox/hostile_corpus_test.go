package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// attack is one script of testdata/hostile. Its file begins with comments that say
// how to run it:
//
//	# want: resource memory        the class of its end; see classOf
//	# limits: memory=64MiB calls=5  limits that differ from hostileLimits
//	# params: {"a": 1}             params; {} if absent
//	# expand                       @{text*1000} stands for 1000 copies of text
type attack struct {
	name, want, code, params string
	limits                   Limits
	deadline                 time.Duration
}

// hostileLimits make each attack end within a fraction of a second. They are smaller
// than the defaults, but the same limits. Attacks that must end by a limit other than
// fuel have moreFuel times as much fuel. Those that must end by fuel have a fifth of it without
// -long.
var hostileLimits = Limits{
	Memory: 16 << 20, Fuel: 150_000_000, Calls: 100,
	Arguments: 1 << 20, Answer: 1 << 20, Result: 1 << 20, Logs: 64 << 10,
}

const moreFuel = 50

// hostileDeadline is never reached: attacks that wait for a tool have another one.
const hostileDeadline = time.Hour

// attacks reads the corpus, sorted by name.
func attacks(t testing.TB) []attack {
	t.Helper()
	files, err := filepath.Glob("testdata/hostile/*.star")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in testdata/hostile", err)
	}
	all := make([]attack, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = attack{
			name: strings.TrimSuffix(filepath.Base(file), ".star"), code: string(text), params: "{}",
			limits: hostileLimits, deadline: hostileDeadline,
		}
		if err := all[i].header(); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return all
}

// header reads the comments at the start of the script.
func (a *attack) header() error {
	for line := range strings.Lines(a.code) {
		comment, ok := strings.CutPrefix(line, "# ")
		if !ok {
			break
		}
		key, value, _ := strings.Cut(strings.TrimSpace(comment), ": ")
		var err error
		switch key {
		case "want":
			a.want = value
			if a.want != class(abi.ErrResource, LimitFuel) {
				a.limits.Fuel *= moreFuel
			} else if !*long {
				a.limits.Fuel /= 5
			}
		case "limits":
			err = a.setLimits(value)
		case "params":
			a.params = value
		case "expand":
			a.code, err = expand(a.code)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	if !validClasses[a.want] {
		return fmt.Errorf("want %q is no class", a.want)
	}
	return nil
}

func (a *attack) setLimits(list string) error {
	for _, field := range strings.Fields(list) {
		name, value, _ := strings.Cut(field, "=")
		if name == "deadline" {
			var err error
			if a.deadline, err = time.ParseDuration(value); err != nil {
				return err
			}
			continue
		}
		n, err := parseAmount(value)
		if err != nil {
			return err
		}
		switch Limit(name) {
		case LimitMemory:
			a.limits.Memory = n
		case LimitFuel:
			a.limits.Fuel = n
		case LimitCalls:
			a.limits.Calls = int(n)
		case LimitArguments:
			a.limits.Arguments = int(n)
		case LimitAnswer:
			a.limits.Answer = int(n)
		case LimitResult:
			a.limits.Result = int(n)
		default:
			return fmt.Errorf("no limit %q", name)
		}
	}
	return nil
}

// parseAmount parses 5, 64KiB, 3MiB, and 2M for two million.
func parseAmount(s string) (uint64, error) {
	for suffix, unit := range map[string]uint64{"KiB": 1 << 10, "MiB": 1 << 20, "M": 1_000_000} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			n, err := strconv.ParseUint(digits, 10, 32)
			return n * unit, err
		}
	}
	return strconv.ParseUint(s, 10, 64)
}

var repeated = regexp.MustCompile(`@\{(.+?)\*(\d+)\}`)

// expand expands @{text*N}, which avoids files of a megabyte.
func expand(code string) (string, error) {
	var failed error
	code = repeated.ReplaceAllStringFunc(code, func(m string) string {
		parts := repeated.FindStringSubmatch(m)
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(parts[1], `"`, `\"`) + `"`)
		n, err2 := strconv.Atoi(parts[2])
		failed = errors.Join(failed, err, err2)
		return strings.Repeat(text, n)
	})
	return code, failed
}

// run runs the attack with the limits of its header.
func (a attack) run(ctx context.Context, s *Sandbox) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, a.deadline)
	defer cancel()
	return s.Run(ctx, Run{Request: request(a.code, a.params), Limits: a.limits, Caller: &victim{limits: a.limits}})
}

// validClasses are the classes in which an attack may end: none is a fault of the
// guest or of the host.
var validClasses = func() map[string]bool {
	set := map[string]bool{"ok": true}
	for _, t := range []abi.ErrorType{abi.ErrValidation, abi.ErrRuntime, abi.ErrTool, abi.ErrTimeout, abi.ErrPermission} {
		set[string(t)] = true
	}
	for _, l := range []Limit{LimitMemory, LimitFuel, LimitRecursion, LimitCalls, LimitArguments, LimitAnswer, LimitResult} {
		set[class(abi.ErrResource, l)] = true
	}
	return set
}()

func class(t abi.ErrorType, l Limit) string { return string(t) + " " + string(l) }

// classOf returns the class of a run's end, as clients see it: "ok", or the type of
// the error, with the limit for a resource error.
func classOf(out Outcome, err error) string {
	var limit *LimitError
	switch {
	case errors.As(err, &limit):
		return class(abi.ErrResource, limit.Limit)
	case errors.Is(err, context.DeadlineExceeded):
		return string(abi.ErrTimeout)
	case errors.Is(err, context.Canceled):
		return string(abi.ErrCancelled)
	case err != nil:
		return class(abi.ErrInternal, Limit(err.Error()))
	case out.Err == nil:
		return "ok"
	case out.Err.Type == abi.ErrResource:
		return class(abi.ErrResource, Limit(out.Err.Limit))
	case out.Err.Type == abi.ErrInternal:
		return class(abi.ErrInternal, Limit(out.Err.Message))
	default:
		return string(out.Err.Type)
	}
}

// victim is the Caller of an attack. Its tools do what the arguments say. It counts
// what it receives instead of keeping it.
type victim struct {
	limits Limits
	logged int
	calls  int
}

func (v *victim) CallTools(ctx context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		v.calls++
		answers[i] = v.call(ctx, c)
	}
	return answers
}

func (v *victim) call(ctx context.Context, c abi.ToolCall) abi.Answer {
	var arguments struct{ Size, Levels int }
	_ = json.Unmarshal(c.Arguments, &arguments) // other tools take any arguments
	refuse := func(t abi.ErrorType, message string) abi.Answer {
		return abi.Answer{Err: &abi.CallError{Type: t, Server: c.Server, Tool: "t", Message: message}}
	}
	switch c.Tool {
	case "echo":
		return abi.Answer{Value: c.Arguments}
	case "big":
		return abi.Answer{Value: []byte(`"` + strings.Repeat("x", arguments.Size) + `"`)}
	case "deep":
		return abi.Answer{Value: append(bytes.Repeat([]byte("["), arguments.Levels), bytes.Repeat([]byte("]"), arguments.Levels)...)}
	case "slow":
		<-ctx.Done()
		return refuse(abi.ErrTool, "stopped")
	case "forbidden":
		return refuse(abi.ErrPermission, "not for scripts")
	default:
		return refuse(abi.ErrTool, "it is broken")
	}
}

func (v *victim) Undo(ctx context.Context, c abi.ToolCall) *abi.CallError {
	if c.Tool == "forbidden" {
		return v.call(ctx, c).Err
	}
	return nil
}
func (v *victim) Commit() {}

func (v *victim) Log(_ abi.LogLevel, text string) func() {
	v.logged += len(text)
	return nil
}
func (v *victim) Progress(abi.Progress) {}
