package ui

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
)

// check is a health check made for the page.
type check struct {
	At     time.Time     `json:"at"`
	Report health.Report `json:"report"`
}

// server is the state of a server. Durations are in milliseconds.
type server struct {
	Name      string        `json:"name"`
	State     servers.State `json:"state"`
	Isolated  bool          `json:"isolated,omitempty"` // each session has a process of its own, so the server has no shared state
	Transport string        `json:"transport"`
	Address   string        `json:"address"` // the command without folder and arguments, or the host
	Since     *time.Time    `json:"since,omitempty"`

	ServerName    string `json:"serverName,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	Protocol      string `json:"protocol,omitempty"`
	Agreed        string `json:"agreed,omitempty"`
	Pid           int    `json:"pid,omitempty"`

	Tools     int `json:"tools"`
	Resources int `json:"resources"`
	Templates int `json:"templates"`
	Prompts   int `json:"prompts"`
	// Listed is the number of the server's tools that clients see, and Tokens the number of tokens
	// of a model's context that the tools take.
	Listed int `json:"listed"`
	Tokens int `json:"tokens"`

	StartTime   float64    `json:"startTime,omitempty"`
	Restarts    int        `json:"restarts"`
	RestartAt   *time.Time `json:"restartAt,omitempty"`
	SlowedSince *time.Time `json:"slowedSince,omitempty"`
	// Error is the last error, and Output the further lines of the error, such as the end of the
	// server's standard error.
	Error  string `json:"error,omitempty"`
	Output string `json:"output,omitempty"`
	Check  *check `json:"check,omitempty"`
}

// state answers with the state of the proxy.
func (h *Handler) state(w http.ResponseWriter, r *http.Request) error {
	cfg := h.opts.Proxy.Config()
	mask := cfg.NewMasker().Mask
	answer := struct {
		Version  string   `json:"version"`
		Config   string   `json:"config"`  // the file; "" for none
		Journal  bool     `json:"journal"` // runs are recorded
		Servers  []server `json:"servers"`
		Own      cost     `json:"own"`   // of built-in tools
		Saved    cost     `json:"saved"` // of saved tools
		Problems []string `json:"problems"`
		// Tools and SavedTools change when the lists of tools and of saved tools do.
		Tools      string `json:"tools"`
		SavedTools string `json:"savedTools"`
		Approvals  int    `json:"approvals"` // calls waiting for a decision; -1: unknown
	}{Version: h.opts.Version, Config: mask(cfg.Path), Journal: h.opts.Journal.Dir != "", Servers: []server{}, Problems: []string{}}
	answer.Approvals = h.waiting(r.Context())
	answer.Tools, answer.SavedTools = h.toolsRevision(), h.savedRevision()
	costs := h.costs()
	answer.Own, answer.Saved = costs[costOf{kind: catalog.Builtin}], costs[costOf{kind: catalog.Composite}]
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		s := h.server(u, mask)
		c := costs[costOf{catalog.Proxied, u.Name}]
		s.Listed, s.Tokens = c.Tools, c.Tokens
		answer.Servers = append(answer.Servers, s)
	}
	for _, p := range h.opts.Catalog.Problems() {
		answer.Problems = append(answer.Problems, mask(p.String()))
	}
	return write(w, answer)
}

func (h *Handler) server(u *config.Upstream, mask func(string) string) server {
	s := server{Name: u.Name, Transport: string(u.Transport), Address: mask(address(u)), State: health.Disabled}
	if u.Disabled {
		return s
	}
	st, ok := h.opts.Proxy.Status(u.Name)
	if !ok {
		s.State, s.Isolated = "", true
		return s
	}
	s.State, s.Since = st.State, moment(st.Since)
	s.ServerName, s.ServerVersion = short(mask(st.ServerName), maxTitle), short(mask(st.ServerVersion), maxTitle)
	s.Protocol, s.Agreed, s.Pid = mask(st.ProtocolVersion), mask(st.Agreed), st.Pid
	s.Tools, s.Resources, s.Templates, s.Prompts = st.Tools, st.Resources, st.Templates, st.Prompts
	s.StartTime, s.Restarts, s.RestartAt = milliseconds(st.StartTime), st.Restarts, moment(st.RestartAt)
	_, output, _ := strings.Cut(st.Err, "\n")
	s.SlowedSince, s.Error, s.Output = moment(st.SlowedSince), short(mask(health.LastError(st)), maxDescription), short(mask(strings.TrimSpace(output)), maxDescription)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c, ok := h.checks[u.Name]; ok {
		s.Check = &c
	}
	return s
}

// address returns the address of a server, without private parts.
func address(u *config.Upstream) string {
	if u.Transport == config.Stdio {
		return filepath.Base(u.Command)
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return ""
	}
	return at.Host
}

// moment returns a time for JSON, nil for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// check checks servers and keeps the reports.
func (h *Handler) check(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	name, _ := wire.GetString(body, "server")
	ctx, end := h.untilEnd(r)
	defer end()
	reports, err := h.opts.Proxy.CheckServer(ctx, name)
	if err != nil {
		return badRequest("%s", h.mask(err.Error()))
	}
	h.mu.Lock()
	for _, report := range reports {
		h.checks[report.Server] = check{At: time.Now().UTC(), Report: report}
	}
	h.mu.Unlock()
	return h.state(w, r)
}

// cost is the cost of tools for a client that lists them.
type cost struct {
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
}

// costOf identifies the tools of a cost: built-in tools, saved tools, or the tools of a server.
type costOf struct {
	kind   catalog.Kind
	server string
}

func (h *Handler) costs() map[costOf]cost {
	costs := map[costOf]cost{}
	for _, e := range h.opts.Catalog.Listed() {
		c := costs[costOf{e.Kind, e.Server}]
		c.Tools++
		c.Tokens += catalog.Tokens(e.Definition)
		costs[costOf{e.Kind, e.Server}] = c
	}
	return costs
}

// visible reports whether clients see a tool.
func (h *Handler) visible(e catalog.Entry) bool {
	seen, ok := h.opts.Catalog.Tool(e.Name)
	return ok && seen.Kind == e.Kind && seen.Server == e.Server && seen.Tool == e.Tool
}
