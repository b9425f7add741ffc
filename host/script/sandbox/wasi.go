package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The Go runtime imports 20 functions of WASI preview 1. They have no effect outside the instance:
// files, arguments and environment do not exist, time is a counter, random numbers are a fixed
// sequence, and writes to any descriptor are kept for error messages. Errors are errno values of
// preview 1.
//
// https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/docs.md
const wasiModule = "wasi_snapshot_preview1"

const (
	errnoSuccess = 0
	errnoBadf    = 8
	errnoFault   = 21
	errnoInval   = 28
)

const (
	// clockTick is the step of the clock at each reading, in nanoseconds. So the clock moves, as
	// Go's scheduler and garbage collector expect, and is the same in each run.
	clockTick = 1000
	// maxStderr is how many bytes of the guest's stderr are kept.
	maxStderr = 4096
	// maxVectors limits the buffers of a write and the subscriptions of a poll; the Go runtime uses
	// one or two.
	maxVectors = 1024
)

// wasiState is the state of the functions below for an instance.
type wasiState struct {
	clock  uint64 // nanoseconds
	random uint64
	stderr []byte
}

// firstLine returns the first line of stderr, printable and short.
func (w *wasiState) firstLine() string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(w.stderr), []byte("\n"))
	return excerpt(line)
}

// fatal returns the Go runtime's fatal error, the text of the line that begins with "fatal error:
// ".
func (w *wasiState) fatal() string {
	for line := range bytes.Lines(w.stderr) {
		if text, ok := bytes.CutPrefix(line, []byte("fatal error: ")); ok {
			return excerpt(bytes.TrimSpace(text))
		}
	}
	return ""
}

// excerpt returns the start of a text of the guest, for an error message.
func excerpt(b []byte) string { return display.Excerpt(string(b), 200) }

var wasiFunctions = []hostFunction{
	{"args_get", types(i32, i32), types(i32), answer(errnoSuccess)},
	{"args_sizes_get", types(i32, i32), types(i32), zeroSizes},
	{"environ_get", types(i32, i32), types(i32), answer(errnoSuccess)},
	{"environ_sizes_get", types(i32, i32), types(i32), zeroSizes},
	{"clock_time_get", types(i32, i64, i32), types(i32), clockTimeGet},
	{"random_get", types(i32, i32), types(i32), randomGet},
	{"poll_oneoff", types(i32, i32, i32, i32), types(i32), pollOneoff},
	{"sched_yield", nil, types(i32), answer(errnoSuccess)},
	{"proc_exit", types(i32), nil, procExit},
	{"fd_write", types(i32, i32, i32, i32), types(i32), fdWrite},
	{"fd_close", types(i32), types(i32), answer(errnoBadf)},
	{"fd_fdstat_get", types(i32, i32), types(i32), answer(errnoBadf)},
	{"fd_fdstat_set_flags", types(i32, i32), types(i32), answer(errnoBadf)},
	{"fd_prestat_get", types(i32, i32), types(i32), answer(errnoBadf)},
	{"fd_prestat_dir_name", types(i32, i32, i32), types(i32), answer(errnoBadf)},
}

// answer returns a function that always returns the same errno.
func answer(errno uint64) func(context.Context, *instance, []uint64) {
	return func(_ context.Context, _ *instance, stack []uint64) { stack[0] = errno }
}

func errnoOf(ok bool) uint64 {
	if ok {
		return errnoSuccess
	}
	return errnoFault
}

// zeroSizes (count, size *u32): zero for both.
func zeroSizes(_ context.Context, i *instance, stack []uint64) {
	mem := i.module.Memory()
	stack[0] = errnoOf(mem.WriteUint32Le(uint32(stack[0]), 0) && mem.WriteUint32Le(uint32(stack[1]), 0))
}

// clockTimeGet (id i32, precision i64, time *u64): every clock is the counter.
func clockTimeGet(_ context.Context, i *instance, stack []uint64) {
	i.wasi.clock += clockTick
	stack[0] = errnoOf(i.module.Memory().WriteUint64Le(uint32(stack[2]), i.wasi.clock))
}

// randomGet (buf, len): the same bytes in each run. Scripts have no random numbers; the Go runtime
// seeds hash maps with these.
func randomGet(_ context.Context, i *instance, stack []uint64) {
	buf, ok := i.module.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	for n := range buf {
		// splitmix64, a step for each byte.
		i.wasi.random += 0x9e3779b97f4a7c15
		z := i.wasi.random
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		buf[n] = byte(z >> 56)
	}
	stack[0] = errnoOf(ok)
}

// fdWrite (fd, iovs, iovs_len, nwritten *u32): accepts everything and keeps the first bytes.
func fdWrite(_ context.Context, i *instance, stack []uint64) {
	mem := i.module.Memory()
	vectors, count, written := uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if count > maxVectors {
		stack[0] = errnoInval
		return
	}
	list, ok := mem.Read(vectors, count*8)
	if !ok {
		stack[0] = errnoFault
		return
	}
	var total uint32
	for ; len(list) > 0; list = list[8:] {
		ptr, n := binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:])
		b, ok := mem.Read(ptr, n)
		if !ok {
			stack[0] = errnoFault
			return
		}
		total += n
		i.wasi.stderr = append(i.wasi.stderr, b[:min(len(b), maxStderr-len(i.wasi.stderr))]...)
	}
	stack[0] = errnoOf(mem.WriteUint32Le(written, total))
}

// pollOneoff (in, out, nsubscriptions, nevents *u32): all events have happened, and the clock is
// advanced to the time of a clock event. pollOneoff reads the members of a subscription (48 bytes):
// userdata at 0, type at 8, timeout at 24 and flags at 40; and writes the members of an event (32
// bytes): userdata at 0, errno at 8 and type at 10.
func pollOneoff(_ context.Context, i *instance, stack []uint64) {
	mem := i.module.Memory()
	in, out, count, events := uint32(stack[0]), uint32(stack[1]), uint32(stack[2]), uint32(stack[3])
	if count == 0 || count > maxVectors {
		stack[0] = errnoInval
		return
	}
	subscriptions, ok := mem.Read(in, count*48)
	list, ok2 := mem.Read(out, count*32)
	if !ok || !ok2 {
		stack[0] = errnoFault
		return
	}
	const clock, absolute = 0, 1
	for n := range int(count) {
		s, e := subscriptions[n*48:][:48], list[n*32:][:32]
		userdata, kind := binary.LittleEndian.Uint64(s), s[8]
		if timeout := binary.LittleEndian.Uint64(s[24:]); kind == clock {
			if s[40]&absolute == 0 {
				timeout += i.wasi.clock
			}
			i.wasi.clock = max(i.wasi.clock, timeout)
		}
		clear(e)
		binary.LittleEndian.PutUint64(e, userdata)
		e[10] = kind
	}
	stack[0] = errnoOf(mem.WriteUint32Le(events, count))
}

// procExit (code) ends the instance: a guest must return from an export instead.
func procExit(_ context.Context, i *instance, stack []uint64) {
	i.end(i.trap(fmt.Sprintf("it exited with code %d", uint32(stack[0]))))
}
