// Package config reads the configuration of mcp-metatool, in TOML or in the JSON of the
// product's specification, into one [Config] value. It also keeps the secrets of the
// configuration out of texts for people and out of logs.
//
// From a file to a Config:
//
//	load.go      which file, which environment variables, in which order
//	toml.go      TOML text  \   (places.go: positions in the text)
//	json.go      JSON text  /-> node.go: one tree of values for both
//	table.go     typed reading of that tree; keys that are read are known, and every
//	             other key is reported with the nearest known one
//	decode.go    the known keys -> Config
//	entry.go     mistakes that concern one upstream only
//	upstream.go  the keys of an upstream, remote.go those of one with an address,
//	             probe.go those of its probe, sandbox.go those of its sandbox
//	http.go      the keys of [http], tokens.go its tokens, journal.go the keys of [journal],
//	             signing.go those about signatures,
//	             builtins.go those of [builtins], plan.go those of [plan],
//	             durable.go those of [durable], flow.go those of [flow],
//	             telemetry.go those of [telemetry],
//	             policy.go those of [policy] (inside.go: places in its conditions)
//	             approval.go those of [approval], pins.go those of pins, store.go those of [store]
//	             (peer.go: how the replicas of a fleet reach each other, fleetkeys.go: its keys)
//	section.go   Section, LoadWithin: files that contain more than a configuration
//	fill.go      Section.Fill: {{NAME}} in such files, references.go: how it is written
//	extend.go    Section.Extend: such a file that uses another configuration
//	expand.go    ${VAR} and ${VAR:-default} in strings
//	reference.go ${cmd:...}, ${file:...} and ${keyring:...} in settings of upstreams
//	limits.go    the limits of package limits and the fields that hold their values
//	problem.go   what is wrong, and where
//	secrets.go   which parts of a value are secret; plain.go: those that are written out
//	mask.go      Masker: replaces secrets in texts; find.go finds them,
//	             escapes.go finds those that are written with escapes, maskcut.go beginnings
//	             of them in shortened texts
//	fetched.go   secrets that are fetched later, for Masker
//	redact.go    Redactor: the same, more thoroughly, also in JSON (redactjson.go)
//	maskslog.go  a log/slog handler that masks secrets
//	describe.go  what `mcp-metatool check` prints; warnings.go its warnings
//
// A new setting needs a field in Config and a line in decode.go, a new limit a field and a
// line in limits.go, and a new section a function of its own. docs/configuration.md is
// the reference for users. A test loads each of its examples, and others check that it
// has every key and limit.
//
// Package config only reads files. It starts, watches and connects to nothing.
package config

