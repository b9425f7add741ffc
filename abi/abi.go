// Package abi is the contract between the host and the wasm guest: the names and signatures of the
// functions across the boundary, their codes, messages and limits. docs/abi.md explains the
// contract, with worked numbers. Begin with [FuncCallTools] and the other functions, and [Request],
// the guest's task.
//
// The guest owns all of its memory, and the host never keeps a pointer into it. The same request,
// limits and answers use the same fuel in any process. Host functions are never entered
// concurrently for the same instance. The package imports only the standard library.
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

	// FuncCallTools (ptr, len i32) -> i64 takes a JSON array of one or more [ToolCall], runs them
	// concurrently and returns once all calls are answered. Code OK with the number of answers,
	// which equals the number of calls and keeps their order; each can be fetched with
	// FuncAnswerRead or FuncAnswerTape. Unfetched answers to an earlier batch are dropped. Code
	// Invalid: the bytes are not an array of ToolCall, the array has more than [MaxBatch] calls, or
	// the response was written already. Code Limit: the run has reached a limit (number of calls,
	// bytes in a batch, or an earlier limit); no call of the batch was made. Reaching a limit is
	// final: all later batches get Limit too, and the run ends with the limit, whatever response
	// the guest writes.
	//
	// An answer larger than the run's limit is replaced by a CallError of type [ErrResource].
	FuncCallTools = "call_tools"

	// FuncAnswerRead (index, ptr, cap i32) -> i64 fetches the answer to call number index of the
	// last batch. Code OK: the bytes are the JSON value the call returned. Code ToolError: they are
	// a [CallError]. The length is the true length. The bytes are written only if they fit in cap;
	// then the host drops the answer, so an answer can be fetched once. Code Invalid: the answer
	// does not exist, or was fetched before.
	FuncAnswerRead = "answer_read"

	// FuncAnswerTape (index, ptr, cap i32) -> i64 is FuncAnswerRead with the value as a tape
	// (package tape), which is faster to read than JSON. Code OK: the bytes are the tape. Code
	// ToolError: they are a [CallError]. Code Invalid: the answer does not exist, was fetched
	// before, or has no tape because the value is long or invalid. In the last case, FuncAnswerRead
	// can still fetch the answer.
	FuncAnswerTape = "answer_tape"

	// FuncUndo (ptr, len i32) -> i64 registers one [ToolCall], as JSON, for the host to make if the
	// run ends with an error, a cancellation or a limit. The host makes the registered calls one by
	// one, the last registered first. Code OK. Code ToolError with the number 1: the call can never
	// be made; the reason is a [CallError], to be fetched as answer 0 with FuncAnswerRead. Code
	// Invalid: the bytes are not a ToolCall, or the response was written already. Code Limit: as
	// for FuncCallTools. Each counts as a call, and all uncommitted calls count together as one
	// batch. Unfetched answers are dropped.
	FuncUndo = "undo"

	// FuncCommit () -> i64 drops the calls registered with FuncUndo. Code OK;
	// Invalid when the response was written already.
	FuncCommit = "commit"

	// FuncProgress (ptr, len i32) -> i64 takes a [Progress] as JSON for a report to the caller of
	// the tool. Code OK; Invalid when the bytes are not a Progress, or more than [MaxProgress], or
	// the response was written already.
	FuncProgress = "progress"

	// FuncLog (level, ptr, len i32) -> i64 takes an entry of the script's log, UTF-8 text of
	// [LogLevel] level. Code OK; Code Limit when the log is full (the entry and all later entries
	// are dropped; the run continues); Code Invalid when the level does not exist, the text is not
	// UTF-8, or the response was written already.
	FuncLog = "log"

	// FuncResponseWrite (kind, ptr, len i32) -> i64 writes the response of the run: kind
	// [ResponseResult] with the JSON of the result, or kind [ResponseError] with an [Error] as
	// JSON. Code OK; Invalid when a response was written before, the kind does not exist, or the
	// bytes are not of the given kind (an error of type [ErrCancelled] is not accepted: only the
	// host knows of cancellations); Limit when the bytes are more than a result may have. The guest
	// can then write a smaller error, but after a result that was too large the run ends with the
	// limit.
	FuncResponseWrite = "response_write"

	// FuncFuelOut () is called by metered code when the fuel slice is used up, which means
	// [ExportFuel] is below zero. It refills the slice or ends the instance. The metering step of
	// the build adds the import; a guest does not call it directly.
	FuncFuelOut = "fuel_out"
)

const (
	// ExportVersion () -> i32 returns Version.
	ExportVersion = "abi_version"
	// ExportInitialize () starts the guest's runtime; called once per instance
	// (or once per snapshot), before ExportRun.
	ExportInitialize = "_initialize"
	// ExportRun () serves one request: reads it, runs it, writes the response. A guest may have to
	// serve several requests, one after the other: the host does so to warm up an instance before
	// taking a snapshot. The host runs each script in a copy of the snapshot.
	ExportRun = "run"
	// ExportMemory is the guest's linear memory.
	ExportMemory = "memory"
	// ExportFuel is the guest's fuel counter, a mutable i64 counted down by metered code.
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
	// MaxMessage is the largest number of bytes in a message either way.
	MaxMessage = 256 << 20
	// MaxDepth is the deepest nesting of JSON either side accepts.
	MaxDepth = 1000
	// MaxFrames is how deep a script's calls may nest before the guest ends the script.
	MaxFrames = 1000
	// MaxChain is how many composite tools may call one another in a row.
	MaxChain = 8
	// MaxBatch is the largest number of calls in a batch.
	MaxBatch = 1000
	// MaxProgress is the largest number of bytes in a Progress message.
	MaxProgress = 64 << 10
)
