package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// wasiAnswer is a call of a function of WASI: its errno, and what it writes at 2048, after which
// the memory has 0xee.
type wasiAnswer struct {
	function string
	args     []uint64
	errno    uint32
	written  string
}

// wasiAnswers are for each function what it does with good arguments and with all kinds of bad
// ones. Descriptors are refused whatever they are.
func wasiAnswers() []wasiAnswer {
	const out, beyond = 2048, 1<<32 - 4
	all := []wasiAnswer{
		{"args_get", []uint64{out, out}, errnoSuccess, ""},
		{"environ_get", []uint64{out, out}, errnoSuccess, ""},
		{"sched_yield", nil, errnoSuccess, ""},
		{"clock_time_get", []uint64{0, 0, out}, errnoSuccess, "\xe8\x03\x00\x00\x00\x00\x00\x00"}, // the first tick
		{"clock_time_get", []uint64{1 << 31, 1 << 63, out}, errnoSuccess, "\xe8\x03\x00\x00\x00\x00\x00\x00"},
		{"clock_time_get", []uint64{0, 0, beyond}, errnoFault, ""},
		{"random_get", []uint64{out, 0}, errnoSuccess, ""},
		{"random_get", []uint64{beyond, 16}, errnoFault, ""},
		{"random_get", []uint64{out, 1<<32 - 1}, errnoFault, ""},
		{"poll_oneoff", []uint64{1024, out, 0, out}, errnoInval, ""},
		{"poll_oneoff", []uint64{1024, out, maxVectors + 1, out}, errnoInval, ""},
		{"poll_oneoff", []uint64{beyond, out, 1, out}, errnoFault, ""},
		{"poll_oneoff", []uint64{1024, beyond, 1, out}, errnoFault, ""},
		{"poll_oneoff", []uint64{1024, out, 1, 4096}, errnoSuccess, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff" + string(make([]byte, 21))}, // of a type that does not exist
		{"fd_write", []uint64{2, 1024, maxVectors + 1, out}, errnoInval, ""},
		{"fd_write", []uint64{2, beyond, 1, out}, errnoFault, ""},
		{"fd_write", []uint64{2, 1024, 1, beyond}, errnoFault, ""},
		{"fd_write", []uint64{2, 1032, 1, out}, errnoFault, ""}, // the vector there points outside
	}
	for _, sizes := range []string{"args_sizes_get", "environ_sizes_get"} {
		all = append(all,
			wasiAnswer{sizes, []uint64{out, out + 4}, errnoSuccess, "\x00\x00\x00\x00\x00\x00\x00\x00"},
			wasiAnswer{sizes, []uint64{beyond + 1, out}, errnoFault, ""})
	}
	for _, fd := range []uint64{0, 1, 2, 3, 4, 1<<32 - 1} {
		all = append(all,
			wasiAnswer{"fd_write", []uint64{fd, 1024, 1, out}, errnoSuccess, "\x00\x00\x00\x00"},
			wasiAnswer{"fd_close", []uint64{fd}, errnoBadf, ""},
			wasiAnswer{"fd_fdstat_get", []uint64{fd, out}, errnoBadf, ""},
			wasiAnswer{"fd_fdstat_set_flags", []uint64{fd, 4}, errnoBadf, ""},
			wasiAnswer{"fd_prestat_get", []uint64{fd, out}, errnoBadf, ""},
			wasiAnswer{"fd_prestat_dir_name", []uint64{fd, out, 16}, errnoBadf, ""})
	}
	return all
}

// TestWASIAnswers checks what each function of WASI returns, and that it writes nothing else.
func TestWASIAnswers(t *testing.T) {
	tested := map[string]bool{"proc_exit": true} // TestWASIHostile: it does not return
	for _, c := range wasiAnswers() {
		tested[c.function] = true
		name := fmt.Sprintf("%s(%d)", c.function, c.args)
		f := functionNamed(t, c.function)
		if len(f.params) != len(c.args) {
			t.Fatalf("%s: it has %d parameters", name, len(f.params))
		}
		body := abitest.I32Const(8192)
		for i, arg := range c.args {
			if f.params[i] == i64 {
				body = append(body, abitest.I64Const(arg)...)
			} else {
				body = append(body, abitest.I32Const(uint32(arg))...)
			}
		}
		body = append(append(body, abitest.Call(0)...), 0x36, 2, 0) // i32.store
		data := make([]byte, 1024)
		copy(data[8:], "\xff\xff\xff\xff\xff\xff\xff\xff")
		data = append(data, bytes.Repeat([]byte{0xee}, 64)...)
		memory := memoryAfter(t, newSandbox(t, Options{Guest: wasiGuest(body, data, c.function)}))
		if errno := binary.LittleEndian.Uint32(memory[8192:]); errno != c.errno {
			t.Errorf("%s returns %d, want %d", name, errno, c.errno)
		}
		if got := string(bytes.TrimRight(memory[2048:2048+64], "\xee")); got != c.written {
			t.Errorf("%s writes %q, want %q", name, got, c.written)
		}
	}
	for _, f := range wasiFunctions {
		if !tested[f.name] {
			t.Errorf("%s is not tested", f.name)
		}
	}
}

// memoryAfter runs the guest of a sandbox and returns its first page of memory.
func memoryAfter(t *testing.T, s *Sandbox) []byte {
	t.Helper()
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	i := newInstance(Run{Caller: &fakeCaller{}}, s.log)
	defer i.close()
	if err := i.start(context.Background(), s.base); err != nil {
		t.Fatal(err)
	}
	if _, err := i.call(context.Background(), abi.ExportRun); err != nil {
		t.Fatal(err)
	}
	b, ok := i.module.Memory().Read(0, 1<<16)
	if !ok {
		t.Fatal("no memory")
	}
	return bytes.Clone(b)
}

func functionNamed(t *testing.T, name string) hostFunction {
	t.Helper()
	for _, f := range wasiFunctions {
		if f.name == name {
			return f
		}
	}
	t.Fatalf("there is no function %s", name)
	return hostFunction{}
}

// TestOtherWASIFunctions checks that a guest that imports a function to which we give nothing is
// refused, before it runs.
func TestOtherWASIFunctions(t *testing.T) {
	for _, name := range []string{"path_open", "fd_read", "sock_accept", "fd_readdir", "proc_raise", "clock_res_get"} {
		m := abitest.Module{
			Imports: []abitest.Import{{Module: wasiModule, Name: name, Signature: abitest.Signature{Results: []abitest.ValueType{abitest.I32}}}},
			Functions: []abitest.Function{
				{Export: abi.ExportInitialize},
				{Export: abi.ExportVersion, Signature: abitest.Signature{Results: []abitest.ValueType{abitest.I32}}, Body: abitest.I32Const(abi.Version)},
				{Export: abi.ExportRun},
			},
			Pages: 1, Memory: abi.ExportMemory,
		}
		_, err := newSandbox(t, Options{Guest: m.Encode()}).Run(context.Background(), Run{Caller: &fakeCaller{}})
		if err == nil || !strings.Contains(err.Error(), "guest refused: the guest imports wasi_snapshot_preview1."+name) {
			t.Errorf("a guest with %s: %v", name, err)
		}
	}
}