import (
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// The defaults of settings. Those of limits are in package limits.
const (
	DefaultListen = "127.0.0.1:8080"
	DefaultPath   = "/mcp"
)

// Config is a checked configuration, with variables expanded and defaults set. It does not
// change after [Load] has returned it, so any number of goroutines may read it.
type Config struct {
	// Path is the configuration file, as it was named (flag, environment) or found; "" if
	// there is none.
	Path string
	// Searched are the files that were looked for if Path is "".
	Searched []string
	// Debug adds stacks to errors and debug records to the log.
	Debug bool
	// StartupWait is how long tools/list waits for upstreams that are still starting.
	// 0: it does not wait.
	StartupWait time.Duration
	// InputTimeout is how long a call waits for the answers of a client that is asked
	// something in the middle of it, in the stateless era.
	InputTimeout time.Duration
	// MaxMessage is the largest JSON-RPC message in bytes, in either direction.
	MaxMessage int64
	// MaxList is the size of the largest list of an upstream, with all pages, in bytes.
	MaxList int64

	// LogFormat is the form of log entries.
	LogFormat LogFormat

	// Pins is what is done about definitions of upstreams that are not as they were pinned,
	// where the upstream does not say.
	Pins PinMode
	// PinsFile is the absolute path of the file with the pins; "" for the default. See
	// PinsPath.
	PinsFile string

	Execution Execution
	Store     Store
	HTTP      HTTP
	Journal   Journal
	Builtins  Builtins
	Plan      Plan
	Durable   Durable
	// Flow says how labels of answers are followed; nil: they are not.
	Flow      *flow.Settings
	Telemetry Telemetry
	Policy    Policy
	Approval  Approval
	// Upstreams are the upstream servers in the order of the file, including disabled
	// ones.
	Upstreams []Upstream
	// Secrets are the texts that must not be shown: values of ${VAR} in arguments,
	// environments and headers, bearer tokens, and other values that look like secrets.
	// They have no duplicates and at least [MinSecret] bytes, and the longest are first.
	Secrets []string

	digest string // see Digest
	json   bool   // the file is JSON, in which settings have other names

	// shown holds the masked form of each value with a secret of any length, by key
	// path; see Describe.
	shown map[string]string
	// fetched has the secrets that were fetched after the configuration was read; see
	// Learn. A configuration shares it with the one that replaces it at run time.
	fetched *fetched

	plain bool // see PlainSecrets

	secretFiles []string // paths of the files in references of all upstreams; see OwnFiles

	// warnings found while loading; see Warnings.
	warnings []string
	leftOut  []*Problem // see LeftOut
}

// Execution has the limits of one call of a composite tool, and of all calls together.
type Execution struct {
	// Timeout is wall-clock time.
	Timeout time.Duration
	// MaxMemory is the guest's linear memory in bytes.
	MaxMemory uint64
	// MaxFuel is how much the script may compute, in WebAssembly instructions.
	MaxFuel uint64
	// MaxCalls is how many tool calls the script may make.
	MaxCalls int
	// MaxArguments, MaxAnswer, MaxResult and MaxLogs are sizes in bytes: of the
	// arguments of calls that are made together, of one answer, of the script's result,
	// and of everything that it logs.
	MaxArguments, MaxAnswer, MaxResult, MaxLogs uint64

	// MaxParallel is how many calls of one script may be in flight at once.
	MaxParallel int
	// UndoTimeout is how long all compensations of a failed script may take together.
	UndoTimeout time.Duration
	// TaskAfter is how long a script runs before its call becomes a task, if the client
	// knows tasks and there is a journal. 0: it never does.
	TaskAfter time.Duration

	// ToolCalls says how much results report about the calls of their scripts.
	ToolCalls ToolCalls

	// MaxConcurrent is how many scripts may compute at the same time; 0: the sandbox's
	// default, which depends on the machine.
	MaxConcurrent int
	// MaxQueued is how many further calls may wait for a compute slot or for tools.
	MaxQueued int
	// MaxTotalMemory is the memory of all runs and messages in flight together, in
	// bytes; 0: budget.DefaultTotal, which depends on the machine.
	MaxTotalMemory uint64
}

// ToolCalls says how much the result of a composite call reports about its tool calls.
type ToolCalls string

// The values of ToolCalls.
const (
	ToolCallsShort ToolCalls = "short" // the first ones, with small values
	ToolCallsFull  ToolCalls = "full"
	ToolCallsNone  ToolCalls = "none"
)

// HTTP has the settings of the HTTP front end. A flag of the command determines whether it
// is used.
type HTTP struct {
	// Listen is HOST:PORT, see [ParseListen]. An empty HOST means every address of the
	// machine.
	Listen string
	// Path is the path of the endpoint. It begins with a slash.
	Path string
	// UI serves the page of package ui too.
	UI bool
	// Tokens are the bearer tokens that are accepted; nil or empty: clients need none.
	Tokens []bearer.Token
	// AllowedOrigins are values of the header Origin, and AllowedHosts of the header Host
	// (without a port: with any port), that are accepted in addition to those of the
	// address itself. Both are in lower case.
	AllowedOrigins, AllowedHosts []string
	// CertFile and KeyFile are absolute paths of PEM files; both are "" for no
	// TLS.
	CertFile, KeyFile string
	// SessionTTL is the lifetime of an idle session.
	SessionTTL time.Duration
	// MaxSessions is how many sessions there may be at the same time.
	MaxSessions int
	// MaxSessionsPerToken and MaxSessionsPerAddress are how many sessions one
	// token and one address may have; 0: half of MaxSessions, but MaxSessions if there
	// is at most one token, and for loopback addresses.
	MaxSessionsPerToken, MaxSessionsPerAddress int
	// UnusedTTL is the lifetime of a session that was never used.
	UnusedTTL time.Duration
	// InitializeRate is how many sessions per second one token, or one address, may begin
	// in addition to those that it may have at the same time.
	InitializeRate int
	// MaxConnections is how many there may be at the same time, and
	// MaxConnectionsPerAddress from one address; 0: as for sessions.
	MaxConnections, MaxConnectionsPerAddress int
	// ResumeWindow is how long a request waits for its client to resume a broken stream;
	// 0: the request is cancelled at once.
	ResumeWindow time.Duration

	configured bool // the file has this table
}

// Transport is a way to reach an upstream.
type Transport string

// The transports.
const (
	Stdio          Transport = "stdio"
	StreamableHTTP Transport = "http"
	LegacySSE      Transport = "sse" // HTTP+SSE of revision 2024-11-05
)

// Restart says what happens after an upstream or its connection has ended.
type Restart string

// The values of Restart.
const (
	RestartAlways Restart = "always" // with increasing delays
	RestartNever  Restart = "never"
)

// Protocol says which revisions of MCP are spoken with an upstream: Auto, Legacy, or the
// name of a revision of the stateless era.
type Protocol string

// The values of Protocol that are no revisions.
const (
	Auto   Protocol = "auto"
	Legacy Protocol = "legacy" // only revisions that begin with initialize
)

// Protocols returns the values of Protocol.
func Protocols() []Protocol {
	values := []Protocol{Auto, Legacy}
	for _, name := range protocol.Stateless.Names() {
		values = append(values, Protocol(name))
	}
	return values
}

// Isolation says whether sessions share an upstream.
type Isolation string

// The values of Isolation.
const (
	Shared     Isolation = "shared"
	PerSession Isolation = "session" // each session has a process or connection of its own
)

// Start says when an upstream is started.
type Start string

// The values of Start.
const (
	Eager Start = "eager" // when the proxy starts
	Lazy  Start = "lazy"  // when it is first used
)

// Upstream is one MCP server to connect to.
type Upstream struct {
	// Name matches ^[A-Za-z0-9_-]{1,32}$. Names are unique, and so are the
	// script names (abi.Ident) of those that are not disabled.
	Name      string
	Transport Transport

	// Command is what to start: an absolute path, or a name without a path separator,
	// which is looked up in PATH later. Only Stdio has this field and the next three.
	Command string
	Args    []string
	// Env is what the process gets in addition to the safe base environment.
	Env map[string]string
	// Dir is the working directory, absolute; "" for that of this process.
	Dir string

	// URL is http or https, with a host and without a fragment. Stdio has neither this
	// field nor the next three.
	URL string
	// Detect says that the file names no transport: a server that refuses StreamableHTTP,
	// which Transport is then, is asked for LegacySSE.
	Detect bool
	// Headers are sent with every request. They contain none of the transport's own
	// headers, and no two names differ only in case. Values can be secret.
	Headers map[string]string
	// OAuth says how to get access tokens; nil: there are none.
	OAuth *OAuth

	// Prefix is added before the names of its tools and prompts. It matches
	// ^[A-Za-z0-9_-]*$, and several upstreams may have the same.
	Prefix string
	// Timeout is how long one request may go without activity, and MaxTimeout how
	// long it may take in total. Timeout is not longer than MaxTimeout.
	Timeout, MaxTimeout time.Duration
	Restart             Restart
	Isolation           Isolation
	Start               Start
	Protocol            Protocol
	// Expose and Hide are patterns (package glob) for the upstream's own tool names; see
	// Exposes and Hides. A nil Expose means every tool, an empty one none.
	Expose, Hide []string
	// Sandbox is what a server that we start may do; nil: what we may do.
	Sandbox *confine.Settings
	// Pins is Config.Pins for this upstream; "" for that one. See Config.PinsOf.
	Pins PinMode
	// Probe is what a health check does beyond listing the tools; nil: nothing.
	Probe *Probe
	// Disabled upstreams are checked but not started.
	Disabled bool

	// References are the secrets in Args, Env, URL, Headers and OAuth.ClientSecret that are
	// fetched when the server is started; see WithSecrets. Those fields have them as they
	// are in the file. They are in order within each field.
	References []PlacedReference

	// Invalid says what is wrong with the upstream's entry; nil: nothing. Such an upstream
	// is not started, and its other fields may not be as the file means them. See
	// [LoadOptions.Tolerate].
	Invalid *EntryError
}

// OAuth says how to get access tokens for an upstream. Fields that are not set are
// discovered from the server.
type OAuth struct {
	// Issuer of the tokens: an https URL, or a URL of this machine if Upstream.URL is one
	// too; "": the one that the server names. It is set if ClientSecret is.
	Issuer string
	// ClientID and ClientSecret of a client that is already registered; both "" to
	// register one. A public client has no secret.
	ClientID, ClientSecret string
	// ClientMetadata is the https address of a document about us, which is the client id
	// at authorization servers that read such documents; "": none. ClientID is "" then.
	ClientMetadata string
	// AssumePKCE uses an authorization server that does not say whether it supports PKCE.
	AssumePKCE bool
	// Scopes to ask for; nil: those that the server names, empty: none.
	Scopes []string
	// RedirectPort is the port on 127.0.0.1 to which the browser is redirected, at the
	// path /callback; 0: any.
	RedirectPort int
}

// Probe is a call that shows whether an upstream works.
type Probe struct {
	// Call is the upstream's own name of the tool.
	Call string
	// Params is the arguments, a raw JSON object. It can contain secrets.
	Params []byte
	// Expect is what the answer must be; nil: anything but an error.
	Expect *Expectation
	// Timeout is how long the call may take.
	Timeout time.Duration
}

// Expectation is what the answer to a probe must be. Exactly one of its fields is set.
type Expectation struct {
	Text    string // a part of the answer's text
	Pattern string // a regular expression that the answer's text matches
	Value   []byte // raw JSON that the answer contains
}

// Configured reports whether the file has the table [http].
func (h *HTTP) Configured() bool { return h.configured }

// PlainSecrets reports whether the file itself has something in it that looks like a
// secret.
func (c *Config) PlainSecrets() bool { return c.plain }

// TokenFile returns the file with the access tokens of all upstreams. It is in a directory
// of its own that only the user may read.
func (c *Config) TokenFile() string { return filepath.Join(c.Store.Dir, "oauth", "tokens.json") }

// Exposes reports whether agents see the tool with that name of the upstream's own, unless
// it is hidden: Expose is nil or has a pattern that matches. Scripts may call it in any
// case.
func (u *Upstream) Exposes(tool string) bool { return u.Expose == nil || glob.Any(u.Expose, tool) }

// Hides reports whether nobody, not even a script, may call the tool with that name: Hide
// has a pattern that matches.
func (u *Upstream) Hides(tool string) bool { return glob.Any(u.Hide, tool) }
