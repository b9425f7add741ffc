package streamable

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/clients/clienttest"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
)

// caller calls a Handler without a network, from any address.
type caller struct {
	t *testing.T
	h *Handler
}

// home is a loopback address.
const home = "127.0.0.1:1"

func newCaller(t *testing.T, opts Options) *caller {
	budget := opts.Session.Budget
	opts.Session = options(clienttest.New())
	opts.Session.Budget = budget
	s := &caller{t, New(context.Background(), opts)}
	t.Cleanup(func() {
		if err := s.h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *caller) post(from, token, id, body string) *httptest.ResponseRecorder {
	s.t.Helper()
	return s.postFrom(from, token, id, strings.NewReader(body))
}

func (s *caller) postFrom(from, token, id string, body io.Reader) *httptest.ResponseRecorder {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), "POST", "http://localhost/", body)
	r.RemoteAddr = from
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if id != "" {
		r.Header.Set("Mcp-Session-Id", id)
	}
	out := httptest.NewRecorder()
	s.h.ServeHTTP(out, r)
	return out
}

// join begins a session, and fails the test after a refusal.
func (s *caller) join(from, token string) (id string) {
	s.t.Helper()
	out := s.post(from, token, "", initialize)
	if id = out.Header().Get("Mcp-Session-Id"); out.Code != 200 || id == "" {
		s.t.Fatalf("initialize from %s: %d %s", from, out.Code, out.Body)
	}
	s.post(from, token, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return id
}

// use sends a request that counts as use of a session, and returns the status.
func (s *caller) use(from, token, id string) int {
	return s.post(from, token, id, callOf(1, "echo", "{}")).Code
}

const (
	local    = "127.0.0.1:1000"
	here     = "192.0.2.1:1000"
	there    = "192.0.2.2:1000"
	networkA = "[2001:db8:1:1::1]:1000"
	networkB = "[2001:db8:1:1:ffff::2]:1000" // in the same /64 network
)

// TestThousandInitializes checks that a client that begins more sessions than allowed and uses none
// of them does not prevent other clients from beginning and using sessions.
func TestThousandInitializes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 100
		s := newCaller(t, Options{MaxSessions: most})
		mine := s.join(local, "")
		if code := s.use(local, "", mine); code != 200 {
			t.Fatal(code)
		}
		var theirs []string
		for range 10 * most {
			time.Sleep(time.Second / 50) // as fast as the rate limit allows
			theirs = append(theirs, s.join(local, ""))
			if n := s.h.Sessions(); n > most {
				t.Fatalf("%d sessions", n)
			}
		}
		another := s.join(local, "")
		for name, id := range map[string]string{"the one in use": mine, "the latest": another} {
			if code := s.use(local, "", id); code != 200 {
				t.Errorf("%s: %d", name, code)
			}
		}
		if code := s.use(local, "", theirs[0]); code != 404 {
			t.Errorf("one that made room: %d", code)
		}
		time.Sleep(time.Minute)
		if n := s.h.Sessions(); n != 2 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// TestQuotas checks that no token and no address can have all sessions.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		opts        Options
		from, token string // of the client that begins as many sessions as it can
		also        string // another address that counts as the same
		want        int    // sessions
		setting     string // named in the refusal
		other, key  string // of a client that is still admitted, or ""
	}{
		{"an address", Options{MaxSessions: 10}, here, "", here, 5, "max_sessions_per_address", there, ""},
		{"an address, as set", Options{MaxSessions: 10, MaxSessionsPerAddress: 2}, here, "", here, 2, "max_sessions_per_address", there, ""},
		{"a network", Options{MaxSessions: 10, MaxSessionsPerAddress: 2}, networkA, "", networkB, 2, "max_sessions_per_address", here, ""},
		{"loopback", Options{MaxSessions: 10}, local, "", local, 10, "max_sessions", "", ""},
		{"loopback, as set", Options{MaxSessions: 10, MaxSessionsPerAddress: 2}, local, "", local, 2, "max_sessions_per_address", here, ""},
		{"a token", Options{MaxSessions: 10, Access: Access{Tokens: tokens("a", "b")}}, local, "a", here, 5, "max_sessions_per_token", local, "b"},
		{"a token, as set", Options{MaxSessions: 10, MaxSessionsPerToken: 3, Access: Access{Tokens: tokens("a", "b")}}, local, "a", here, 3, "max_sessions_per_token", local, "b"},
		{"the only token", Options{MaxSessions: 10, Access: Access{Tokens: tokens("a")}}, local, "a", local, 10, "max_sessions", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newCaller(t, tt.opts)
			for i := range tt.want {
				if code := s.use(tt.from, tt.token, s.join(tt.from, tt.token)); code != 200 {
					t.Fatalf("session %d: %d", i, code)
				}
			}
			out := s.post(tt.also, tt.token, "", initialize)
			want := 429
			if tt.setting == "max_sessions" {
				want = 503
			}
			if out.Code != want || out.Header().Get("Retry-After") == "" || !strings.Contains(out.Body.String(), tt.setting+")") {
				t.Errorf("over the quota: %d %s", out.Code, out.Body)
			}
			if tt.other != "" {
				s.join(tt.other, tt.key)
			}
		})
	}
}

