package servers

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli/control"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/setup/doctor"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func doctorCommand() *cobra.Command {
	v := doctorView{}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what is wrong with the configuration, the servers and this machine",
		Long: `Find what is wrong with the configuration, the servers and this machine, and say what
to do about it. All servers are started, except those that start on first use. Nothing
is changed. docs/doctor.md lists everything that can be found.

The exit code is 1 if there is an error, 3 if there is a warning but no error, and
otherwise 0. With --strict it is 1 for warnings, too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	v.AddFlags(cmd, cli.Silent) // the report contains everything
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&v.strict, "strict", false, "exit code 1 for warnings, too")
	cmd.Flags().BoolVar(&v.still, "no-start", false, "start no server")
	cmd.Flags().DurationVar(&v.wait, "wait", 30*time.Second, "how long to wait for servers")
	return cmd
}

// doctorView is a run of doctor.
type doctorView struct {
	cli.Settings
	asJSON, strict, still bool
	wait                  time.Duration
}

// doctorReport is the output of doctor --json.
type doctorReport struct {
	doctor.Report
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
}

func (v *doctorView) run(ctx context.Context, w io.Writer) error {
	p, err := v.patient(ctx)
	if err != nil {
		return err
	}
	done := cli.Busy(v.Cmd, "examining programs, servers and files")
	report := doctorReport{Report: doctor.Examine(ctx, p)}
	done()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	report.Errors, report.Warnings, report.Notes = report.Count(doctor.Error), report.Count(doctor.Warning), report.Count(doctor.Note)
	if v.asJSON {
		err = cli.WriteJSON(w, report)
	} else {
		err = report.write(w)
	}
	switch {
	case err != nil:
	case report.Errors > 0 || v.strict && report.Warnings > 0:
		err = cli.Failed(nil)
	case report.Warnings > 0:
		err = cli.Exit(ExitWarned, nil)
	}
	return err
}

// ExitWarned is the exit code for warnings without errors.
const ExitWarned = 3

// patient collects the facts for the examination.
func (v *doctorView) patient(ctx context.Context) (*doctor.Patient, error) {
	p := &doctor.Patient{Getenv: os.Getenv, Now: time.Now(), Flag: v.Config}
	options := config.LoadOptions{Context: ctx, Flag: v.Config, Tolerate: true, Policies: compile.Policy}
	cfg, err := config.Load(options)
	if err != nil {
		p.Problems, p.Store = []error{err}, config.StoreDir(options)
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			p.Problems = all.Unwrap()
		}
		cfg = &config.Config{}
	} else {
		cfg.Debug = cfg.Debug || v.Debug
		setAside(p, cfg)
		p.Config, p.Store = cfg, cfg.Store.Dir
	}
	log := v.Logger(cfg)
	p.Cache = cli.CacheDir(log)
	p.Instances = findInstances(ctx, p.Store, cfg.Path)
	if p.Config == nil {
		return p, nil
	}
	p.Waiting = waitingApprovals(ctx, cfg, log)
	if v.still {
		p.UnknownTools = cli.UnknownTools(ctx, cfg, cfg.Policy.Rules)
		return p, nil
	}
	done := cli.StartingServers(v.Cmd, cfg)
	defer done()
	return p, cli.WithServers(ctx, cfg, log, func(ctx context.Context, h *host.Host) error {
		v.observe(ctx, h, p)
		p.UnknownTools = cli.UnknownTools(ctx, cfg, cfg.Policy.Rules) // after servers have listed theirs
		return context.Cause(ctx)
	})
}

// waitingApprovals returns the number of calls that wait for approval; 0 if unknown.
func waitingApprovals(ctx context.Context, cfg *config.Config, log *slog.Logger) int {
	var list []approval.Listed
	queue, err := host.OpenQueue(ctx, cfg, log)
	if err == nil {
		defer queue.Close()
		list, err = queue.List(ctx)
	}
	if err != nil {
		log.Warn("the queue of approvals cannot be read", "err", err)
	}
	n := 0
	for _, e := range list {
		if e.State == approval.Open {
			n++
		}
	}
	return n
}

// setAside makes findings of the mistakes in entries of servers. The servers are not started.
func setAside(p *doctor.Patient, cfg *config.Config) {
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		if u.Disabled || u.Invalid == nil {
			continue
		}
		u.Disabled = true
		unset, others := u.Invalid.Unset()
		for _, name := range unset {
			p.Unset = append(p.Unset, doctor.Unset{Server: u.Name, Variable: name})
		}
		for _, problem := range others {
			p.Problems = append(p.Problems, problem)
		}
	}
	for _, problem := range cfg.LeftOut() {
		p.Problems = append(p.Problems, problem)
	}
}

// listTime bounds the time of a server for the list of its tools.
const listTime = 10 * time.Second

// observe waits for the servers, and collects their answers.
func (v *doctorView) observe(ctx context.Context, h *host.Host, p *doctor.Patient) {
	configured := map[string]*config.Upstream{}
	for i := range p.Config.Upstreams {
		configured[p.Config.Upstreams[i].Name] = &p.Config.Upstreams[i]
	}
	waiting, cancel := context.WithTimeout(ctx, v.wait)
	states := h.Upstreams(waiting)
	cancel()
	seen := make([]doctor.Observation, len(states))
	var all sync.WaitGroup
	for i, st := range states {
		all.Go(func() { seen[i] = observe(ctx, h, configured[st.Name], st) })
	}
	all.Wait()
	listed := map[string][][]byte{}
	for _, e := range h.Listed() {
		definition := e.Definition
		if e.Kind == catalog.Proxied {
			if own, err := wire.Set(definition, wire.Quote(e.Tool), "name"); err == nil {
				definition = own
			}
		}
		listed[e.Server] = append(listed[e.Server], definition)
	}
	p.Own = listed[""]
	p.Observed = map[string]doctor.Observation{}
	for _, o := range seen {
		o.Tools = listed[o.Status.Name]
		p.Observed[o.Status.Name] = o
	}
	for _, n := range h.Names() {
		if n.Surface == wire.Tools {
			p.Names = append(p.Names, doctor.PublicName{Server: n.Server, Own: n.Own, Public: n.Public, Changed: n.Hashed})
		}
	}
	p.Collisions = h.ListProblems()
}

// observe collects the answers of a server, and lists the tools of a ready server again.
func observe(ctx context.Context, h *host.Host, u *config.Upstream, st servers.Status) doctor.Observation {
	o := doctor.Observation{Status: st}
	if st.State != servers.Ready {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	if s, err := h.Snapshot(ctx, st.Name); err == nil {
		o.Text, _ = wire.GetString(s.Handshake, "instructions")
	}
	begun := time.Now()
	if st.Tools > 0 {
		// The time counts even after a failure.
		_, _ = h.Request(ctx, st.Name, wire.Call{Method: wire.Tools.ListMethod()})
		o.List = time.Since(begun)
	}
	if u.Transport != config.Stdio {
		o.Ahead, o.Dated = clockOf(ctx, u.URL)
	}
	return o
}

// clockOf returns how far our clock is ahead of the clock of the server at an address. Each HTTP
// answer has the server's time. The path of the address, which can be secret, is not sent.
func clockOf(ctx context.Context, address string) (ahead time.Duration, ok bool) {
	at, err := url.Parse(address)
	if err != nil {
		return 0, false
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: "/"}).String(), nil)
	if err != nil {
		return 0, false
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	begun := time.Now()
	answer, err := transport.RoundTrip(request) // follows no redirect
	if err != nil {
		return 0, false
	}
	answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	now := begun.Add(time.Since(begun) / 2)
	return now.Sub(date), err == nil
}

// instanceTime bounds the time of an mcp-metatool server for an answer about its identity.
const instanceTime = 3 * time.Second

// findInstances asks the mcp-metatool servers of a store for their identity. path is the examined
// configuration file, "" for none.
func findInstances(ctx context.Context, store, path string) []doctor.Instance {
	if store == "" {
		return nil
	}
	run, err := control.OpenFolder(store, false)
	if err != nil {
		return nil // no server has ever run, or the check of files reports the folder
	}
	defer run.Close()
	var found []doctor.Instance
	for _, name := range run.Sockets() {
		asking, cancel := context.WithTimeout(ctx, instanceTime)
		// With the name of an unused configuration, the server answers without reloading.
		answer, err := run.Ask(asking, name, control.Request{Config: filepath.Join(run.Path, name)})
		cancel()
		switch {
		case err != nil && control.Ended(err):
		case err != nil:
			found = append(found, doctor.Instance{Err: fmt.Errorf("%s: %w", filepath.Join(run.Path, name), err)})
		default:
			same := answer.Config == "" && path == "" || answer.Config != "" && path != "" && cli.SameFile(answer.Config, path)
			found = append(found, doctor.Instance{PID: answer.PID, Config: answer.Config, Same: same})
		}
	}
	return found
}

// write prints the report for people.
func (r doctorReport) write(w io.Writer) error {
	if len(r.Servers) > 0 {
		t := cli.NewTable(w)
		confined := slices.ContainsFunc(r.Servers, func(s doctor.Server) bool { return s.Sandbox != "" })
		t.Head(withSandbox([]any{"SERVER", "STATE", "PROTOCOL", "ERA", cli.Right("START"), cli.Right("LIST"), cli.Right("TOOLS"), cli.Right("TOKENS")}, "SANDBOX", confined)...)
		for _, s := range r.Servers {
			t.Add(withSandbox([]any{s.Name, cli.State(s.State), s.Protocol, s.Era, inMilliseconds(s.Start), inMilliseconds(s.List), s.Tools, s.Tokens}, s.Sandbox, confined)...)
		}
		if r.Own.Tools > 0 {
			t.Add(withSandbox([]any{"(our own tools)", "", "", "", "", "", r.Own.Tools, r.Own.Tokens}, "", confined)...)
		}
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if text := r.runtimes(); text != "" {
		fmt.Fprintln(w, strings.Join(lines(text, cli.Columns(w)), "\n")+"\n")
	}
	for _, f := range r.Findings {
		if err := writeFinding(w, f); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s\n", cli.Plural(r.Errors, "error"), cli.Plural(r.Warnings, "warning"), cli.Plural(r.Notes, "note"))
	return err
}

// runtimes returns which runtimes servers are started with.
func (r doctorReport) runtimes() string {
	var all []string
	for _, p := range r.Runtimes {
		text := p.Name + " " + p.Version
		if p.Minimum != "" {
			text += " (needed: " + p.Minimum + ")"
		}
		all = append(all, text)
	}
	return display.Text(strings.Join(all, ", "))
}

// writeFinding writes a finding and its remedy.
func writeFinding(w io.Writer, f doctor.Finding) error {
	severity, what := string(f.Severity)+":", f.Message
	if f.Object != "" {
		what = f.Object + ": " + what
	}
	first, rest, more := strings.Cut(what, "\n") // the rest is text of a server
	what = first + " [" + f.ID + "]"
	if more {
		what += "\n" + rest
	}
	const indent, arrow = "    ", "-> "
	width := cli.Columns(w)
	text := strings.Join(lines(display.Text(severity+" "+what), width-len(indent)), "\n"+indent)
	if rest, ok := strings.CutPrefix(text, severity); ok {
		text = cli.Paint(w, cmp.Or(cli.State(string(f.Severity)).Style, display.Bold), severity) + rest
	}
	remedy := strings.Join(lines(display.Text(f.Remedy), width-len(indent+arrow)), "\n"+indent+"   ")
	_, err := io.WriteString(cli.Raw(w), text+"\n"+indent+arrow+remedy+"\n")
	return err
}

// lines returns the lines of text, broken at n columns if n > 0. Short lines keep their
// indentation, which matters in text of servers.
func lines(text string, n int) []string {
	all := strings.Split(text, "\n")
	if n <= 0 {
		return all
	}
	var broken []string
	for _, line := range all {
		if display.Width(line) <= n && !strings.Contains(line, "\t") {
			broken = append(broken, line)
			continue
		}
		broken = append(broken, display.Wrap(line, n)...)
	}
	return broken
}

func inMilliseconds(ms float64) string {
	if ms == 0 {
		return ""
	}
	return fmt.Sprintf("%.0fms", ms)
}
