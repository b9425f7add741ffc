// Package doctor finds common faults of a configuration, its servers and the machine, and suggests
// a remedy for each. Begin with [Patient] and [Examine]; kinds.go has the list of all findings, as
// docs/doctor.md has.
//
// Nothing is changed. The texts of findings can have parts that servers wrote, so they must be
// escaped for a terminal, and secrets must be masked with Patient.Mask.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
)

// Severity says how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // something will not work everywhere, or not for long
	Note    Severity = "note"    // worth knowing
)

var severities = []Severity{Error, Warning, Note}

// Finding is a fault.
type Finding struct {
	ID       string   `json:"id"` // of a [Kind]
	Severity Severity `json:"severity"`
	Hosts    []string `json:"hosts,omitempty"` // concerned hosts, if not all; see Kind
	Object   string   `json:"object"`          // for example `upstream "github"`; "" for the whole machine
	Message  string   `json:"what"`
	Remedy   string   `json:"remedy"`
}

// Server describes an enabled server.
type Server struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Server   string  `json:"server,omitempty"`   // the server's own name and version
	Protocol string  `json:"protocol,omitempty"` // the revision
	Era      string  `json:"era,omitempty"`      // "handshake" or "stateless"
	Sandbox  string  `json:"sandbox,omitempty"`  // the permissions of a confined server, in short
	Start    float64 `json:"start,omitempty"`    // how long starting, handshake and first lists took, in milliseconds
	List     float64 `json:"list,omitempty"`     // how long a further tools/list took, in milliseconds
	Tools    int     `json:"tools"`              // visible to agents
	Tokens   int     `json:"tokens"`             // an estimate for the definitions of the tools; see catalog.Tokens
}

// Cost is the cost of tools for a client that lists them.
type Cost struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"` // an estimate
}

// Runtime is a program that starts servers.
type Runtime struct {
	Name    string `json:"name"`
	Version string `json:"version"`           // as far as understood
	Minimum string `json:"minimum,omitempty"` // for current servers; "" for any
}

// Report is the result of an examination. Findings are sorted, the worst first.
type Report struct {
	Findings []Finding `json:"findings"`
	Servers  []Server  `json:"servers"`
	Own      Cost      `json:"own"`    // of the built-in and the saved tools
	Tokens   int       `json:"tokens"` // of all tools visible to agents
	Runtimes []Runtime `json:"runtimes"`
}

// Count returns how many findings have a severity.
func (r Report) Count(s Severity) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// Patient is the subject of an examination.
type Patient struct {
	// Config is the configuration; nil if Problems are not only about single servers. Servers with
	// Problems are disabled in Config.
	Config   *config.Config
	Problems []error
	// Unset are servers with variables without a value. They are disabled in Config.
	Unset []Unset
	// Store is the directory of the store, "" if unknown; Cache the directory of compiled code, ""
	// for none.
	Store, Cache string
	// Observed are the started servers, by name; nil for none.
	Observed map[string]Observation
	// Own are the definitions of the built-in and the saved tools visible to agents.
	Own [][]byte
	// Names are the public names of tools, Collisions the names that hide other tools, and
	// definitions that differ from their pins.
	Names      []PublicName
	Collisions []catalog.Problem
	// UnknownTools are unknown tools in rules of the policy.
	UnknownTools []policy.UnknownName
	// Waiting is how many calls wait for approval.
	Waiting int
	// Instances are running mcp-metatool servers with the same store.
	Instances []Instance
	// Flag is the configuration file of the command line, "" for none: the commands in remedies
	// must name the file, too.
	Flag string
	// Getenv returns a variable of the environment of this process.
	Getenv func(string) string
	Now    time.Time
}

// Unset is a variable without a value that a server needs.
type Unset struct{ Server, Variable string }

// Observation is an observed start of a server.
type Observation struct {
	Status servers.Status
	List   time.Duration // of a further tools/list; 0 without a further list
	Tools  [][]byte      // raw definitions of the tools visible to agents, with the server's names
	Text   string        // the server's instructions
	// Ahead is how far the local clock is ahead of the clock of a server over HTTP, if Dated.
	Ahead time.Duration
	Dated bool
}

// Mask replaces the secrets of the configuration.
func (p *Patient) Mask(text string) string {
	if p.Config == nil {
		return text
	}
	return p.Config.NewMasker().Mask(text)
}

// examination is a run of Examine.
type examination struct {
	*Patient
	ctx    context.Context
	report Report
	// explained are servers with a known reason for not starting.
	explained map[string]bool
}

// Examine looks for all known faults. ctx ends the programs that are asked for their versions.
func Examine(ctx context.Context, p *Patient) Report {
	e := &examination{Patient: p, ctx: ctx, report: Report{Findings: []Finding{}, Servers: []Server{}, Runtimes: []Runtime{}}, explained: map[string]bool{}}
	e.settings()
	if p.Config != nil {
		e.policy()
		e.flow()
		e.programs()
		e.logins()
		e.servers()
		e.names()
		e.schemas()
		e.tokens()
		e.ports()
		e.clocks()
	}
	e.instances()
	e.files()
	for i := range e.report.Findings {
		f := &e.report.Findings[i]
		f.Object, f.Message, f.Remedy = p.Mask(f.Object), p.Mask(f.Message), p.Mask(f.Remedy)
	}
	for i := range e.report.Servers {
		s := &e.report.Servers[i]
		s.Server, s.Protocol = p.Mask(s.Server), p.Mask(s.Protocol)
	}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		first := func(f Finding) int { // a fault of the configuration may explain the rest
			if f.ID == idConfigInvalid {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)))
	})
	return e.report
}

// find adds a finding. find panics if the kind is not in the list, a mistake of this package.
func (e *examination) find(id, object, remedy, format string, args ...any) {
	at := slices.IndexFunc(Kinds, func(k Kind) bool { return k.ID == id })
	e.report.Findings = append(e.report.Findings, Finding{
		ID: id, Severity: Kinds[at].Severity, Hosts: Kinds[at].Hosts, Object: object, Message: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// command returns a command of the product for copying, with the same configuration.
func (e *examination) command(words ...string) string {
	words = append([]string{"mcp-metatool"}, words...)
	if e.Flag != "" {
		words = append(words, "--config", e.Flag)
	}
	return shellquote.Join(words...)
}

// upstreamObject returns the name of a server in findings.
func upstreamObject(name string) string { return fmt.Sprintf("upstream %q", name) }

// enabled returns the servers that are not disabled.
func (e *examination) enabled() []*config.Upstream {
	var list []*config.Upstream
	for i := range e.Config.Upstreams {
		if u := &e.Config.Upstreams[i]; !u.Disabled {
			list = append(list, u)
		}
	}
	return list
}
