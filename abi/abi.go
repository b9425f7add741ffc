// Package abi is the contract between the host and the wasm guest: the names
// and signatures of the functions that cross the boundary, their codes, their
// messages and their limits. It is the reference for both sides and imports only
// the standard library.
//
//	abi.go       functions, exports, codes, limits
//	message.go   requests, calls, answers, errors
//	lint.go      the result of OpLint
//	ident.go     from names of servers and tools to names in scripts
//	reserved.go  names that no server can have
//
// # Memory and ownership
//
// The guest owns all of its linear memory. To read bytes from the host, the guest
// passes a buffer (ptr, cap). The host function returns the true length, and
// writes the bytes only if they fit in cap; if not, the guest calls again with a
// larger buffer. To pass bytes to the host, the guest passes (ptr, len). The host
// copies them before it does anything else and never keeps a pointer. Each ptr,
// cap and len is an unsigned 32-bit number. A range outside the guest's memory
// ends the instance, as a fault of the guest.
//
// # Results
//
// Every host function except FuncFuelOut returns one i64: a [Code] in the upper 32
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
//	call_tools(0x3000, 120)     0x0000_0000_0000_0002  there are two answers
//	answer_read(1, 0x4000, 64)  0x0000_0001_0000_0025  37 bytes of CallError
//	answer_read(1, 0x4000, 64)  0x0000_0002_0000_0000  it was fetched before
//
// # Messages
//
// All messages but tapes are JSON (RFC 8259) in UTF-8. The host refuses one that is not a
// single valid value, repeats a name in an object, has a member that its type
// here does not have, or is nested deeper than [MaxDepth] beyond what the
// message itself adds. The host writes into the guest's memory only through
// buffers that the guest passed.
//
// # The guest
//
// A guest is a WebAssembly module with exactly the exports below. It imports only
// functions of [HostModule] and the functions of WASI preview 1 that Go's runtime
// needs, which have no effect outside the guest (package sandbox). It has one memory,
// which it owns.
//
// The host initialises an instance ([ExportInitialize]), asks for its version,
// lets it serve some requests of its own, and takes a snapshot: the memory and
// the globals of [ExportStatePrefix]. Each run continues from that snapshot in an
// instance of its own, which serves one request ([ExportRun]), or its two halves
// ([OpPrepare], [OpExecute]). After the first half the host can take the state
// again, from which other runs of the same code continue. At the end of the run it drops
// the instance, or restores it to one of these states. So a guest must rely only on its
// memory and globals.
//
// # Fuel
//
// A guest is metered by a step of its build. Metered code subtracts the cost of
// the next instructions from the global [ExportFuel]: one unit for each
// instruction, more for slow ones (package rewrite). At the entry of a
// function or the head of a loop, if the global is below zero, it calls
// [FuncFuelOut]. The host refills the global in slices. It also subtracts the
// cost of its own work on the guest's messages (package sandbox).
// Worked numbers, for slices of 1,048,576 units and a limit of 10,000,000:
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
	// keeps their order; each can be fetched with FuncAnswerRead
	// or FuncAnswerTape. Answers to an earlier batch that were not fetched are dropped.
	// Code Invalid: the bytes are not such an array, it has more than
	// [MaxBatch] calls, or the response was written already. Code Limit: the
	// run has reached a limit (number of calls, bytes in a batch, or an earlier
	// one); no call of the batch was made. Reaching a limit is final: all later
	// batches get Limit too, and the run ends with that limit, whatever response the
	// guest writes.
	//
	// An answer larger than the run's limit is replaced by a CallError of type
	// [ErrResource].
	FuncCallTools = "call_tools"

	// FuncAnswerRead (index, ptr, cap i32) -> i64 fetches the answer to call
	// number index of the last batch. Code OK: the bytes are the JSON value the
	// call returned. Code ToolError: they are a [CallError]. The length is the
	// true one. The bytes are written only if they fit in cap; then the host
	// drops the answer, so that it can be fetched once.
	// Code Invalid: there is no such answer, or it was fetched before.
	FuncAnswerRead = "answer_read"

	// FuncAnswerTape (index, ptr, cap i32) -> i64 is FuncAnswerRead with the value as
	// a tape (package tape), which takes less to read than JSON. Code OK: the bytes
	// are the tape. Code ToolError: they are a [CallError]. Code Invalid: there is no
	// such answer, it was fetched before, or it has no tape because the value is long
	// or not valid. Then it can still be fetched with FuncAnswerRead.
	FuncAnswerTape = "answer_tape"

	// FuncUndo (ptr, len i32) -> i64 registers one [ToolCall], as JSON, that the
	// host makes if the run ends with an error, a cancellation or a limit. It
	// makes all such calls one by one, the last registered first. Code OK. Code
	// ToolError with the number 1: the call can never be made; the reason is a
	// [CallError], to be fetched as answer 0 with FuncAnswerRead. Code Invalid:
	// the bytes are not such a call, or the response was written already. Code
	// Limit: as for FuncCallTools. Each counts as a call, and all that are not
	// committed count together as one batch. Answers that were not fetched are
	// dropped.
	FuncUndo = "undo"

	// FuncCommit () -> i64 drops the calls registered with FuncUndo. Code OK;
	// Invalid when the response was written already.
	FuncCommit = "commit"

	// FuncProgress (ptr, len i32) -> i64 takes a [Progress] as JSON and reports
	// it to the caller of the tool. Code OK; Invalid when the bytes are not such
	// a message, or more than [MaxProgress], or the response was written already.
	FuncProgress = "progress"

	// FuncLog (level, ptr, len i32) -> i64 takes one entry of the script's log,
	// UTF-8 text of [LogLevel] level. Code OK; Code Limit when the log is full
	// (that entry and all later ones are dropped; the run continues); Code
	// Invalid when there is no such level, the text is not UTF-8, or the
	// response was written already.
	FuncLog = "log"

	// FuncResponseWrite (kind, ptr, len i32) -> i64 writes the response of the
	// run: kind [ResponseResult] with the JSON of the result, or kind
	// [ResponseError] with an [Error] as JSON. Code OK; Invalid when a response
	// was written before, there is no such kind, or the bytes are not of that
	// kind (an error of type [ErrCancelled] is not accepted: only the host knows
	// of cancellations); Limit when there are more bytes than a result may have.
	// The guest can then write a smaller error, but after a result that was too
	// large the run ends with that limit.
	FuncResponseWrite = "response_write"

	// FuncFuelOut () is called by metered code when the fuel slice is used up,
	// that is, when [ExportFuel] is below zero. It refills the slice or ends the
	// instance. The build step that meters a guest adds the import; a guest does
	// not call it itself.
	FuncFuelOut = "fuel_out"
)

const (
	// ExportVersion () -> i32 returns Version.
	ExportVersion = "abi_version"
	// ExportInitialize () starts the guest's runtime; called once per instance
	// (or once per snapshot), before ExportRun.
	ExportInitialize = "_initialize"
	// ExportRun () serves one request: reads it, runs it, writes the response.
	// A guest may have to serve several requests, one after the other: the host
	// does so to warm up an instance before it takes a snapshot of it. It runs
	// each script in a copy of that snapshot.
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