// TestQuotaMakesRoom checks that a client at the limit loses the client's oldest never used
// session.
func TestQuotaMakesRoom(t *testing.T) {
	t.Parallel()
	s := newCaller(t, Options{MaxSessions: 10, MaxSessionsPerAddress: 3})
	others := s.join(there, "")
	used := s.join(here, "")
	s.use(here, "", used)
	first, second := s.join(here, ""), s.join(here, "")
	s.join(here, "")
	for id, want := range map[string]int{used: 200, first: 404, second: 200, others: 200} {
		if code := s.use(here, "", id); code != want {
			t.Errorf("got %d, want %d", code, want)
		}
	}
}

// TestInitializeRate checks that a client that begins sessions too fast has to wait, and other
// clients do not.
func TestInitializeRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCaller(t, Options{Access: Access{Tokens: tokens("a", "b")}, MaxSessionsPerToken: 5, MaxSessionsPerAddress: 5, InitializeRate: 2})
		for range minBurst {
			s.join(here, "a")
		}
		for _, from := range []string{here, there} { // the token counts
			if out := s.post(from, "a", "", initialize); out.Code != 429 || !strings.Contains(out.Body.String(), "initialize_rate") {
				t.Errorf("too fast, from %s: %d %s", from, out.Code, out.Body)
			}
		}
		s.join(there, "b")
		if out := s.post(here, "b", "", initialize); out.Code != 429 { // and the address
			t.Errorf("too fast with another token: %d", out.Code)
		}
		time.Sleep(time.Second)
		s.join(here, "a")
		s.join(here, "a")
		if out := s.post(here, "a", "", initialize); out.Code != 429 {
			t.Errorf("too fast again: %d", out.Code)
		}
		time.Sleep(time.Hour)
		s.h.mu.Lock()
		defer s.h.mu.Unlock()
		if len(s.h.tokens)+len(s.h.addresses) != 0 {
			t.Errorf("%d tokens and %d addresses are remembered", len(s.h.tokens), len(s.h.addresses))
		}
	})
}

// TestInitializeRateBehindAProxy checks that a client with a token that begins sessions too fast
// does not keep a client with another token from beginning sessions, if both come through a proxy.
func TestInitializeRateBehindAProxy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCaller(t, Options{Access: Access{Tokens: tokens("a", "b")}, MaxSessionsPerToken: 5, InitializeRate: 2})
		for range minBurst {
			s.join(local, "a")
		}
		if out := s.post(local, "a", "", initialize); out.Code != 429 {
			t.Errorf("too fast: %d", out.Code)
		}
		s.join(local, "b")
	})
}

