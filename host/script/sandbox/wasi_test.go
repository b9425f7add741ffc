package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// wasiGuest returns a guest that makes WASI calls in its run function, then writes the
// memory from 1024 on to stderr and traps.
func wasiGuest(body []byte, data []byte, functions ...string) []byte {
	m := abitest.Module{
		Functions: []abitest.Function{
			{Export: abi.ExportInitialize},
			{Export: abi.ExportVersion, Signature: abitest.Signature{Results: []abitest.ValueType{abitest.I32}}, Body: abitest.I32Const(abi.Version)},
			{Export: abi.ExportRun, Body: body},
		},
		Pages: 1, Memory: abi.ExportMemory, Data: []abitest.Data{{Offset: 1024, Bytes: data}},
	}
	for _, name := range functions {
		i := slices.IndexFunc(wasiFunctions, func(f hostFunction) bool { return f.name == name })
		s := abitest.Signature{}
		for _, t := range wasiFunctions[i].params {
			s.Params = append(s.Params, abitest.ValueType(t))
		}
		for _, t := range wasiFunctions[i].results {
			s.Results = append(s.Results, abitest.ValueType(t))
		}
		m.Imports = append(m.Imports, abitest.Import{Module: wasiModule, Name: name, Signature: s})
	}
	return m.Encode()
}

// vectors returns the data for address 1024: an iovec, and its text after it.
func vectors(text string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 1032)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(text))), text...)
}

var writeVectors = abitest.Code(
	abitest.I32Const(2), abitest.I32Const(1024), abitest.I32Const(1), abitest.I32Const(0), abitest.Call(0), abitest.Drop)

// TestStderr checks that the last messages of the guest's runtime before a trap
// determine the kind of failure, and are shortened.
func TestStderr(t *testing.T) {
	const overflow = "runtime: goroutine stack exceeds 4194304-byte limit\nfatal error: stack overflow\n"
	for name, c := range map[string]struct {
		text, stderr string
		limit        Limit
	}{
		"panic":                   {"\npanic: oh\x1b[31m\xff\ngoroutine 1", "panic: oh\uFFFD[31m\uFFFD", ""},
		"stack overflow":          {overflow, "", LimitRecursion},
		"another fatal error":     {"fatal error: all goroutines are asleep\n", "fatal error: all goroutines are asleep", ""},
		"stack overflow in prose": {"about a fatal error: stack overflow\n", "about a fatal error: stack overflow", ""},
		"long":                    {strings.Repeat("x", 30000), strings.Repeat("x", 200) + "...", ""},
		"none":                    {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			guest := wasiGuest(abitest.Code(writeVectors, writeVectors, abitest.Unreachable), vectors(c.text), "fd_write")
			_, err := newSandbox(t, Options{Guest: guest}).Run(context.Background(), Run{Caller: &fakeCaller{}})
			var limit *LimitError
			var trap *TrapError
			switch {
			case errors.As(err, &limit):
				if limit.Limit != c.limit {
					t.Error(err)
				}
			case errors.As(err, &trap):
				if c.limit != "" || trap.Stderr != c.stderr || trap.Reason != "unreachable" {
					t.Errorf("%+v", trap)
				}
			default:
				t.Error(err)
			}
		})
	}
}

// TestWASIHostile checks that no pointer or count passed to WASI harms the host.
func TestWASIHostile(t *testing.T) {
	for _, f := range wasiFunctions {
		for _, v := range []uint32{0, 1, 1 << 16, 1<<32 - 1, 1<<32 - 8, 1 << 29, 1024, 1025} {
			t.Run(f.name, func(t *testing.T) {
				var body []byte
				for _, p := range f.params {
					if p == i64 {
						body = append(body, abitest.I64Const(uint64(v)<<32|uint64(v))...)
					} else {
						body = append(body, abitest.I32Const(v)...)
					}
				}
				body = append(body, abitest.Call(0)...)
				if len(f.results) > 0 {
					body = append(body, abitest.Drop...)
				}
				var trap *TrapError
				_, err := newSandbox(t, Options{Guest: wasiGuest(body, nil, f.name)}).Run(context.Background(), Run{Caller: &fakeCaller{}})
				if !errors.As(err, &trap) { // no response was written
					t.Error(err)
				}
			})
		}
	}
}

// TestClockAndRandomNumbers checks that clock and random numbers are the same in every run, and
// that a wait ends at once and advances the clock.
func TestClockAndRandomNumbers(t *testing.T) {
	subscription := make([]byte, 48)
	binary.LittleEndian.PutUint64(subscription, 77)                 // userdata
	binary.LittleEndian.PutUint64(subscription[24:], 3_600_000_000) // timeout, relative
	body := abitest.Code(
		abitest.I32Const(1024), abitest.I32Const(2048), abitest.I32Const(1), abitest.I32Const(4096), abitest.Call(0), abitest.Drop,
		abitest.I32Const(0), abitest.I64Const(0), abitest.I32Const(2080), abitest.Call(1), abitest.Drop,
		abitest.I32Const(2088), abitest.I32Const(16), abitest.Call(2), abitest.Drop,
	)
	s := newSandbox(t, Options{Guest: wasiGuest(body, subscription, "poll_oneoff", "clock_time_get", "random_get")})
	var seen []string
	for range 2 {
		b := memoryAfter(t, s)[2048:][:56]
		if userdata, clock := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[32:]); userdata != 77 || clock != 3_600_000_000+clockTick {
			t.Errorf("userdata %d, clock %d", userdata, clock)
		}
		seen = append(seen, string(b))
	}
	if seen[0] != seen[1] || strings.Count(seen[0][40:], "\x00") > 8 {
		t.Errorf("%x\n%x", seen[0], seen[1])
	}
}
