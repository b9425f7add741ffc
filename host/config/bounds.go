package config

import "time"

// Bounds that catch slips of the pen.
const (
	minTimeout     = time.Millisecond
	maxTimeout     = 24 * time.Hour
	maxStartupWait = time.Hour
	minMaxMemory   = 16 << 20              // the guest needs some for itself
	maxMaxMemory   = 4 << 30               // all that wasm32 can address
	minTotalMemory = 32 << 20              // a few scripts
	maxTotalMemory = 1 << 50               // a slip of the pen
	minMaxFuel     = 10_000_000            // what a script needs that does little
	maxMaxFuel     = 1_000_000_000_000_000 // days
	maxConcurrent  = 10_000
	maxMaxParallel = 1000 // abi.MaxBatch
	maxUndoTimeout = time.Hour
	maxMaxQueued   = 1_000_000
	maxMaxCalls    = 1_000_000
	minMessageSize = 1 << 10   // of what scripts send and get
	maxMessageSize = 256 << 20 // abi.MaxMessage
	minMaxMessage  = 1 << 10
	maxMaxMessage  = 1 << 30

	minSessionTTL   = time.Second
	maxSessionTTL   = 7 * 24 * time.Hour
	maxMaxSessions  = 1_000_000
	maxResumeWindow = time.Hour

	maxInitializeRate = 1_000_000
	maxMaxConnections = 1_000_000

	maxProbeTimeout = 10 * time.Minute
	maxPort         = 65535

	minJournalSize  = 64 << 10
	maxJournalSize  = 1 << 40
	maxJournalTotal = 1 << 50
	minJournalAge   = time.Hour
	maxJournalAge   = 100 * 365 * 24 * time.Hour
)
