package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	tests := []struct {
		times    times
		p50, p90 time.Duration
	}{
		{nil, 0, 0},
		{times{7}, 7, 7},
		{times{9, 1, 5}, 5, 9},
		{times{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 9},
	}
	for _, tt := range tests {
		if p50, p90 := tt.times.percentile(50), tt.times.percentile(90); p50 != tt.p50 || p90 != tt.p90 {
			t.Errorf("%v: got %d and %d, want %d and %d", tt.times, p50, p90, tt.p50, tt.p90)
		}
	}
}

// The client and the server of the benchmark understand each other.
func TestCallsOfEchoServer(t *testing.T) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- serveEcho(fromClient, toClient)
		toClient.Close()
	}()
	c := newClient(toServer, fromServer)
	if err := c.initialize(); err != nil {
		t.Fatal(err)
	}
	if err := c.waitForTool("echo"); err != nil {
		t.Error(err)
	}
	if err := c.waitForTool("other"); err == nil {
		t.Error("a tool that is not there was found")
	}
	k := &kind{client: c, params: `{"name":"echo","arguments":{"message":"é \"x\""}}`, want: `"é \"x\""`}
	b := bench{calls: 5}
	if err := b.takeTurns([]*kind{k, k}); err != nil {
		t.Error(err)
	}
	if len(k.times) != 10 {
		t.Errorf("%d times were taken, want 10", len(k.times))
	}
	if err := c.call(k.params, "something else"); err == nil {
		t.Error("a wrong answer was taken")
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table(&out, "call", []row{
		{name: "echo", times: times{3 * time.Millisecond}, base: times{2 * time.Millisecond}},
		{name: "script", times: times{time.Millisecond}},
	})
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(strings.Fields(lines[1]), " "); got != "echo 3.000 3.000 2.000 2.000 1.50 1.50 1.000" {
		t.Errorf("got %s", got)
	}
	if got := strings.Join(strings.Fields(lines[2]), " "); got != "script 1.000 1.000" {
		t.Errorf("got %s", got)
	}
}
