// Package abi is the contract between the host and the wasm guest: the names
// and signatures of the functions that cross the boundary, their codes, their
// messages and their limits. It is the reference page for both sides and
// imports only the standard library.
//
// # Memory and ownership
//
// The guest owns all of its linear memory. A host function that hands bytes
// over is given a buffer (ptr, cap) by the guest, answers with the true length,
// and writes only when that length fits in cap; the guest then calls again with
// a larger buffer. A host function that takes bytes is given (ptr, len), copies
// them before it does anything else, and never keeps a pointer. Every ptr, cap
// and len is an unsigned 32-bit number; a range outside the guest's memory ends
// the instance (the guest is at fault and is not asked again).
//
// # Results
//
// Every host function but FuncFuelOut returns one i64: a [Code] in the upper 32
// bits and a length or count in the lower 32 bits. Worked numbers:
//
//	0x0000_0000_0000_0005  code OK (0), length 5
//	0x0000_0001_0000_012c  code ToolError (1), 300 bytes of [CallError] JSON
//	0x0000_0002_0000_0000  code Invalid (2), nothing to read
//	0x0000_0003_0000_0000  code Limit (3), nothing to read
//
// Worked calls, with a request of 300 bytes:
//
//	request_read(0, 0)          0x0000_0000_0000_012c  its length
//	request_read(0x2000, 256)   0x0000_0000_0000_012c  nothing was written
//	request_read(0x2000, 512)   0x0000_0000_0000_012c  0x2000 to 0x212b hold it
//	call_tools(0x3000, 120)     0x0000_0000_0000_0002  two answers wait
//	answer_read(1, 0x4000, 64)  0x0000_0001_0000_0025  37 bytes of CallError
//	answer_read(1, 0x4000, 64)  0x0000_0002_0000_0000  it has been fetched
//
// # Messages
//
// All messages are JSON (RFC 8259) in UTF-8. The host refuses one that is not a
// single valid value, repeats a name in an object, has a member that its type
// here does not have, or is nested deeper than [MaxDepth] beyond what the
// message itself adds. Nothing is written into the guest's memory but through a
// buffer that the guest passed for it.
//
// # The guest
//
// A guest is a WebAssembly module with exactly the exports below and no imports
// but the functions of [HostModule] and the ones of WASI preview 1 that Go's
// runtime needs; those reach nothing (package sandbox, wasi.go). It has one
// memory, which it owns.
//
// The host initialises an instance ([ExportInitialize]), asks for its version,
// lets it serve some requests of its own, and takes a snapshot: the memory and
// the globals of [ExportStatePrefix]. Each run goes on from that snapshot in an
// instance of its own, which serves one request ([ExportRun]) and is dropped.
// So a guest must not rely on anything but its memory and globals.
//
// # Fuel
//
// A guest is metered by a step of its build. Metered code subtracts what it is
// about to do from the global [ExportFuel], one unit for each instruction and
// more for what takes long (package rewrite, cost.go), and calls [FuncFuelOut]
// at the entry of a function or the head of a loop where it finds the global
// below zero. The host fills it in slices; it also subtracts for its own work on
// the guest's messages (package sandbox, functions.go). Worked numbers, for
// slices of 1,048,576 units and a limit of 10,000,000:
//
//	before run      fuel = 1,048,576, of the limit 8,951,424 are left
//	fuel_out at -5  the next slice, less 5: fuel = 1,048,576, 7,902,843 are left
//	fuel_out at -7 with 3 left: the run ends, 10,000,000 units used
//
// The same request, limits and answers use the same fuel in any process.
//
// # Concurrency
//
// One instance runs one script on one thread; host functions are never entered
// concurrently for the same instance.
package abi

// Version is the version of this contract. The guest exports it through
// [ExportVersion]; a host refuses a guest of any other version.
const Version = 1

// HostModule is the import module name of all host functions.
const HostModule = "metatool"

