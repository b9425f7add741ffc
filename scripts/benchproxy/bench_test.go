package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
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

// TestCallsOfEchoServer checks that the line client and the echo server work
// together.
func TestCallsOfEchoServer(t *testing.T) {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- serveEcho(fromClient, toClient)
		toClient.Close()
	}()
	c := newLineClient(toServer, fromServer)
	if err := initialize(c); err != nil {
		t.Fatal(err)
	}
	testCalls(t, c)
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if _, err := c.request("ping", "{}"); err == nil {
		t.Error("an answer after the end")
	}
}

func TestCallsOfEchoServerOverHTTP(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echoHTTP))
	defer server.Close()
	c, err := openHTTP(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	testCalls(t, c)
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func testCalls(t *testing.T, c client) {
	t.Helper()
	if err := needTool(c, "echo"); err != nil {
		t.Error(err)
	}
	if err := needTool(c, "other"); err == nil {
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
	if per, err := measureRate(k, 5*time.Millisecond); err != nil || per <= 0 {
		t.Errorf("%f calls per second, %v", per, err)
	}
	k.want = "something else"
	if err := call(c, k.params, k.want); err == nil {
		t.Error("a wrong answer was taken")
	}
	if _, err := measureRate(k, 0); err == nil {
		t.Error("wrong answers were taken")
	}
}

func TestIDOf(t *testing.T) {
	for line, want := range map[string]int{
		`{"jsonrpc":"2.0","id":17,"result":{}}`:                         17,
		`{"result":{"id":"x"},"jsonrpc":"2.0","id":5}`:                  5,
		`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`: 0,
		`{"jsonrpc":"2.0","id":"text","result":{}}`:                     0,
	} {
		if got, ok := idOf([]byte(line)); got != want || ok != (want != 0) {
			t.Errorf("%s: %d, %t", line, got, ok)
		}
	}
}

// TestQuietClient checks that quietClient reads the same answers as other clients,
// and does not allocate.
func TestQuietClient(t *testing.T) {
	large := strings.Repeat("x", 70_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, err := echo(body)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(body), "chunks") {
			io.WriteString(w, "data: ")
			w.(http.Flusher).Flush()
		}
		w.Write(answer)
	}))
	defer server.Close()
	c, err := dialQuietly(server.Listener.Addr().String(), "/mcp", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, message := range []string{"one piece", "in chunks", large, "in chunks" + large, "the end"} {
		if err := c.call(`{"name":"echo","arguments":{"message":"`+message+`"}}`, message); err != nil {
			t.Error(err)
		}
	}
	const params = `{"name":"echo","arguments":{"message":"hello"}}`
	if n := testing.AllocsPerRun(100, func() { c.build("tools/call", params) }); n > 0 {
		t.Errorf("a request allocates %v times", n)
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

func TestOtherTables(t *testing.T) {
	var out bytes.Buffer
	rateTable(&out, []rate{{name: "a", through: []float64{30, 10, 20}, direct: []float64{40, 80, 10}}})
	sizeTable(&out, []size{{"b", 1000.4, 12.25}})
	got := strings.Join(strings.Fields(out.String()), " ")
	if !strings.Contains(got, "a 20 40 0.50") || !strings.Contains(got, "b 1000 12.2") {
		t.Error(got)
	}
}

func TestGoals(t *testing.T) {
	var g goals
	for _, factor := range []time.Duration{3, 1, 2} {
		ms := times{time.Millisecond}
		g.add([]row{
			{name: stdioToStdio, times: times{time.Millisecond + factor*20*time.Microsecond}, base: ms},
			{name: httpToStdio, times: times{time.Millisecond + factor*40*time.Microsecond}, base: ms},
			{name: httpToHTTP, times: ms, base: ms},
			{name: proxiedEcho, times: ms},
			{name: compositeNone, times: times{factor * time.Millisecond}},
			{name: compositeTen, times: times{factor * 8 * time.Millisecond}},
		}, []rate{
			{name: stdioToStdio, through: []float64{float64(factor)}, direct: []float64{4}},
			{name: httpToHTTP, through: []float64{float64(factor)}, direct: []float64{5}},
			{name: "another", through: []float64{1}, direct: []float64{5}},
		})
	}
	var out bytes.Buffer
	g.print(&out)
	got := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"without calls, against a proxied echo 2.00 1.00 to 3.00 at most 2.50 reached",
		"ten calls, against a proxied echo 16.0 8.0 to 24.0 at most 14.0 MISSED",
		"added, " + stdioToStdio + " 0.040 ms 0.020 ms to 0.060 ms at most 0.060 ms reached",
		"added, " + httpToStdio + " 0.080 ms 0.040 ms to 0.120 ms at most 0.060 ms MISSED",
		"direct, " + stdioToStdio + " 0.50 0.25 to 0.75 at least 0.50 reached",
		"direct, " + httpToHTTP + " 0.40 0.20 to 0.60 at least 0.50 MISSED",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
	if strings.Contains(got, "another") {
		t.Error("a row without a goal")
	}
	rows := joinRows(joinRows(nil, []row{{times: times{1}, base: times{2}}}), []row{{times: times{3}}})
	if len(rows) != 1 || len(rows[0].times) != 2 || len(rows[0].base) != 1 {
		t.Errorf("joined: %+v", rows)
	}
	rates := joinRates(joinRates(nil, []rate{{through: []float64{1}}}), []rate{{through: []float64{2}, direct: []float64{3}}})
	if len(rates) != 1 || len(rates[0].through) != 2 || len(rates[0].direct) != 1 {
		t.Errorf("joined: %+v", rates)
	}
}
