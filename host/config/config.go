// Package config reads the configuration of mcp-metatool, in TOML or in the
// JSON of the product's specification, into one [Config] value, and keeps the
// secrets in it out of every text a person or a log gets to see.
//
// The way of a file:
//
//	load.go      which file, which environment variables, in which order
//	toml.go      TOML text  \
//	json.go      JSON text  /-> node.go: one tree of values for both
//	table.go     typed reading of that tree; every key that is asked for is
//	             known, every other one is a problem with the nearest known key
//	decode.go    the keys there are, their defaults and bounds -> Config
//	expand.go    ${VAR} and ${VAR:-default} in strings
//	bounds.go    the bounds of values
//	problem.go   what is wrong, and where
//	secrets.go   which parts of a value are secret
//	mask.go      Masker: replaces secrets in texts
//	maskslog.go  a log/slog handler in front of which nothing secret gets past
//	describe.go  what `mcp-metatool check` prints
//
// A new setting is a field in Config and a line in decode.go; a new section
// ([http], [journal]) is a function there. docs/configuration.md is the
// reference for users; a test loads each of its examples.
//
// Nothing here starts, watches or connects to anything.
package config

import (
	"path"
	"strings"
	"time"
)

// The values of settings that are not set.
const (
	DefaultStartupWait     = 5 * time.Second
	DefaultMaxMessage      = 64 << 20 // bytes
	DefaultTimeout         = 30 * time.Second
	DefaultMaxMemory       = 128 << 20 // bytes
	DefaultMaxFuel         = 10_000_000_000
	DefaultMaxCalls        = 1000
	DefaultMaxArguments    = 16 << 20 // bytes
	DefaultMaxAnswer       = 16 << 20 // bytes
	DefaultMaxResult       = 16 << 20 // bytes
	DefaultMaxLogs         = 1 << 20  // bytes
	DefaultMaxQueued       = 10_000
	DefaultUpstreamTimeout = 60 * time.Second
)

// Config is everything that is configurable, checked, expanded and with its
// defaults filled in. Nothing here changes it once [Load] has returned it, so
// that any number of goroutines may read it.
type Config struct {
	// Path is the file the configuration came from, as it was named (flag,
	// environment) or found; "" when there is none.
	Path string
	// Searched are the files that were looked for when Path is "".
	Searched []string
	// Debug puts stacks into errors and debug entries into the log.
	Debug bool
	// StartupWait is how long tools/list waits for upstreams that are still
	// starting. Zero means not at all.
	StartupWait time.Duration
	// MaxMessage is the largest JSON-RPC message in bytes, either way.
	MaxMessage int64

	Execution Execution
	Store     Store
	// Upstreams are the upstream servers in the order of the file, disabled
	// ones included.
	Upstreams []Upstream
	// Secrets are the texts that must not be shown: values of ${VAR} in
	// arguments and environments, and what looks like a secret without being
	// one of those. No duplicates, none shorter than [MinSecret] bytes,
	// longest first.
	Secrets []string

	// shown has the masked form of each value that holds a secret of any
	// length, by key path; see Describe.
	shown map[string]string
	// warnings found while loading; see Warnings.
	warnings []string
}

// Execution limits one call of a composite tool, and all of them together.
type Execution struct {
	// Timeout is wall-clock time.
	Timeout time.Duration
	// MaxMemory is the guest's linear memory in bytes.
	MaxMemory uint64
	// MaxFuel is how much the script may compute, in units of the sandbox's
	// meter.
	MaxFuel uint64
	// MaxCalls is how many tool calls the script may make.
	MaxCalls int
	// MaxArguments, MaxAnswer, MaxResult and MaxLogs are sizes in bytes: of
	// the arguments of calls made at once, of one answer, of the script's
	// result, and of everything it logs.
	MaxArguments, MaxAnswer, MaxResult, MaxLogs uint64

	// MaxConcurrent is how many scripts may compute at the same time; 0 is the
	// sandbox's default, which depends on the machine.
	MaxConcurrent int
	// MaxQueued is how many calls there may be beside those: waiting for their
	// turn, or for tools.
	MaxQueued int
}

// Store says where saved tools live.
type Store struct {
	// Dir is absolute. It need not exist yet.
	Dir string
}

// Upstream is one MCP server to connect to.
type Upstream struct {
	// Name matches ^[A-Za-z0-9_-]{1,32}$. Names are unique, and so are the
	// script names (abi.Ident) of those that are not disabled.
	Name string
	// Command is what to start: an absolute path, or a name without a path
	// separator that is still to be looked up in PATH.
	Command string
	Args    []string
	// Env is what the process gets besides the safe base environment.
	Env map[string]string
	// Dir is the working directory, absolute; "" for that of this process.
	Dir string
	// Prefix goes in front of the names of its tools: it matches
	// ^[A-Za-z0-9_-]*$, and several upstreams may have the same.
	Prefix string
	// Timeout is how long one request may take.
	Timeout time.Duration
	// Expose and Hide are patterns as [path.Match] has them, for the
	// upstream's own tool names; see Exposes and Hides. Nil Expose means
	// every tool, an empty one means none.
	Expose, Hide []string
	// Disabled upstreams are checked but not started.
	Disabled bool
}

// Exposes reports whether agents see the tool with that name of the upstream's
// own, provided that it is not hidden: Expose is nil or one of it matches.
// Scripts may call it either way.
func (u *Upstream) Exposes(tool string) bool { return u.Expose == nil || matchAny(u.Expose, tool) }

// Hides reports whether nobody may call the tool with that name, scripts
// included: one of Hide matches.
func (u *Upstream) Hides(tool string) bool { return matchAny(u.Hide, tool) }

// matchAny matches a name that may hold slashes, which are nothing special in
// the name of a tool.
func matchAny(patterns []string, name string) bool {
	const slash = "\x01" // cannot be in a tool's name
	name = strings.ReplaceAll(name, "/", slash)
	for _, p := range patterns {
		if ok, _ := path.Match(strings.ReplaceAll(p, "/", slash), name); ok {
			return true
		}
	}
	return false
}
