package telemetry

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/origin"
)

// maxScrapes is how many readers of metrics are answered at the same time.
const maxScrapes = 4

// Pages returns the handler of /metrics, /healthz and /readyz. ready reports whether the proxy can
// do all its work, or else what the proxy waits for. Readers of /metrics need a token if the
// configuration has any; the other pages show nothing secret. Requests with an unknown host name,
// or from pages of other origins in a browser, are refused. t must have been configured with
// Listen.
func (t *Telemetry) Pages(ready func() (waitsFor string, ok bool)) http.Handler {
	mux := http.NewServeMux()
	metrics := promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: scrapeErrors{t}, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !t.admits(r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "a bearer token of [telemetry] is required", http.StatusUnauthorized)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if waitsFor, ok := ready(); !ok {
			http.Error(w, "not ready: "+waitsFor, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	rules := origin.NewRules(nil, t.cfg.AllowedHosts)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !rules.AllowsHost(r) {
			http.Error(w, "this host is not allowed (add it to allowed_hosts of [telemetry])", http.StatusForbidden)
			return
		}
		if ok, _ := rules.AllowsOrigin(r); !ok {
			http.Error(w, "this origin is not allowed", http.StatusForbidden)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// admits reports whether a request has one of the tokens, if the configuration has any. Every token
// is compared, in constant time.
func (t *Telemetry) admits(r *http.Request) bool {
	if len(t.cfg.Tokens) == 0 {
		return true
	}
	return bearer.Find(t.cfg.Tokens, r) != nil
}

// scrapeErrors logs errors of /metrics, as promhttp.Logger.
type scrapeErrors struct{ t *Telemetry }

// Println implements promhttp.Logger.
func (e scrapeErrors) Println(v ...any) { e.t.log.Debug("metrics could not be read", "reason", v) }
