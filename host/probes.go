package host

import (
	"fmt"
	"io"
	"net/http"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// The paths of probes on the HTTP server.
const (
	livePath  = "/healthz"
	readyPath = "/readyz"
)

// lostStreams is the message if the fleet has lost its store. The error itself may contain
// addresses, and any client may read /readyz.
var lostStreams = store.ErrMissing.Error()

// problems returns a function that lists the problems of the Host apart from servers, for
// health_check of clients with the rights.
func (h *Host) problems(of *bearer.Rights) func() []string {
	return func() (found []string) {
		if h.fleet.Lost() != nil {
			found = append(found, lostStreams)
		}
		if refused := h.reloading.refusedFor(of); refused != "" {
			found = append(found, refused)
		}
		return found
	}
}

// ready reports whether this process should get requests, or else the reason to wait. A ready
// process can run scripts, starts no upstream for the first time, and does not drain. In a fleet,
// the store has answered once, and has not lost its documents. A store that is away later does not
// matter, since forwarding continues, and the store is away for all replicas. An upstream that
// cannot be started does not matter either: the other upstreams work.
func (h *Host) ready() (waitsFor string, ok bool) {
	if h.drain.begun.Err() != nil {
		return "this replica drains", false
	}
	if h.fleet.Lost() != nil {
		return lostStreams, false
	}
	if h.fleet != nil && !h.fleet.Answered() {
		return "the store of the fleet has not answered yet", false
	}
	select {
	case <-h.sandbox.Ready():
	default:
		return "the sandbox is being compiled", false
	}
	starting := 0
	for _, u := range h.upstreams.States() {
		if u.State == servers.Starting && u.Restarts == 0 {
			starting++
		}
	}
	if starting > 0 {
		return fmt.Sprintf("%d upstreams are starting", starting), false
	}
	return "", true
}

// probes answers GET and HEAD of /healthz and /readyz, without a token: the answers tell only
// whether this process lives and should get requests. next answers all other requests.
func (h *Host) probes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != livePath && r.URL.Path != readyPath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if waitsFor, ok := h.ready(); !ok && r.URL.Path == readyPath {
			http.Error(w, "not ready: "+waitsFor, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
}
