// Package config reads the configuration of mcp-metatool, in TOML or in the
// JSON of the product's specification, into one [Config] value, and keeps the
// secrets in it out of every text a person or a log gets to see.
//
// The way of a file:
//
//	load.go      which file, which environment variables, in which order
//	toml.go      TOML text  \   (places.go: where what is in it)
//	json.go      JSON text  /-> node.go: one tree of values for both
//	table.go     typed reading of that tree; every key that is asked for is
//	             known, every other one is a problem with the nearest known key
//	decode.go    the keys there are -> Config
//	upstream.go  those of an upstream, remote.go those of one with an address,
//	             probe.go those of its probe
//	http.go      those of [http], journal.go those of [journal],
//	builtins.go those of [builtins]
//	section.go   Section, LoadWithin: files that hold more than a configuration
//	expand.go    ${VAR} and ${VAR:-default} in strings
//	limits.go    the limits of package limits and the fields that hold their values
//	problem.go   what is wrong, and where
//	secrets.go   which parts of a value are secret
//	mask.go      Masker: replaces secrets in texts, find.go finds them,
//	             escapes.go those that are written with escapes
//	redact.go    Redactor: the same, more thoroughly, also in JSON (redactjson.go)
//	maskslog.go  a log/slog handler in front of which nothing secret gets past
//	describe.go  what `mcp-metatool check` prints, and warnings.go of what it warns
//
// A new setting is a field in Config and a line in decode.go, a new limit a field
// and a line in limits.go; a new section is a function of its own.
// docs/configuration.md is the reference for users; a test loads each of its
// examples, and others look for every key and limit in it.
//
// Nothing here starts, watches or connects to anything.
package config

import (
	"path"
	"path/filepath"
	"strings"
	"time"
)

// The values of settings that are not set. Those of limits are in package limits.
const (
	DefaultListen = "127.0.0.1:8080"
	DefaultPath   = "/mcp"
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
	HTTP      HTTP
	Journal   Journal
	Builtins  Builtins
	// Upstreams are the upstream servers in the order of the file, disabled
	// ones included.
	Upstreams []Upstream
	// Secrets are the texts that must not be shown: values of ${VAR} in
	// arguments, environments and headers, bearer tokens, and what looks like
	// a secret without being one of those. No duplicates, none shorter than
	// [MinSecret] bytes, longest first.
	Secrets []string

	json bool // the file is JSON, whose settings are called differently

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

	// MaxParallel is how many calls of one script may be in flight at once.
	MaxParallel int
	// UndoTimeout is how long all calls together may take that undo what a failed
	// script did.
	UndoTimeout time.Duration

	// ToolCalls is how much results report about the calls of their scripts.
	ToolCalls ToolCalls

	// MaxConcurrent is how many scripts may compute at the same time; 0 is the
	// sandbox's default, which depends on the machine.
	MaxConcurrent int
	// MaxQueued is how many calls there may be beside those: waiting for their
	// turn, or for tools.
	MaxQueued int
	// MaxTotalMemory is what all runs and messages in flight may have together,
	// in bytes; 0 is budget.DefaultTotal, which depends on the machine.
	MaxTotalMemory uint64
}

// ToolCalls is how much the result of a composite call reports about its tool calls.
type ToolCalls string

// The values of ToolCalls.
const (
	ToolCallsShort ToolCalls = "short" // the first ones, with small values
	ToolCallsFull  ToolCalls = "full"
	ToolCallsNone  ToolCalls = "none"
)

// Store says where saved tools live.
type Store struct {
	// Dir is absolute. It need not exist yet.
	Dir string
}

// HTTP says how clients reach us over HTTP. Whether they can at all is decided
// by a flag of the command.
type HTTP struct {
	// Listen is HOST:PORT, see [ParseListen]; an empty HOST stands for every
	// address of the machine.
	Listen string
	// Path of the endpoint; it begins with a slash.
	Path string
	// Tokens are the bearer tokens that clients may come with; nil or empty:
	// they need none.
	Tokens []string
	// NoSave are those of Tokens whose clients may not save and delete tools.
	NoSave []string
	// AllowedOrigins are values of the header Origin, and AllowedHosts of the
	// header Host (without a port: whichever), both in lower case, that are
	// accepted besides those of the address itself.
	AllowedOrigins, AllowedHosts []string
	// CertFile and KeyFile are absolute paths of PEM files; both are "" for no
	// TLS.
	CertFile, KeyFile string
	// SessionTTL is how long an idle session lives.
	SessionTTL time.Duration
	// MaxSessions is how many sessions there may be at the same time.
	MaxSessions int
	// MaxSessionsPerToken and MaxSessionsPerAddress are how many sessions one
	// token and one address may have; 0: half of MaxSessions, but all of them
	// where there are not several tokens, and for loopback addresses.
	MaxSessionsPerToken, MaxSessionsPerAddress int
	// UnusedTTL is how long a session lives that was never used.
	UnusedTTL time.Duration
	// InitializeRate is how many sessions one token, or one address, may begin
	// in a second, beyond those that it may have at the same time.
	InitializeRate int
	// MaxConnections is how many there may be at the same time, and
	// MaxConnectionsPerAddress from one address; 0: as for sessions.
	MaxConnections, MaxConnectionsPerAddress int
	// ResumeWindow is how long a request whose stream broke waits for its client
	// to resume it; 0 cancels it at once.
	ResumeWindow time.Duration

	configured bool // there is such a table
}

