package sandbox

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// fuelOfAnswers is what a guest uses that makes two calls at once, of which each has an answer of
// that size, and that then gets the answers in turn, that many times. If room is 0, they do
// not fit into its buffer. The guest itself does nothing.
func fuelOfAnswers(t *testing.T, read string, room uint32, times, size int) uint64 {
	t.Helper()
	const batch, buffer = `[{"server":"s","tool":"t","arguments":{}},{"server":"s","tool":"t","arguments":{}}]`, 4096
	body := abitest.Code(abitest.I32Const(1024), abitest.I32Const(uint32(len(batch))), abitest.Call(0), abitest.Drop)
	for n := range 2 * times {
		body = append(body, abitest.Code(abitest.I32Const(uint32(n%2)), abitest.I32Const(buffer), abitest.I32Const(room), abitest.Call(1), abitest.Drop)...)
	}
	m := abitest.Module{
		Functions: []abitest.Function{
			{Export: abi.ExportInitialize},
			{Export: abi.ExportVersion, Signature: abitest.Signature{Results: []abitest.ValueType{abitest.I32}}, Body: abitest.I32Const(abi.Version)},
			{Export: abi.ExportRun, Body: append(body, abitest.Unreachable...)},
		},
		Pages: 64, Memory: abi.ExportMemory, Data: []abitest.Data{{Offset: 1024, Bytes: []byte(batch)}},
	}
	for _, name := range []string{abi.FuncCallTools, read} {
		f := abiFunctions[slices.IndexFunc(abiFunctions, func(f hostFunction) bool { return f.name == name })]
		s := abitest.Signature{Results: []abitest.ValueType{abitest.I64}}
		for range f.params {
			s.Params = append(s.Params, abitest.I32)
		}
		m.Imports = append(m.Imports, abitest.Import{Module: abi.HostModule, Name: f.name, Signature: s})
	}
	var calls atomic.Int64
	caller := &fakeCaller{tools: func(context.Context, abi.ToolCall) abi.Answer {
		calls.Add(1)
		return abi.Answer{Value: []byte(`"` + strings.Repeat("x", size-2) + `"`)}
	}}
	out, err := newSandbox(t, Options{Guest: m.Encode()}).Run(context.Background(), Run{Caller: caller})
	if err == nil || calls.Load() != 2 {
		t.Fatalf("%d calls, %v", calls.Load(), err)
	}
	return out.Fuel
}

// TestAnswersCostFuel checks that the host's work on answers costs fuel by their size, each time
// that it is done.
func TestAnswersCostFuel(t *testing.T) {
	const small, large, room = 1 << 10, 1 << 20, 2 << 20
	for _, c := range []struct {
		read  string
		room  uint32
		times int
		cost  int // units for each byte, of each answer
	}{
		{abi.FuncAnswerRead, room, 1, copyCost},
		{abi.FuncAnswerRead, 0, 3, 0},
		{abi.FuncAnswerTape, room, 1, tapeCost + copyCost},
		{abi.FuncAnswerTape, 0, 3, 3 * tapeCost}, // it has one tape at a time
	} {
		a, b := fuelOfAnswers(t, c.read, c.room, c.times, small), fuelOfAnswers(t, c.read, c.room, c.times, large)
		if more, least := int(b)-int(a), 2*c.cost*(large-small); more < least || more > least+least/10 {
			t.Errorf("%s, room for %d, %d times: 1 MB costs %d more than 1 KB, want %d", c.read, c.room, c.times, more, least)
		}
	}
}
