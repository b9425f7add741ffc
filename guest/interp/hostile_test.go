package interp

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/parse"
)

// TestErrorTextIsBounded checks that a client gets only a part of a very long error
// text.
func TestErrorTextIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for name, code := range map[string]string{
		"fail":          "fail('" + long + "')",
		"missing key":   "params['" + long + "']",
		"attribute":     "params." + long,
		"undefined":     long,
		"backtrace":     "def f(n):\n  return f(n + 1) # " + long + "\nf(0)",
		"syntax":        "x = = '" + long + "'",
		"result":        "[{'" + long + "': len}]",
		"arguments":     "demo.search({'" + long + "': len})",
		"name of tools": "demo['" + long + "'](1, 2)",
	} {
		_, err := Run(abi.Request{Op: abi.OpRun, Name: "t", Code: code, Servers: testServers}, &fakeHost{})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if len(err.Message) > maxErrorText+100 || len(err.Stack) > 2*maxErrorText {
			t.Errorf("%s: a message of %d bytes, a stack of %d: %.100s", name, len(err.Message), len(err.Stack), err.Message)
		}
	}
}

// TestLexAround checks that lexing around a position finds the same tokens as lexing
// everything.
func TestLexAround(t *testing.T) {
	const keep = 5
	code := strings.Repeat("x = [1, 'a' + f(\"é\")] # note\nif x:\n\ty.z = (\n 2, {'k': 3})\n", 100)
	all := lex(code)
	for i := 0; i < len(all); i += 7 {
		part := lexAround(parse.Portion{Code: code, Line: 1, Col: 1}, all[i].line, all[i].col, keep)
		at := slices.Index(part, all[i])
		if at < 0 {
			t.Fatalf("token %d (%+v) is not among those around it", i, all[i])
		}
		before, after := min(keep, i), min(2, len(all)-i-1)
		if at < before || !slices.Equal(part[at-before:at], all[i-before:i]) {
			t.Errorf("token %d: other tokens before it", i)
		}
		if len(part)-at <= after || !slices.Equal(part[at:at+after], all[i:i+after]) {
			t.Errorf("token %d: other tokens after it", i)
		}
		if len(part) > 600 {
			t.Errorf("token %d: %d tokens", i, len(part))
		}
	}
}

func TestPanicError(t *testing.T) {
	caught := func(f func()) (err *abi.Error) {
		defer func() { err = panicError(recover()) }()
		f()
		return nil
	}
	size := 1 << 62
	if err := caught(func() { _ = make([]int, size) }); err.Type != abi.ErrResource || err.Limit != abi.LimitMemory {
		t.Errorf("%+v", err)
	}
	if err := caught(func() { _ = make([]int, 1)[size] }); err.Type != abi.ErrInternal || !strings.Contains(err.Message, "index out of range") {
		t.Errorf("%+v", err)
	}
	if err := caught(func() { panic("makeslice: x") }); err.Type != abi.ErrInternal {
		t.Errorf("%+v", err)
	}
}