// Transport is a way to reach an upstream.
type Transport string

// The transports.
const (
	Stdio          Transport = "stdio"
	StreamableHTTP Transport = "http"
	LegacySSE      Transport = "sse" // HTTP+SSE of revision 2024-11-05
)

// Restart says what happens after an upstream has ended or its connection has
// broken.
type Restart string

// The values of Restart.
const (
	RestartAlways Restart = "always" // with increasing pauses
	RestartNever  Restart = "never"
)

// Isolation says whether sessions share an upstream.
type Isolation string

// The values of Isolation.
const (
	Shared     Isolation = "shared"
	PerSession Isolation = "session" // each has a process or connection of its own
)

// Start says when an upstream is started.
type Start string

// The values of Start.
const (
	Eager Start = "eager" // with us
	Lazy  Start = "lazy"  // when it is used
)

// Upstream is one MCP server to connect to.
type Upstream struct {
	// Name matches ^[A-Za-z0-9_-]{1,32}$. Names are unique, and so are the
	// script names (abi.Ident) of those that are not disabled.
	Name      string
	Transport Transport

	// Command is what to start: an absolute path, or a name without a path
	// separator that is still to be looked up in PATH. Of this and the next
	// three all but Stdio have none.
	Command string
	Args    []string
	// Env is what the process gets besides the safe base environment.
	Env map[string]string
	// Dir is the working directory, absolute; "" for that of this process.
	Dir string

	// URL is http or https, with a host and without a fragment; "" for Stdio,
	// which has none of the next two either.
	URL string
	// Headers go with every request, none of them one of the transport's own.
	// No two names differ in case alone. Values can be secret.
	Headers map[string]string
	// OAuth says how to get access tokens; nil: there are none.
	OAuth *OAuth

	// Prefix goes in front of the names of its tools and prompts: it matches
	// ^[A-Za-z0-9_-]*$, and several upstreams may have the same.
	Prefix string
	// Timeout is how long one request may go without a sign of life, and
	// MaxTimeout how long it may take in any case; Timeout is not longer.
	Timeout, MaxTimeout time.Duration
	Restart             Restart
	Isolation           Isolation
	Start               Start
	// Expose and Hide are patterns as [path.Match] has them, for the
	// upstream's own tool names; see Exposes and Hides. Nil Expose means
	// every tool, an empty one means none.
	Expose, Hide []string
	// Probe is what a health check does beyond listing the tools; nil: nothing.
	Probe *Probe
	// Disabled upstreams are checked but not started.
	Disabled bool
}

// OAuth is how to get access tokens for an upstream. What is not set is found
// out from the server.
type OAuth struct {
	// Issuer of the tokens: an https URL, or one of this machine where URL is
	// one too; "": the one that the server names. Set if ClientSecret is.
	Issuer string
	// ClientID and ClientSecret of a client that is registered already; both
	// "" to register one. A public client has no secret.
	ClientID, ClientSecret string
	// Scopes to ask for; nil: those that the server names, empty: none.
	Scopes []string
	// RedirectPort is the port on 127.0.0.1 that the browser comes back to, at
	// the path /callback; 0: any.
	RedirectPort int
}

// Probe is a call that shows whether an upstream does its work.
type Probe struct {
	// Call is the upstream's own name of the tool.
	Call string
	// Params is a raw JSON object, the arguments. It can have secrets in it.
	Params []byte
	// Expect is what the answer has to be; nil: anything but an error.
	Expect *Expectation
	// Timeout is how long the call may take.
	Timeout time.Duration
}

// Expectation is what a probe has to be answered with. Exactly one of its
// fields is set.
type Expectation struct {
	Text    string // part of the answer's text
	Pattern string // a regular expression that the answer's text matches
	Value   []byte // raw JSON that the answer has, perhaps among other things
}

// TokenFile is where the access tokens of all upstreams are kept, in a
// directory of its own that only the user may read.
func (c *Config) TokenFile() string { return filepath.Join(c.Store.Dir, "oauth", "tokens.json") }

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
