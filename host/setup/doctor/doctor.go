// Package doctor finds what goes wrong in practice with a configuration, its servers and
// the machine, and says what to do about it.
//
//	doctor.go    Finding, Report, Examine
//	kinds.go     the list of all findings; docs/doctor.md has the same
//	settings.go  the configuration
//	policy.go    the rules of the policy, and calls that wait for approval
//	flow.go      labels of tools
//	programs.go  the commands of servers: PATH, runtimes and their versions
//	servers.go   servers that do not start, are slow, or have crashed
//	names.go     names of tools
//	schemas.go   definitions that hosts refuse
//	tokens.go    what the definitions cost
//	logins.go    OAuth
//	files.go     folders and files: modes, disk, cache, clock
//	space_*.go   how much is left on a disk
//	instances.go mcp-metatool servers that are running
//	ports.go     addresses that we listen on
//	clocks.go    the clocks of servers
//
// Nothing is changed. The texts of findings can have parts that servers wrote, so they
// must be escaped for a terminal, and secrets must be masked with Patient.Mask.
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

// Finding is one thing that was found.
type Finding struct {
	ID       string   `json:"id"` // of a [Kind]
	Severity Severity `json:"severity"`
	Hosts    []string `json:"hosts,omitempty"` // that it matters to, if not to all; see Kind
	Object   string   `json:"object"`          // such as `upstream "github"`; "" for the whole machine
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`
}

// Server is what is known about one server that is not disabled.
type Server struct {
	Name     string  `json:"name"`
	State    string  `json:"state"`
	Server   string  `json:"server,omitempty"`   // its own name and version
	Protocol string  `json:"protocol,omitempty"` // the revision
	Era      string  `json:"era,omitempty"`      // "handshake" or "stateless"
	Sandbox  string  `json:"sandbox,omitempty"`  // what a confined server may do, in short
	Start    float64 `json:"start,omitempty"`    // how long starting, handshake and first lists took, in milliseconds
	List     float64 `json:"list,omitempty"`     // how long a further tools/list took, in milliseconds
	Tools    int     `json:"tools"`              // that agents see
	Tokens   int     `json:"tokens"`             // an estimate of what their definitions cost; see catalog.Tokens
}

// Cost is what tools cost a client that lists them.
type Cost struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"` // an estimate
}

// Runtime is a program that servers are started with.
type Runtime struct {
	Name    string `json:"name"`
	Version string `json:"version"`           // as far as it was understood
	Minimum string `json:"minimum,omitempty"` // that current servers need; "" for any
}

// Report is the result of an examination. Findings are sorted, the worst first.
type Report struct {
	Findings []Finding `json:"findings"`
	Servers  []Server  `json:"servers"`
	Own      Cost      `json:"own"`    // of the built-in and the saved tools
	Tokens   int       `json:"tokens"` // of all tools that agents see
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

// Patient is what is examined.
type Patient struct {
	// Config is the configuration; nil if Problems are not only about single servers. Those
	// with Problems are disabled in it.
	Config   *config.Config
	Problems []error
	// Unset are servers with variables that have no value. They are disabled in Config.
	Unset []Unset
	// Store is the directory of the store, "" if that is unknown; Cache that of compiled
	// code, "" if there is none.
	Store, Cache string
	// Observed are the servers that were started, by name; nil if none was.
	Observed map[string]Observation
	// Own are the definitions of the built-in and the saved tools that agents see.
	Own [][]byte
	// Names are the public names of tools, Collisions those that hide others,
	// and definitions that are not as they were pinned.
	Names      []PublicName
	Collisions []catalog.Problem
	// UnknownTools are tools that rules of the policy name and that there are not.
	UnknownTools []policy.UnknownName
	// Waiting is how many calls wait for approval.
	Waiting int
	// Instances are mcp-metatool servers with the same store that are running.
	Instances []Instance
	// Flag is the configuration file that the command line names, "" for none: commands that
	// remedies have must name it, too.
	Flag string
	// Getenv returns a variable of the environment of this process.
	Getenv func(string) string
	Now    time.Time
}

// Unset is a variable without a value that a server needs.
type Unset struct{ Server, Variable string }

// Observation is what was seen of a server.
type Observation struct {
	Status servers.Status
	List   time.Duration // of a further tools/list; 0 if it was not asked
	Tools  [][]byte      // raw definitions of the tools that agents see, with their own names
	Text   string        // its instructions
	// Ahead is how far our clock is ahead of that of a server over HTTP, if Dated.
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

// examination is one run of Examine.
type examination struct {
	*Patient
	ctx    context.Context
	report Report
	// explained are servers for which it has been found why they do not start.
	explained map[string]bool
}

// Examine looks for everything that is known to go wrong. ctx ends the programs that are
// asked for their versions.
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
		f.Object, f.What, f.Remedy = p.Mask(f.Object), p.Mask(f.What), p.Mask(f.Remedy)
	}
	for i := range e.report.Servers {
		s := &e.report.Servers[i]
		s.Server, s.Protocol = p.Mask(s.Server), p.Mask(s.Protocol)
	}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		first := func(f Finding) int { // what is wrong with the configuration may explain the rest
			if f.ID == idConfigInvalid {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(first(a), first(b)), cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)))
	})
	return e.report
}

// find adds a finding. It panics if the kind is not in the list, which is a mistake here.
func (e *examination) find(id, object, remedy, format string, args ...any) {
	at := slices.IndexFunc(Kinds, func(k Kind) bool { return k.ID == id })
	e.report.Findings = append(e.report.Findings, Finding{
		ID: id, Severity: Kinds[at].Severity, Hosts: Kinds[at].Hosts, Object: object, What: fmt.Sprintf(format, args...), Remedy: remedy,
	})
}

// command returns a command of ours that can be copied, with the same configuration.
func (e *examination) command(words ...string) string {
	words = append([]string{"mcp-metatool"}, words...)
	if e.Flag != "" {
		words = append(words, "--config", e.Flag)
	}
	return shellquote.Join(words...)
}

// upstreamObject returns what findings call a server.
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
