package streamable

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
)

// TestCutOffBeforeTheFirstEvent checks that a call continues after the client is cut off before the
// first byte of the answer, also if the client could not resume the call.
func TestCutOffBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		w := newServer(t, Options{ResumeWindow: hour})
		g := w.join(revision)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			_, _ = g.http.Do(g.request(ctx, "POST", callOf(1, "wait", "{}")))
			close(done)
		}()
		<-w.backend.Waiting
		cancel()
		<-done
		var out *stream
		for s := onlySession(t, w); out == nil || out.reachesClient(); { // the session notices that the client has gone
			for _, one := range s.allStreams() {
				if one.id != 0 && !one.finished() {
					out = one
				}
			}
			select {
			case err := <-w.backend.Cancelled:
				t.Fatalf("%s: cancelled with %v", revision, err)
			default:
				_ = g.call(ping)
			}
		}
		w.backend.Release <- struct{}{}
		for !out.finished() {
			_ = g.call(ping)
		}
		if n, _ := out.size(); n == 0 {
			t.Errorf("%s: the answer was not kept", revision)
		}
	}
}

// TestCutOffAfterTheFirstID checks that the client of a longer call gets the id of an event before
// the first message, and with the id, after a cut, the answer.
func TestCutOffAfterTheFirstID(t *testing.T) {
	t.Parallel()
	w := newServer(t, Options{ResumeWindow: hour, PrimeAfter: instant})
	g := w.join("2025-11-25")
	e := g.stream("POST", callOf(1, "wait", "{}"))
	if data, _, err := e.any(); data != "" || err != nil || !strings.HasSuffix(e.last, ".0") {
		t.Fatalf("got %q, id %q, %v", data, e.last, err)
	}
	<-w.backend.Waiting
	e.cancel()
	e = g.stream("GET", "", "Last-Event-ID", e.last)
	select {
	case w.backend.Release <- struct{}{}:
	case err := <-w.backend.Cancelled:
		t.Fatalf("cancelled with %v", err)
	}
	e.want(waited)
	e.end()
	// Without resumption, a call is cancelled at once, and no id is given early.
	w = newServer(t, Options{ResumeWindow: -1, PrimeAfter: instant})
	g = w.join("2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_, _ = g.http.Do(g.request(ctx, "POST", callOf(1, "wait", "{}")))
		close(done)
	}()
	<-w.backend.Waiting
	cancel()
	<-done
	if err := <-w.backend.Cancelled; !errors.Is(err, clients.ErrClientGone) {
		t.Errorf("cancelled with %v", err)
	}
}
