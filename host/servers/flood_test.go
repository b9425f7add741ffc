package servers

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stdio"
	"github.com/mcp-metatool/mcp-metatool/host/servers/streamable"
)

// small returns a small allowance.
func small(log io.Writer) *allowance {
	return &allowance{log: slog.New(slog.NewTextHandler(log, nil)), kind: "messages", burst: 100}
}

// charged returns the options of a connection that charges an allowance.
func charged(a *allowance) link.Options {
	return link.Options{
		Handler: link.Callbacks{}, Errors: CallErrors(""),
		Unsolicited: func(bytes int, done <-chan struct{}) { a.spend(bytes, done, nil) },
	}
}

// floods are messages that a server can send without end and without being asked.
var floods = map[string]string{
	"garbage":         "this is no message\n",
	"no JSON-RPC":     `{"x":1}` + "\n",
	"blank lines":     "\n",
	"spaces":          strings.Repeat(" ", 1000) + "\r\n",
	"log messages":    `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\n",
	"changes":         `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n",
	"unknown":         `{"jsonrpc":"2.0","method":"x/y"}` + "\n",
	"requests":        `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}` + "\n",
	"pings":           `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
	"cancellations":   `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}` + "\n",
	"unknown tokens":  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":77,"progress":1}}` + "\n",
	"second answers":  `{"jsonrpc":"2.0","id":77,"result":{}}` + "\n",
	"an endless line": strings.Repeat("x", floodUnit),
}

// TestFloodIsReadSlowly checks that a server that sends without end is read at a
// low rate, whatever it sends, and that nothing is skipped.
func TestFloodIsReadSlowly(t *testing.T) {
	t.Parallel()
	for name, message := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				a := small(&log)
				fromServer, toClient := io.Pipe()
				opts := charged(a)
				opts.MaxMessage = 1 << 10
				c := stdio.NewConn(fromServer, discard{}, opts)
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
				time.Sleep(seconds * time.Second) // on the bubble's clock
				synctest.Wait()
				held := 1 + 64<<10/len(message) // in buffers
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

// discard is an io.WriteCloser that discards everything.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

// TestRequestedMessagesAreFree checks that progress of a call in flight and answers of
// any size cost nothing, however many there are.
func TestRequestedMessagesAreFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := small(io.Discard)
		fromServer, toClient := io.Pipe()
		fromClient, toServer := io.Pipe()
		c := stdio.NewConn(fromServer, toServer, charged(a))
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

// TestFloodOfHTTP checks that the same messages are charged over HTTP as over pipes,
// on the stream of a call and on the GET stream.
func TestFloodOfHTTP(t *testing.T) {
	t.Parallel()
	message := make(chan string, 1)
	own, written := make(chan linktest.EventWriter, 1), make(chan struct{})
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, _ *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		for _, line := range strings.Split(strings.ReplaceAll(<-message, "TOKEN", m.ProgressToken()), "\n") {
			e.Raw("data: %s\n\n", line)
		}
		e.Result(m, `{}`)
	})
	s.Get = func(w http.ResponseWriter, r *http.Request) {
		own <- linktest.StreamTo(w)
		<-r.Context().Done()
		<-written
	}
	defer close(written)
	c := linktest.NewRecorder()
	c.MaxMessage = 1 << 10
	c.OnRequest = func(context.Context, wire.Inbound) wire.Reply { return wire.Reply{Result: []byte("{}")} }
	client, err := httpclient.New(s.ClientConfig())
	if err != nil {
		t.Fatal(err)
	}
	opts := c.Options()
	var charges atomic.Int32
	opts.Unsolicited = func(int, <-chan struct{}) { charges.Add(1) }
	l := streamable.New(client, opts)
	defer l.Shutdown(time.Minute, nil)
	if err := linktest.Initialize(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	listening := <-own
	inCall := func(text string) int32 {
		before := charges.Load()
		message <- text
		call := linktest.ToolCall("a")
		call.Progress = func([]byte) {}
		if got := linktest.FormatOutcome(l.Call(t.Context(), call)); got != "{}" {
			t.Errorf("got %s", got)
		}
		return charges.Load() - before
	}
	for name, flood := range floods {
		if strings.TrimSpace(flood) == "" {
			continue // not part of an event; see TestIgnoredFieldsAreCounted in package sse
		}
		if got := inCall(flood); got < 1 {
			t.Errorf("%s on the stream of a call costs %d", name, got)
		}
		before := charges.Load()
		listening.Raw("data: %s\n\n", strings.TrimSpace(flood))
		listening.Send(`{"jsonrpc":"2.0","method":"mark"}`)
		for <-c.Notes != "mark[]" {
		}
		if got := charges.Load() - before; got < 2 { // the mark costs as well
			t.Errorf("%s on the GET stream costs %d", name, got)
		}
	}
	progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":1}}`
	if got := inCall(progress + "\n" + progress); got > 0 {
		t.Errorf("progress and an answer cost %d", got)
	}
	message <- progress
	if got := linktest.FormatOutcome(l.Call(t.Context(), linktest.ToolCall("without progress"))); got != "{}" {
		t.Errorf("got %s", got)
	}
}

// TestRelistingIsCharged checks that a server that announces a change each time its
// list is read is charged for each reading, not only for its notifications.
func TestRelistingIsCharged(t *testing.T) {
	t.Parallel()
	const readings = 50
	lists := make(chan struct{}, 1)
	s := linktest.NewHTTPServer(t, func(w http.ResponseWriter, r *http.Request, m linktest.HTTPMessage) {
		e := linktest.StreamTo(w)
		e.Send(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		e.Result(m, `{"tools":[]}`)
		select {
		case lists <- struct{}{}:
		case <-r.Context().Done():
		}
	})
	begun := time.Now()
	u := Start(httpSpec(s), Options{})
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
