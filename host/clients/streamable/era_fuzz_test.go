package streamable

import (
	"bytes"
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// FuzzEra checks, for any header and any body, that a request is answered in the era that both of
// them name, or not at all: the request has a result of the stateless era only if header and
// envelope name the same revision of the era, and begins a session only if neither names a
// revision.
func FuzzEra(f *testing.F) {
	list := modern("1", "tools/list", "")
	for _, version := range []string{"", "2026-07-28", "2025-11-25", "1900-01-01", " 2026-07-28"} {
		for _, body := range []string{
			list, initialize, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`, "[" + list + "]",
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","_meta":` + clienttest.Envelope + `}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}`,
		} {
			f.Add(version, version != "", "tools/list", []byte(body))
		}
	}
	h := New(context.Background(), Options{Session: options(clienttest.New())})
	f.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, version string, has bool, method string, body []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(50*time.Millisecond)) // for calls that wait
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header["Mcp-Method"] = []string{method}
		if has {
			r.Header[envelope.HeaderVersion] = []string{version}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		params, _ := wire.Get(bytes.TrimSpace(body), "params")
		named := envelope.Version(params)
		if _, ok := wire.Get(w.Body.Bytes(), "result", "resultType"); ok && !(has && version == named && version == "2026-07-28") {
			t.Errorf("header %q, envelope %q: %s", version, named, w.Body)
		}
		if id := w.Header().Get(sessionHeader); id != "" {
			if envelope.IsPresent(params) || version == "2026-07-28" {
				t.Errorf("header %q, envelope %q: a session was begun", version, named)
			}
			if s, ok := h.find(id, bearer.Digest{}); ok {
				h.leave(s)
				s.mcp.End(errDeleted)
				<-s.ended
			}
		}
	})
}
