package streamable

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestParseEventID(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]eventID{
		"0.0": {term: 1}, "3.12": {stream: 3, seq: 12, term: 1}, "18446744073709551615.1": {stream: 1<<64 - 1, seq: 1, term: 1},
		"2-0.7": {seq: 7, term: 2}, "12-3.4.ImEi": {stream: 3, seq: 4, term: 12, request: `"a"`}, "3.1.Nw": {stream: 3, seq: 1, term: 1, request: "7"},
	} {
		if got, ok := parseEventID(s); !ok || got != want {
			t.Errorf("%q: %v, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", ".", "1", "1.", ".1", "+1.1", "01.1", "1.1.", "1.1.1", "1.1.Nw=", "1-1.1", "0-1.1", "02-1.1", "2-1", "1.1.Nw.Nw", "1.1." + strings.Repeat("AAAA", 22), "1.1 ", "-1.0", "18446744073709551616.1", "a.b"} {
		if got, ok := parseEventID(s); ok {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func FuzzEventID(f *testing.F) {
	f.Add("0.1")
	f.Add("12.007")
	f.Add("2-1.3.ImEi")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := parseEventID(s); ok && string(id.append(nil)) != s {
			t.Errorf("%q became %v", s, id)
		}
	})
}

// FuzzEvent checks that any message becomes a single event with a single data line, from which a
// client reads the message.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"a":1}`), uint64(1))
	f.Add([]byte("{\r\n\"a\":\n\n1}"), uint64(2))
	f.Add(bytes.Repeat([]byte("x"), maxWrite+1), uint64(3))
	f.Fuzz(func(t *testing.T, msg []byte, place uint64) {
		out := httptest.NewRecorder()
		c := newEventWriter(out)
		c.resumable = true
		if err := c.writeEvent(eventID{stream: 7, seq: place}, msg, true); err != nil {
			t.Fatal(err)
		}
		got := out.Body.String()
		id := string(eventID{stream: 7, seq: place}.append(nil))
		rest, ok := strings.CutPrefix(got, "id: "+id+"\nevent: message\ndata: ")
		data, ok2 := strings.CutSuffix(rest, "\n\n")
		want := strings.NewReplacer("\n", " ", "\r", " ").Replace(string(msg))
		if !ok || !ok2 || data != want {
			t.Errorf("%q became %q", msg, got)
		}
	})
}

// FuzzPost posts anything to a session.
func FuzzPost(f *testing.F) {
	f.Add([]byte(ping), "0.0", "2025-11-25")
	f.Add([]byte(`[`+ping+`]`), "1.1", "")
	f.Add([]byte(callOf(1, "count", "{}")), "2.1", "2025-03-26")
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`), "x", "x")
	f.Fuzz(func(t *testing.T, body []byte, last, version string) {
		b := clienttest.New()
		close(b.Release)
		opts := Options{Session: options(b), ListenWindow: instant}
		h := New(t.Context(), opts)
		defer func() {
			if err := h.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		send := func(ctx context.Context, method, id string, body []byte) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "http://localhost/mcp", bytes.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			if id != "" {
				r.Header.Set("Mcp-Session-Id", id)
				r.Header["Mcp-Protocol-Version"] = []string{version}
				r.Header["Last-Event-Id"] = []string{last}
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		w := send(t.Context(), "POST", "", []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}`))
		id := w.Header().Get("Mcp-Session-Id")
		if id == "" {
			t.Fatal(w.Body)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel() // otherwise an opened stream never ends
		for _, w := range []*httptest.ResponseRecorder{send(gone, "POST", id, body), send(gone, "GET", id, nil)} {
			if w.Header().Get("Content-Type") == "application/json" {
				if _, err := wire.Parse(w.Body.Bytes()); err != nil && w.Body.Bytes()[0] != '[' {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		}
	})
}

func BenchmarkHTTPCall(b *testing.B) {
	w := newServer(b, Options{})
	g := w.join("2025-11-25")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"progressToken":1}}}`
	b.ReportAllocs()
	for b.Loop() {
		res, err := g.http.Do(g.request(b.Context(), "POST", body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

// BenchmarkHTTPHandler is BenchmarkHTTPCall without net/http.
func BenchmarkHTTPHandler(b *testing.B) {
	w := newServer(b, Options{})
	g := w.join("2025-11-25")
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"message":"hello"},"_meta":{"progressToken":1}}}`
	r := g.request(b.Context(), "POST", body)
	r.Host = "localhost"
	out := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		w.http.ServeHTTP(out, r)
	}
	if out.status != 200 {
		b.Fatal(out.status)
	}
}

type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(status int)      { n.status = status }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkHTTPProgress(b *testing.B) {
	w := newServer(b, Options{})
	g := w.join("2025-11-25")
	body := callOf(1, "count", `{"times":100}`)
	b.ReportAllocs()
	for b.Loop() {
		res, err := g.http.Do(g.request(b.Context(), "POST", body))
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}