const (
	// FuncRequestRead (ptr, cap i32) -> i64 hands over the run's [Request] as
	// JSON. Code OK with the true length, always; the bytes are written only if
	// they fit in cap, so (0, 0) asks for the length.
	FuncRequestRead = "request_read"

	// FuncCallTools (ptr, len i32) -> i64 takes a JSON array of one or more
	// [ToolCall], runs them concurrently and returns once all are answered.
	// Code OK with the number of answers, which equals the number of calls and
	// keeps their order; each waits to be fetched with FuncAnswerRead. Answers
	// of an earlier batch that were not fetched are dropped.
	// Code Invalid: the bytes are not such an array, it has more than
	// [MaxBatch] calls, or the response was written already. Code Limit: the
	// run has reached a limit (number of calls, bytes in a batch, or one met
	// before); none of the batch was made. A limit that was met is final: all
	// later batches get Limit too, and the run ends in that limit whatever the
	// guest responds.
	//
	// An answer over the limit of the run is not handed over: its place has a
	// CallError of type [ErrResource].
	FuncCallTools = "call_tools"

	// FuncAnswerRead (index, ptr, cap i32) -> i64 fetches the answer to call
	// number index of the last batch. Code OK: the bytes are the JSON value the
	// call returned. Code ToolError: they are a [CallError]. The length is the
	// true one; the bytes are written only if they fit in cap, and the host
	// then lets go of the answer: it can be fetched once.
	// Code Invalid: there is no such answer (any more).
	FuncAnswerRead = "answer_read"

	// FuncUndo (ptr, len i32) -> i64 takes one [ToolCall] as JSON, to be made if
	// the run ends by an error, cancellation or a limit: the host then makes all
	// such calls one by one, the last taken first. Code OK. Code ToolError with
	// the number 1: the call cannot be made ever; why is a [CallError], to be
	// fetched as answer 0 with FuncAnswerRead. Code Invalid: the bytes are not
	// such a call, or the response was written already. Code Limit: as for
	// FuncCallTools; each counts as a call, and all that are not committed
	// together as one batch. Answers that were not fetched are dropped.
	FuncUndo = "undo"

	// FuncCommit () -> i64 drops the calls that FuncUndo has taken. Code OK;
	// Invalid when the response was written already.
	FuncCommit = "commit"

	// FuncProgress (ptr, len i32) -> i64 takes a [Progress] as JSON and reports
	// it to whoever called the tool. Code OK; Invalid when the bytes are no
	// such message, or more than [MaxProgress], or the response was written
	// already.
	FuncProgress = "progress"

	// FuncLog (level, ptr, len i32) -> i64 takes one entry of the script's log,
	// UTF-8 text of [LogLevel] level. Code OK; Code Limit when the log is full
	// (that entry and all later ones are not kept; the run goes on); Code
	// Invalid when there is no such level, the text is not UTF-8, or the
	// response was written already.
	FuncLog = "log"

	// FuncResponseWrite (kind, ptr, len i32) -> i64 ends the run's business:
	// kind [ResponseResult] with the JSON of the result, or kind
	// [ResponseError] with an [Error] as JSON. Code OK; Invalid when a response
	// was written before, there is no such kind, or the bytes are not what kind
	// says (no error of type [ErrCancelled]: only the host knows of that); Limit
	// when they are more than a result may have: the guest may then write a
	// smaller error, but a result that was too large is a limit that was met.
	FuncResponseWrite = "response_write"

	// FuncFuelOut () is called by metered code when the fuel slice is used up,
	// that is, where it finds [ExportFuel] below zero. It refills the slice or
	// ends the instance. The build step that meters a guest imports it; a guest
	// does not call it itself.
	FuncFuelOut = "fuel_out"
)

const (
	// ExportVersion () -> i32 returns Version.
	ExportVersion = "abi_version"
	// ExportInitialize () starts the guest's runtime; called once per instance
	// (or once per snapshot), before ExportRun.
	ExportInitialize = "_initialize"
	// ExportRun () serves one request: reads it, runs it, writes the response.
	// A guest may be asked to serve one request after the other; the host does
	// so to warm up an instance before it takes a snapshot of it, and runs
	// scripts in copies of that snapshot, one each.
	ExportRun = "run"
	// ExportMemory is the guest's linear memory.
	ExportMemory = "memory"
	// ExportFuel is the guest's fuel counter, a mutable i64 that metered code
	// counts down.
	ExportFuel = "fuel"
	// ExportStatePrefix begins the names of the mutable globals, numbered from
	// 0: with the memory, they are all the state an instance has between calls.
	ExportStatePrefix = "state:"
)

// Code is the upper half of a host function's result.
type Code uint32

// The codes. They never change their number within a Version.
const (
	OK        Code = 0 // done; the lower half is a length or a count
	ToolError Code = 1 // the answer is a CallError
	Invalid   Code = 2 // the guest broke the contract; see the function
	Limit     Code = 3 // a limit of the run is reached; see the function
)

// Kinds of response for FuncResponseWrite.
const (
	ResponseResult uint32 = 0
	ResponseError  uint32 = 1
)

// Pack joins a code and a length into a host function's result.
func Pack(c Code, n uint32) uint64 { return uint64(c)<<32 | uint64(n) }

// Unpack splits a host function's result.
func Unpack(r uint64) (Code, uint32) { return Code(r >> 32), uint32(r) }

// LogLevel is the severity of a log entry.
type LogLevel uint32

// The log levels; print() writes LogInfo.
const (
	LogInfo  LogLevel = 0
	LogWarn  LogLevel = 1
	LogError LogLevel = 2
)

// Hard bounds of version 1. A run's own limits are at or below them.
const (
	// MaxMessage is the largest number of bytes in one message either way.
	MaxMessage = 256 << 20
	// MaxDepth is the deepest nesting of JSON either side accepts.
	MaxDepth = 1000
	// MaxFrames is how deep a script's calls may nest before the guest ends it.
	MaxFrames = 1000
	// MaxChain is how many composite tools may call one another in a row.
	MaxChain = 8
	// MaxBatch is the largest number of calls in one batch.
	MaxBatch = 1000
	// MaxProgress is the largest number of bytes in one Progress message.
	MaxProgress = 64 << 10
)
