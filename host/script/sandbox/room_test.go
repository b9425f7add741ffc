package sandbox

import (
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// growingGuest returns a guest that starts with some pages of memory. Each run grows it
// by more, and answers 1, or traps if it cannot.
func growingGuest(start, more uint32) []byte {
	write := abitest.Import{Module: abi.HostModule, Name: abi.FuncResponseWrite}
	for _, f := range abitest.HostFunctions {
		if f.Name == write.Name {
			write = f
		}
	}
	i := abitest.I32Const
	return abitest.Module{
		Imports: []abitest.Import{write}, Pages: start, Memory: abi.ExportMemory,
		Functions: []abitest.Function{
			{Export: abi.ExportInitialize, Signature: abitest.GuestFunctions[abi.ExportInitialize]},
			{Export: abi.ExportVersion, Signature: abitest.GuestFunctions[abi.ExportVersion], Body: i(abi.Version)},
			{Export: abi.ExportRun, Signature: abitest.GuestFunctions[abi.ExportRun], Body: abitest.Code(
				i(more), abitest.MemoryGrow, i(0xffffffff), abitest.I32Eq, abitest.If(abitest.Unreachable),
				i(abi.ResponseResult), i(1024), i(1), abitest.Call(0), abitest.Drop)},
		},
		Data: []abitest.Data{{Offset: 1024, Bytes: []byte("1")}},
	}.Encode()
}

// TestRoom checks that a limit of memory leaves scripts the same, whatever the guest
// itself needs beyond its part of the limit.
func TestRoom(t *testing.T) {
	const mib = 1 << 20 / pageSize // in pages
	for _, c := range []struct {
		name        string
		start, more uint32 // MiB
		limit, peak uint64 // MiB; a peak of 0 is an error
	}{
		{"small guest, as much as it may", 1, 7, 8, 8},
		{"small guest, more than it may", 1, 8, 8, 0},
		{"guest as large as its part", 6, 2, 8, 8},
		{"guest as large as its part, too much", 6, 3, 8, 0},
		{"larger guest", 10, 2, 8, 8},
		{"larger guest, too much", 10, 3, 8, 0},
		{"much larger guest, little", 100, 1, 8, 7},
		{"much larger guest, by default", 100, 122, 0, 128},
		{"much larger guest, too much by default", 100, 123, 0, 0},
		{"limit below the guest's part", 10, 0, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSandbox(t, Options{Guest: growingGuest(c.start*mib, c.more*mib)})
			out, err := s.Run(context.Background(), Run{Limits: Limits{Memory: c.limit << 20}, Caller: &fakeCaller{}})
			most := c.limit << 20
			if most == 0 {
				most = DefaultMemory
			}
			var limit *LimitError
			switch {
			case c.peak == 0 && (!errors.As(err, &limit) || limit.Limit != LimitMemory || limit.Value != most):
				t.Errorf("%v (%+v), want the limit of memory", err, limit)
			case c.peak > 0 && (err != nil || out.Memory != c.peak<<20):
				t.Errorf("a peak of %d bytes (%v), want %d MiB", out.Memory, err, c.peak)
			}
		})
	}
}
