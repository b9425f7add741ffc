package interp

import (
	"fmt"
	"math"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"go.starlark.net/starlark"
)

// The output of a running script: print, log and progress.

// logModule has log.info(...), log.warn(...) and log.error(...), with the arguments
// of print.
var logModule = &module{
	name: "log",
	members: starlark.StringDict{
		"info":  starlark.NewBuiltin("log.info", logBuiltin(abi.LogInfo)),
		"warn":  starlark.NewBuiltin("log.warn", logBuiltin(abi.LogWarn)),
		"error": starlark.NewBuiltin("log.error", logBuiltin(abi.LogError)),
	},
	instead: map[string]string{
		"warning": "log.warn(...)", "debug": "log.info(...)", "critical": "log.error(...)", "exception": "log.error(...)", "log": "log.info(...)",
	},
}

type builtinFunc = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

// maxPending is how many bytes of an unfinished line are kept.
const maxPending = 1 << 12

// logBuiltin returns print(...) for a log level. Each call writes an entry to the log at once,
// unless end continues the line. flush is accepted and ignored, because scripts may pass flush.
func logBuiltin(level abi.LogLevel) builtinFunc {
	return func(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		sep, end := " ", "\n"
		var file, flush starlark.Value
		if err := starlark.UnpackArgs(b.Name(), nil, kwargs, "sep??", &sep, "end??", &end, "file??", &file, "flush??", &flush); err != nil {
			return nil, err
		}
		if file != nil {
			return nil, fmt.Errorf("%s: there are no files: printed text goes to the log of the run (leave out file)", b.Name())
		}
		runOf(thread).print(level, joinText(printable(args), sep)+end)
		return starlark.None, nil
	}
}

// print writes text to the log, or keeps the text of an unfinished line.
func (r *run) print(level abi.LogLevel, text string) {
	if r.pending != "" && r.pendingLevel != level {
		r.flush()
	}
	line, ended := strings.CutSuffix(text, "\n")
	r.pending, r.pendingLevel = r.pending+line, level
	if !ended && len(r.pending) < maxPending {
		return
	}
	entry := r.pending
	r.pending = ""
	r.host.Log(level, strings.ToValidUTF8(entry, "\uFFFD"))
}

// flush writes the text of an unfinished line.
func (r *run) flush() {
	if r.pending != "" {
		r.print(r.pendingLevel, "\n")
	}
}

// progressBuiltin implements progress(current, total=None, message="").
func progressBuiltin(thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var current, total starlark.Value
	var message starlark.Value = starlark.String("")
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "current", &current, "total??", &total, "message??", &message); err != nil {
		return nil, err
	}
	var p abi.Progress
	var err error
	if p.Progress, err = finite("current", current); err == nil && total != nil {
		p.Total = new(float64)
		*p.Total, err = finite("total", total)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name(), err)
	}
	p.Message = strings.ToValidUTF8(text(message), "\uFFFD")
	runOf(thread).host.Progress(p)
	return starlark.None, nil
}

// finite returns a number as a float. name is for the error.
func finite(name string, v starlark.Value) (float64, error) {
	f, ok := starlark.AsFloat(v)
	if !ok || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, fmt.Errorf("%s must be a number, got %s", name, clip(repr(v), maxTraceLine))
	}
	return f, nil
}
