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
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"mime"
	"net/http"
	"path"
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
	"github.com/mcp-metatool/mcp-metatool/tools/display"
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

// Access admits users of the page by the page's token, or by a token exchanged for a code. A code
// is for the arguments of a browser, which other users of the machine can see, so the code is valid
// once and for a short time. An Access is safe for concurrent use.
type Access struct {
	token string
	now   func() time.Time

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]bool // by their hash, so that no comparison shows a part of a token
	codes  map[[sha256.Size]byte]*code
}

// code is an issued code.
type code struct {
	expires time.Time
	token   [sha256.Size]byte // the hash of the token that the code was exchanged for
	used    bool
}

// codeLife is how long a code is valid. A browser may have to start first.
const codeLife = 2 * time.Minute

// maxCodes is how many codes are known at a time.
const maxCodes = 64

// NewAccess returns an Access with a new random token.
func NewAccess() *Access { return newAccess(rand.Text(), time.Now) }

func newAccess(token string, now func() time.Time) *Access {
	return &Access{
		token: token, now: now, tokens: map[[sha256.Size]byte]bool{sha256.Sum256([]byte(token)): true},
		codes: map[[sha256.Size]byte]*code{},
	}
}

// Token returns the token.
func (a *Access) Token() string { return a.token }

// Code returns a new code.
func (a *Access) Code() string {
	text := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.codes) >= maxCodes {
		a.forgetOldest()
	}
	a.codes[sha256.Sum256([]byte(text))] = &code{expires: a.now().Add(codeLife)}
	return text
}

func (a *Access) forgetOldest() {
	var oldest [sha256.Size]byte
	var first *code
	for hash, c := range a.codes {
		if first == nil || c.expires.Before(first.expires) {
			oldest, first = hash, c
		}
	}
	delete(a.codes, oldest)
}

// allows reports whether a token is valid.
func (a *Access) allows(token string) bool {
	hash := sha256.Sum256([]byte(token))
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tokens[hash]
}

// exchange returns a new token for a code. If a code comes twice, the rightful owner of the token
// is unknown: the token from the first exchange becomes invalid.
func (a *Access) exchange(text string) (token string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.codes[sha256.Sum256([]byte(text))]
	switch {
	case c == nil:
		return "", errCode
	case c.used:
		delete(a.tokens, c.token)
		return "", errCodeUsed
	case !a.now().Before(c.expires):
		return "", errCode
	}
	token = rand.Text()
	c.used, c.token = true, sha256.Sum256([]byte(token))
	a.tokens[c.token] = true
	return token, nil
}

var (
	errCode     = &requestError{status: http.StatusGone, text: "This link is too old. Open the page again from the command line (ui --open, or ui --attach --open)."}
	errCodeUsed = &requestError{status: http.StatusGone, text: "This link was used before, and is now blocked for everyone. If it was not you, another user of this machine has tried to open the page. Open it again from the command line (ui --open, or ui --attach --open)."}
)

// session answers with a token for a code.
func (h *Handler) session(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	text, _ := wire.GetString(body, "code")
	token, err := h.opts.Access.exchange(text)
	if err != nil {
		h.opts.Log.Warn("the page was refused a code", "err", err)
		return err
	}
	return write(w, map[string]string{"token": token})
}

//go:embed page
var files embed.FS

// types are the media types of the page's files, which do not depend on the machine.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// serveAsset answers with a file of the page. The files contain nothing secret, so the page can ask
// for a token.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, Path)
	if name == "" {
		name = "index.html"
	}
	content, err := files.ReadFile(path.Join("page", name))
	kind := types[path.Ext(name)]
	switch {
	case err != nil || kind == "" || strings.Contains(name, "/"):
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	sum := sha256.Sum256(content)
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-cache") // asked for again, for another version of the program
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	deadline(w)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// requestError is an error with an HTTP status.
type requestError struct {
	status int
	text   string
	code   string // for the page's scripts; "" for none
}

func (e *requestError) Error() string { return e.text }

func badRequest(format string, a ...any) error {
	return &requestError{status: http.StatusBadRequest, text: fmt.Sprintf(format, a...)}
}

// answer calls f, and answers with the error of f, if any.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, f func(w http.ResponseWriter, r *http.Request) error) {
	err := f(w, r)
	if err == nil || r.Context().Err() != nil {
		return
	}
	var bad *requestError
	var ambiguous *journal.AmbiguousError
	switch {
	case errors.As(err, &bad):
		writeJSON(w, bad.status, map[string]string{"error": bad.text, "code": bad.code})
	case errors.Is(err, journal.ErrNotFound), errors.Is(err, tools.ErrNotFound), errors.Is(err, tools.ErrNoVersion):
		refuse(w, http.StatusNotFound, err.Error())
	case errors.As(err, &ambiguous):
		refuse(w, http.StatusConflict, err.Error())
	default:
		text := h.mask(err.Error())
		h.opts.Log.Warn("the page gets an error", "path", r.URL.Path, "err", text)
		refuse(w, http.StatusInternalServerError, text)
	}
}

func (h *Handler) mask(text string) string { return h.opts.Proxy.Config().NewMasker().Mask(text) }

func refuse(w http.ResponseWriter, status int, text string) {
	writeJSON(w, status, map[string]string{"error": text})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil { // a member that should be raw JSON is not JSON
		status, raw = http.StatusInternalServerError, []byte(`{"error":"the answer is not JSON"}`)
	}
	writeRaw(w, status, raw)
}

// writeRaw answers with raw JSON.
func writeRaw(w http.ResponseWriter, status int, raw []byte) {
	deadline(w)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // fails only if the page is gone
}

// write answers with JSON.
func write(w http.ResponseWriter, v any) error {
	writeJSON(w, http.StatusOK, v)
	return nil
}

// maxBody is the largest body of a request, in bytes.
const maxBody = 8 << 20

// readBody reads a JSON object from the body of a request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return nil, &requestError{status: http.StatusUnsupportedMediaType, text: "Content-Type must be application/json"}
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, &requestError{status: http.StatusRequestEntityTooLarge, text: "the body is larger than " + display.Size(maxBody)}
		}
		return nil, badRequest("the body cannot be read")
	}
	if !wire.IsObject(body.Bytes()) {
		return nil, badRequest("the body is not a JSON object")
	}
	return body.Bytes(), nil
}

// indent formats raw JSON for people. Numbers keep their digits. Invalid JSON is returned
// unchanged.
func indent(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// untilEnd returns a context until the end of the request or of the Handler.
func (h *Handler) untilEnd(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(h.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}
