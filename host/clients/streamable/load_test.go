package streamable

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestSessionsAreIsolated makes many calls in several sessions at once. Each stream has exactly the
// stream's own progress, in order, and then the answer.
func TestSessionsAreIsolated(t *testing.T) {
	t.Parallel()
	const sessions, calls, times = 8, 25, 40
	w := newServer(t, Options{})
	var all sync.WaitGroup
	for range sessions {
		g := w.join("2025-06-18")
		for id := range calls {
			all.Go(func() {
				res, err := g.http.Do(g.request(t.Context(), "POST", callOf(id, "count", fmt.Sprintf(`{"times":%d}`, times))))
				if err != nil {
					t.Error(err)
					return
				}
				body := read(t, res)
				var got, want []string
				for line := range strings.Lines(body) {
					if data, ok := strings.CutPrefix(line, "data: "); ok {
						got = append(got, strings.TrimSpace(data))
					}
				}
				for n := range times {
					want = append(want, progressOf(id, n+1))
				}
				want = append(want, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id))
				if strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("call %d got %s", id, body)
				}
			})
		}
	}
	all.Wait()
}

// TestBurst writes many messages at once to the main stream.
func TestBurst(t *testing.T) {
	t.Parallel()
	const burst = 5000
	w := newServer(t, Options{})
	e := w.join("2025-11-25").stream("GET", "")
	s := w.session()
	for i := range burst {
		s.Notify("notifications/message", fmt.Appendf(nil, `{"n":%d}`, i))
	}
	for i := range burst {
		e.want(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"n":%d}}`, i))
	}
}
