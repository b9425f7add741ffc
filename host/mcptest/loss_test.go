package mcptest

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"testing"
)

// lossy connects a client through a proxy that replaces one text by another in all
// messages from the server.
func lossy(t *testing.T, from, to string) (*Client, *Log) {
	s := NewServer(ServerOptions{})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	changedR, changedW := io.Pipe()
	done := make(chan struct{}, 2)
	go func() {
		s.ServeStdio(inR, outW)
		done <- struct{}{}
	}()
	go func() {
		lines(bufio.NewReader(outR), func(line []byte) {
			_, _ = changedW.Write(append(bytes.ReplaceAll(line, []byte(from), []byte(to)), '\n'))
		})
		_ = changedW.Close()
		done <- struct{}{}
	}()
	t.Cleanup(func() { <-done; <-done })
	return NewStdio(changedR, inW, ClientOptions{OnRequest: AnswerRequest}), s.Received
}

// observe runs the items with these names, or all items if there are none.
func observe(t *testing.T, c *Client, log *Log, names []string) map[string][]byte {
	ctx := testContext(t)
	defer c.Disconnect()
	welcome, err := c.Initialize(ctx, ClientParams)
	if err != nil {
		t.Fatal(err)
	}
	p := &Pair{Client: c, InitializeResponse: welcome, Server: log}
	all := map[string][]byte{}
	for _, item := range Items {
		if names != nil && !slices.Contains(names, item.Name) {
			continue
		}
		if all[item.Name], err = item.Run(ctx, p); err != nil {
			t.Fatalf("%s: %v", item.Name, err)
		}
	}
	return all
}

// TestItemsSeeLoss checks that Items detect mistakes of a proxy.
func TestItemsSeeLoss(t *testing.T) {
	c, log := lossy(t, "no such text", "")
	direct := observe(t, c, log, nil)
	for _, tt := range []struct {
		from, to string
		items    []string // that must differ
	}{
		{`"n":9007199254740993,`, `"n":9007199254740992,`, []string{"definitions, pages, _meta of lists", "results: unknown content, digits, _meta everywhere", "requests of the server to the client", "logging", "JSON-RPC errors with data"}},
		{`"n":9007199254740993}`, `"n":9007199254740992}`, []string{"initialize: capabilities, revision, _meta", "progress, 2,000 before the result", "subscriptions", "tasks"}},
		{`"_meta":{"n":1.0}`, `"_meta":{"n":1}`, []string{"burst of 5,000 notifications", "list_changed", "tasks"}},
		{`"progress":7,`, `"progress":8,`, []string{"progress, 2,000 before the result", "progress of several calls at once"}},
		{`1e400`, `1E400`, []string{"definitions, pages, _meta of lists", "results: unknown content, digits, _meta everywhere", "requests of the server to the client", "notifications of the server, _meta"}},
		{"nor this", "", nil},
	} {
		c, log := lossy(t, tt.from, tt.to)
		seen := observe(t, c, log, tt.items)
		for name := range seen {
			diff := Diff(direct[name], seen[name])
			if tt.items != nil && diff == "" {
				t.Errorf("%s for %s is not seen by %q", tt.to, tt.from, name)
			}
			if tt.items == nil && diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}
