// Package ui serves a page about a running proxy: servers, tools, saved tools and runs. The page
// shows and tries tools, and decides about calls that wait for approval, but changes no setting and
// no saved tool. Start with Handler.
//
// For the endpoints, the page sends a token in the header Authorization. Browsers do not attach
// this header by themselves, unlike a cookie, and the token belongs to the origin with the port. So
// other pages, and other programs that the browser visits on the machine, cannot use the token.
// Names, texts and results come from servers, scripts and models, which are not trusted: they are
// sent as JSON, and the page inserts them as text only.
package ui

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Path is the path of the page. All paths of the Handler begin with Path.
const Path = "/ui/"

// Proxy is the proxy shown by the page. A Proxy is safe for concurrent use.
type Proxy interface {
	// Config returns the current configuration.
	Config() *config.Config
	// Status returns the state of a shared server, without waiting; false for an unknown server.
	Status(server string) (servers.Status, bool)
	// CheckServer checks a server, or all of them if server is "". Sleeping servers are started.
	CheckServer(ctx context.Context, server string) ([]health.Report, error)
	// Inspect analyses a script without a run.
	Inspect(ctx context.Context, name, code string) (abi.Lint, error)
	// CallTool calls a tool by its public name, as a client would. progress gets the raw params of
	// progress notifications. When ctx ends, the call is cancelled.
	CallTool(ctx context.Context, name string, arguments []byte, progress func(params []byte)) (wire.Reply, error)
}

// Options of a Handler.
type Options struct {
	Access *Access
	// Rules returns which hosts and origins are allowed besides the address itself; nil:
	// none.
	Rules   func() origin.Rules
	Version string // of the product
	Proxy   Proxy
	Catalog *catalog.Catalog
	Store   *tools.Store
	// Approvals is the queue of approvals; nil: no queue.
	Approvals Approvals
	// Journal reads the journal; the zero value if nothing is recorded.
	Journal journal.Reader
	Log     *slog.Logger
}

// Handler is the http.Handler of the page. Its streams end with the context of New, and Close waits
// for all work that the Handler has started.
type Handler struct {
	opts    Options
	ctx     context.Context
	mux     http.ServeMux
	streams chan struct{} // a token for each stream of runs
	feed    *feed
	seed    maphash.Seed // of revisions

	mu     sync.Mutex
	checks map[string]check // the last check of each server
}

// maxStreams is how many pages can follow runs at the same time.
const maxStreams = 16

// New makes a Handler.
func New(ctx context.Context, opts Options) *Handler {
	h := &Handler{
		opts: opts, ctx: ctx,
		streams: make(chan struct{}, maxStreams), feed: newFeed(ctx, opts.Journal.Dir), seed: maphash.MakeSeed(), checks: map[string]check{},
	}
	h.mux.HandleFunc(Path, serveAsset)
	for pattern, answer := range map[string]func(w http.ResponseWriter, r *http.Request) error{
		"GET api/state":              h.state,
		"POST api/check":             h.check,
		"GET api/tools":              h.tools,
		"GET api/tool":               h.tool,
		"POST api/call":              h.call,
		"GET api/saved":              h.saved,
		"GET api/saved/{name}":       h.savedTool,
		"GET api/saved/{name}/calls": h.savedCalls,
		"GET api/saved/{name}/diff":  h.savedDiff,
		"GET api/approvals":          h.approvals,
		"POST api/approvals/{id}":    h.decide,
		"GET api/runs":               h.runs,
		"GET api/runs/{id}":          h.run,
		"GET api/live":               h.live,
	} {
		method, path, _ := strings.Cut(pattern, " ")
		h.mux.HandleFunc(method+" "+Path+path, func(w http.ResponseWriter, r *http.Request) {
			if h.authorize(w, r) {
				h.answer(w, r, answer)
			}
		})
	}
	h.mux.HandleFunc("POST "+Path+"api/session", func(w http.ResponseWriter, r *http.Request) {
		if h.ownPage(w, r) {
			h.answer(w, r, h.session)
		}
	})
	h.mux.HandleFunc(Path+"api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "there is nothing at this path for this method")
	})
	return h
}

// Close waits for all work that h has started. The context of New must have ended.
func (h *Handler) Close() { h.feed.close() }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	rules := origin.Rules{}
	if h.opts.Rules != nil {
		rules = h.opts.Rules()
	}
	if !rules.AllowsHost(r) {
		refuse(w, http.StatusForbidden, "this host name is not allowed (add it to allowed_hosts of [http])")
		return
	}
	if ok, _ := rules.AllowsOrigin(r); !ok {
		refuse(w, http.StatusForbidden, "this origin is not allowed")
		return
	}
	if r.URL.Path == strings.TrimSuffix(Path, "/") {
		http.Redirect(w, r, Path, http.StatusMovedPermanently)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// secure sets the headers that confine the page: no content from elsewhere, only scripts of this
// program, no HTML from strings (Trusted Types), and no frame around the page.
func secure(header http.Header) {
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
		"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	header.Set("Cache-Control", "no-store")
}

// ownPage refuses a request caused by another site, according to the browser.
func (h *Handler) ownPage(w http.ResponseWriter, r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		refuse(w, http.StatusForbidden, "only the page itself may do this")
		return false
	}
	return true
}

// authorize refuses a request without a token, or caused by another site.
func (h *Handler) authorize(w http.ResponseWriter, r *http.Request) bool {
	if !h.ownPage(w, r) {
		return false
	}
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && h.opts.Access.allows(strings.TrimSpace(value)) {
		return true
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="mcp-metatool ui"`)
	refuse(w, http.StatusUnauthorized, "the token is missing or wrong (open the link that mcp-metatool ui prints)")
	return false
}

// deadline bounds a write to a page that does not read.
func deadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // not every writer has a deadline
}

const writeTimeout = 30 * time.Second
