package upstream

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// small is an allowance that is soon used up.
func small(log io.Writer) *allowance {
	return &allowance{log: slog.New(slog.NewTextHandler(log, nil)), what: "messages", burst: 100}
}

// floods are what a server can send without end, and that nobody has asked for.
var floods = map[string]string{
	"garbage":          "this is no message\n",
	"no JSON-RPC":      `{"x":1}` + "\n",
	"blank lines":      "\n",
	"spaces":           strings.Repeat(" ", 1000) + "\r\n",
	"log messages":     `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n",
	"changes":          `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n",
	"unknown":          `{"jsonrpc":"2.0","method":"x/y"}` + "\n",
	"requests":         `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}` + "\n",
	"pings":            `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
	"cancellations":    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n",
	"unknown tokens":   `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":1}}` + "\n",
	"second answers":   `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n",
	"a line of no end": strings.Repeat("x", floodUnit),
}

// TestFloodIsReadSlowly: whatever a server sends without end, it is read at a low
// rate, and all of it.
func TestFloodIsReadSlowly(t *testing.T) {
	for name, message := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				a := small(&log)
				fromServer, toClient := io.Pipe()
				c := newConn(fromServer, nothing{}, ConnOptions{allowance: a, MaxMessage: 1 << 10}, slog.New(slog.DiscardHandler))
				written := 0
				done := make(chan struct{})
				go func() {
					defer close(done)
					for {
						if _, err := io.WriteString(toClient, message); err != nil {
							return
						}
						written++
					}
				}()
				const seconds = 30
				time.Sleep(seconds * time.Second) // of the bubble's clock
				synctest.Wait()
				held := 1 + 64<<10/len(message) // in buffers on the way
				if least, most := seconds*floodRate/2, a.burst+seconds*floodRate+held; written < least || written > most {
					t.Errorf("%d messages in %d s, want %d to %d", written, seconds, least, most)
				}
				if a.slowed().IsZero() || strings.Count(log.String(), "read slowly") != 1 {
					t.Errorf("slowed %v, log %s", a.slowed(), log.String())
				}
				c.Close()
				<-done
				time.Sleep(time.Minute)
				if !a.slowed().IsZero() {
					t.Error("it is still slowed")
				}
			})
		})
	}
}

// nothing takes all that is written.
type nothing struct{}

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }

// TestWhatWasAskedForIsFree: progress of a call in flight and answers of any size
// cost nothing, however many they are.
func TestWhatWasAskedForIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := small(io.Discard)
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		c := newConn(fromServer, toServer, ConnOptions{allowance: a}, slog.New(slog.DiscardHandler))
		defer c.Close()
		go func() {
			in := bufio.NewReader(fromClient)
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				id, _ := wire.Get([]byte(line), "id")
				token, _ := wire.Get([]byte(line), "params", "_meta", "progressToken")
				for range 300 {
					fmt.Fprintf(toClient, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}`+"\n", token)
				}
				fmt.Fprintf(toClient, `{"jsonrpc":"2.0","id":%s,"result":{"x":%q}}`+"\n", id, strings.Repeat("x", 4<<20))
			}
		}()
		begun, progress := time.Now(), 0
		for range 5 {
			if _, err := c.Call(t.Context(), wire.Call{Method: "tools/call", Progress: func([]byte) { progress++ }}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took > 0 || progress != 1500 || a.used > 0 {
			t.Errorf("it took %v, %d times progress, used %v", took, progress, a.used)
		}
	})
}

// TestFloodOfHTTP: on streams over HTTP the same things cost something as on pipes.
// In a bubble, since the allowance comes back with time.
func TestFloodOfHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cb := newCallbacks()
		opts := cb.options()
		opts.allowance = newAllowance(slog.New(slog.DiscardHandler), "messages")
		link, err := newHTTPLink(Spec{Name: "web", URL: "http://127.0.0.1:1/"}, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer link.shutDown(0, nil)
		f, err := link.takeOff(t.Context(), wire.Call{Method: "tools/call", Progress: func([]byte) {}})
		if err != nil {
			t.Fatal(err)
		}
		defer link.land(f, nil)
		cost := func(ev event, f *flight) time.Duration {
			before := link.opts.allowance.used
			link.event(ev, f)
			return link.opts.allowance.used - before
		}
		for name, message := range floods {
			if name == "requests" || name == "pings" { // they would be answered over the network
				continue
			}
			for _, of := range []*flight{nil, f} {
				if got := cost(event{data: []byte(strings.TrimRight(message, "\r\n"))}, of); got < unitTime/2 {
					t.Errorf("%s cost %v", name, got)
				}
			}
		}
		if got := cost(event{name: "other", data: []byte("{}")}, f); got < unitTime/2 {
			t.Errorf("an event of another name cost %v", got)
		}
		progress := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s}}`, link.ids.token(f.id))
		answer := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, f.id)
		for _, message := range [][]byte{progress, answer} {
			if got := cost(event{data: message}, f); got > 0 {
				t.Errorf("%s cost %v", message, got)
			}
		}
	})
}

// TestWasteOfEvents: comments and fields that make no event cost something, events
// themselves nothing here.
func TestWasteOfEvents(t *testing.T) {
	for stream, want := range map[string]int{
		strings.Repeat("event: message\nid: 1\nretry: 5\ndata: x\n\n", 100): 0,
		strings.Repeat(":\n", 100):                                   100,
		strings.Repeat("\n", 100):                                    100,
		strings.Repeat("id: 1\n", 100):                               100 - usualFields,
		"data: " + strings.Repeat("x", 1<<20) + "\n\n":               1 << 20 / eventWindow / 2,
		strings.Repeat("data: "+strings.Repeat("x", 1000)+"\n", 100): 90,
	} {
		wasted := 0
		e := newEventReader(strings.NewReader(stream), 4<<10)
		e.unasked = func(int) { wasted++ }
		for {
			_, err := e.next()
			if large := new(wire.TooLargeError); err != nil && err.Error() != large.Error() && err == io.EOF {
				break
			}
		}
		e.release()
		if wasted < want || want == 0 && wasted > 0 {
			t.Errorf("%.40q: %d, want %d", stream, wasted, want)
		}
	}
}

// TestRelistingIsPaidFor: a server whose list is another one whenever it is read
// pays for each reading, not just for its notifications.
func TestRelistingIsPaidFor(t *testing.T) {
	const readings = 50
	lists := make(chan struct{}, 1)
	s := newWebServer(t, func(w http.ResponseWriter, r *http.Request, m webMessage) {
		e := streamTo(w)
		e.send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		e.result(m, `{"tools":[]}`)
		select {
		case lists <- struct{}{}:
		case <-r.Context().Done():
		}
	})
	begun := time.Now()
	u := Start(s.httpSpec(), Options{})
	for range readings {
		<-lists
	}
	u.allowance.mu.Lock()
	used := u.allowance.used
	u.allowance.mu.Unlock()
	if least := (readings - 2) * relistCost / floodUnit * unitTime; used+time.Since(begun) < least {
		t.Errorf("%v are used after %v, want %v", used, time.Since(begun), least)
	}
	if err := u.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
