package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// conformanceLimits have so much fuel that only the context ends endless runs: the
// suite does not test metering.
var conformanceLimits = Limits{
	Fuel:   1 << 60,
	Memory: abitest.MaxMemory, Calls: abitest.MaxCalls, Arguments: abitest.MaxArguments,
	Answer: abitest.MaxAnswer, Result: abitest.MaxResult, Logs: abitest.MaxLogs,
}

// TestConformance runs the suite of package abitest on this host.
func TestConformance(t *testing.T) {
	for _, c := range abitest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s := newSandbox(t, Options{Guest: c.Wasm, Log: slog.New(slog.NewTextHandler(&log, nil))})
			out, caller, err := runCase(s, c, testenv.Quiet(20*time.Millisecond))
			checkEnd(t, c, out, err)
			if out.Calls != c.Calls || len(caller.calls) != c.Calls {
				t.Errorf("%d calls counted, %d made, want %d", out.Calls, len(caller.calls), c.Calls)
			}
			if !slices.EqualFunc(caller.logs, c.Logs, strings.HasPrefix) {
				t.Errorf("logs %q, want %q", caller.logs, c.Logs)
			}
			if len(caller.undo) != c.Undo {
				t.Errorf("%d compensations, want %d", len(caller.undo), c.Undo)
			}
			if out.Memory > abitest.MaxMemory {
				t.Errorf("%d bytes of memory, more than the limit", out.Memory)
			}
			if log.Len() > 0 {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}

// runCase runs the guest of a case. If it ends by its deadline before it has done what it should,
// it runs again for ten times as long.
func runCase(s *Sandbox, c abitest.Case, deadline time.Duration) (Outcome, *fakeCaller, error) {
	answers := c.Answers
	caller := &fakeCaller{tools: func(context.Context, abi.ToolCall) abi.Answer {
		a := answers[0]
		answers = answers[1:]
		return a
	}}
	ctx := context.Background()
	if c.End == abitest.EndDeadline {
		_ = s.Err() // the guest is compiled
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, deadline)
		defer cancel()
	}
	request := abi.Request{Op: abi.OpRun, Name: "case", Params: json.RawMessage(abitest.Params), Withheld: c.Withheld}
	out, err := s.Run(ctx, Run{Request: request, Limits: conformanceLimits, Caller: caller})
	less := out.Calls < c.Calls || len(caller.logs) < len(c.Logs) || len(caller.undo) < c.Undo
	if less && errors.Is(err, context.DeadlineExceeded) && deadline < time.Minute {
		return runCase(s, c, 10*deadline)
	}
	return out, caller, err
}

// TestPlannedScripts runs the scripts of the suite by the embedded guest.
func TestPlannedScripts(t *testing.T) {
	s := realSandbox(t)
	for _, c := range abitest.Scripts() {
		withheld := 0
		caller := &fakeCaller{tools: func(_ context.Context, call abi.ToolCall) abi.Answer {
			if call.Server == "r" {
				return abi.Answer{Value: call.Arguments}
			}
			if call.Caught {
				return abi.Answer{Err: &abi.CallError{Type: abi.ErrWithheld, Server: call.Server, Tool: call.Tool, Message: "m"}}
			}
			withheld++
			return abi.Answer{Value: fmt.Appendf(nil, "%q", fmt.Sprint(abitest.Marker, withheld))}
		}}
		request := abi.Request{Op: abi.OpRun, Name: "t", Code: c.Code, Params: json.RawMessage(`{}`), Servers: []string{"r", "w"}, Withheld: abitest.Marker}
		out, err := s.Run(t.Context(), Run{Request: request, Caller: caller})
		var calls []string
		for _, call := range caller.calls {
			calls = append(calls, call.Server+"."+call.Tool)
		}
		if err != nil || !slices.Equal(calls, c.Calls) {
			t.Errorf("%s\ncalls %q, want %q, %v", c.Code, calls, c.Calls, err)
		}
		switch {
		case c.Result != "" && string(out.Result) != c.Result:
			t.Errorf("%s\nresult %s, want %s (%+v)", c.Code, out.Result, c.Result, out.Err)
		case c.Result == "" && (out.Err == nil || out.Err.Type != abi.ErrWithheld):
			t.Errorf("%s\nresult %s, error %+v", c.Code, out.Result, out.Err)
		}
	}
}