// TestSessionIDs checks that the ids of sessions are long and differ, and that the log has no whole
// id.
func TestSessionIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		opts := options(clienttest.New())
		opts.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		s := &caller{t, New(context.Background(), Options{Session: opts, MaxSessions: 5})}
		seen := map[string]bool{}
		for range 50 { // each makes room for the next session, which is logged
			id := s.join(local, "")
			if seen[id] || len(id) < 26 {
				t.Errorf("id %q", id)
			}
			seen[id] = true
		}
		if err := s.h.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for id := range seen {
			if strings.Contains(log.String(), id) {
				t.Errorf("the log has the id %s", id)
			}
		}
		if !strings.Contains(log.String(), "session ended to make room") {
			t.Errorf("nothing was logged: %s", log.String())
		}
	})
}

// TestSessionsShareTheBudget checks that a principal with sessions that take too much memory gets
// no more sessions, and is told so, and that another principal still gets sessions.
func TestSessionsShareTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := budget.New(32 << 20) // 2 MiB for sessions
		s := newCaller(t, Options{Access: Access{Tokens: tokens("a", "b")}, Session: clients.Options{Budget: shared}})
		n := 0
		for ; ; n++ {
			out := s.post(here, "a", "", initialize)
			if out.Code == 503 {
				if text := out.Body.String(); !strings.Contains(text, "no session begins: no memory: the sessions of this client would be") || !strings.Contains(text, "(raise execution.max_total_memory)") {
					t.Errorf("refused: %s", text)
				}
				break
			} else if out.Code != 200 {
				t.Fatalf("session %d: %d %s", n, out.Code, out.Body)
			}
			s.use(here, "a", out.Header().Get(sessionHeader)) // else the session would make room for the next session
		}
		if n < 20 || n > 2<<20/sessionMemory {
			t.Errorf("%d sessions", n)
		}
		s.join(there, "b")
		time.Sleep(time.Hour)
		if f := shared.Figures(); f.Used != 0 {
			t.Errorf("without sessions: %+v", f)
		}
	})
}

// TestUnusedSessions checks that unused sessions end soon, and used sessions do not.
func TestUnusedSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCaller(t, Options{})
		used, unused, greeting := s.join(local, ""), s.join(home, ""), s.join(home, "")
		s.use(local, "", used)
		for range 3 {
			time.Sleep(20 * time.Second)
			s.post(local, "", greeting, ping)
		}
		for id, want := range map[string]int{used: 200, unused: 404, greeting: 200} {
			if code := s.use(local, "", id); code != want {
				t.Errorf("got %d, want %d", code, want)
			}
		}
		time.Sleep(time.Hour)
		if n := s.h.Sessions(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	})
}

// reloadingBody is a body that is read while the access policy is replaced.
type reloadingBody struct {
	io.Reader
	reload func()
}

func (b *reloadingBody) Read(p []byte) (int, error) {
	b.reload()
	return b.Reader.Read(p)
}

// TestOnePolicyPerRequest reloads the policy while the body of an initialize request is read. The
// policy at the beginning of the request applies, except that a token revoked in between begins no
// session.
func TestOnePolicyPerRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		before Access
		after  Access
		want   int
		text   string
	}{
		{"the quota grows", Access{Tokens: tokens("a", "b")}, Access{Tokens: tokens("a")}, 429, "max_sessions_per_token"},
		{"the quota shrinks", Access{Tokens: tokens("a")}, Access{Tokens: tokens("a", "b")}, 200, ""},
		{"the token is revoked", Access{Tokens: tokens("a")}, Access{Tokens: tokens("b")}, 503, errRevoked.Error()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newCaller(t, Options{MaxSessions: 2, Access: tt.before})
			if code := s.use(local, "a", s.join(local, "a")); code != 200 {
				t.Fatal(code)
			}
			out := s.postFrom(local, "a", "", &reloadingBody{strings.NewReader(initialize), func() { s.h.SetAccess(tt.after) }})
			if out.Code != tt.want || !strings.Contains(out.Body.String(), tt.text) {
				t.Errorf("got %d %s, want %d %s", out.Code, out.Body, tt.want, tt.text)
			}
		})
	}
}