func checkEnd(t *testing.T, c abitest.Case, out Outcome, err error) {
	t.Helper()
	var (
		limit *LimitError
		trap  *TrapError
		got   abitest.End
	)
	switch {
	case err == nil && out.Err == nil:
		got = abitest.EndResult
	case err == nil:
		got = abitest.EndError
	case errors.Is(err, context.DeadlineExceeded):
		got = abitest.EndDeadline
	case errors.As(err, &limit):
		got = abitest.EndLimit
		if string(limit.Limit) != c.Limit {
			t.Errorf("limit %s, want %s", limit.Limit, c.Limit)
		}
	case errors.As(err, &trap):
		got = abitest.EndTrap
	case errors.Is(err, ErrGuest):
		got = abitest.EndRefused
	}
	if got != c.End {
		t.Fatalf("ended in %q (%v, %+v), want %q", got, err, out, c.End)
	}
	if (out.Result != nil) != (got == abitest.EndResult) {
		t.Errorf("result %q at the end %q", out.Result, got)
	}
	if c.Result != "" && string(out.Result) != c.Result {
		t.Errorf("result %s, want %s", out.Result, c.Result)
	}
}

// TestContract checks that the suite, the host and the embedded guest agree on the
// contract.
func TestContract(t *testing.T) {
	describe := func(s abitest.Signature) string {
		list := func(types []abitest.ValueType) (out []api.ValueType) {
			for _, t := range types {
				out = append(out, api.ValueType(t))
			}
			return out
		}
		return typeList(list(s.Params)) + " -> " + typeList(list(s.Results))
	}
	contract := map[string]string{}
	for _, f := range abitest.HostFunctions {
		contract[f.Module+"."+f.Name] = describe(f.Signature)
	}

	// The guests of the suite are not metered; the meter adds this export.
	contract[abi.HostModule+"."+abi.FuncFuelOut] = "() -> ()"

	t.Run("host", func(t *testing.T) {
		if len(abiFunctions) != len(contract) {
			t.Errorf("%d functions offered, the contract has %d", len(abiFunctions), len(contract))
		}
		for _, f := range abiFunctions {
			if got, want := typeList(f.params)+" -> "+typeList(f.results), contract[abi.HostModule+"."+f.name]; got != want {
				t.Errorf("%s: offered as %s, the contract says %q", f.name, got, want)
			}
		}
	})
	t.Run("guest", func(t *testing.T) {
		module := realSandbox(t).base.program.module
		imported := map[string]string{}
		for _, def := range module.ImportedFunctions() {
			from, name, _ := def.Import()
			imported[from+"."+name] = signature(def)
		}
		for name, want := range contract {
			// The linker leaves out imports that the interpreter does not use.
			if got, ok := imported[name]; ok && got != want {
				t.Errorf("%s: imported as %s, the contract says %s", name, got, want)
			}
			delete(imported, name)
		}
		for _, f := range wasiFunctions {
			if _, ok := imported[wasiModule+"."+f.name]; !ok {
				t.Errorf("%s.%s is offered and not imported (take it away)", wasiModule, f.name)
			}
			delete(imported, wasiModule+"."+f.name)
		}
		for name := range imported {
			t.Errorf("%s is imported and in no contract", name)
		}
		functions := module.ExportedFunctions()
		if len(functions) != len(abitest.GuestFunctions) {
			t.Errorf("%d functions exported, the contract has %d", len(functions), len(abitest.GuestFunctions))
		}
		for name, s := range abitest.GuestFunctions {
			if def := functions[name]; def == nil || signature(def) != describe(s) {
				t.Errorf("%s is not exported as %s", name, describe(s))
			}
		}
	})
}
