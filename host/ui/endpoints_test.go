package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var state struct {
		Version string
		Journal bool
		Servers []server
		Own     cost
	}
	b.get("state", &state)
	if state.Version != "1.2.3" || !state.Journal || len(state.Servers) != 3 || state.Own.Tools != 1 || state.Own.Tokens == 0 {
		t.Fatalf("%+v", state)
	}
	files, own, off := state.Servers[0], state.Servers[1], state.Servers[2]
	if files.State != "failed" || files.Restarts != 3 || files.ServerName != attack || files.Error != "it said ****" || files.Output != "last line" || files.Address != "files" {
		t.Errorf("%+v", files)
	}
	if files.Listed != 3 || files.Tokens < 50 || files.Check != nil {
		t.Errorf("%+v", files)
	}
	if !own.Isolated || own.Address != "wiki.example:8443" || off.State != "disabled" {
		t.Errorf("%+v, %+v", own, off)
	}
	resp, body := b.ask(http.MethodPost, "/ui/api/check", `{"server":"files"}`)
	if resp.StatusCode != 200 || b.proxy.checked != "files" || !strings.Contains(body, `"latency":1.5`) || strings.Contains(body, secret) {
		t.Errorf("%s %s", resp.Status, body)
	}
	if resp, body := b.ask(http.MethodPost, "/ui/api/check", `{"server":"missing"}`); resp.StatusCode != 400 || !strings.Contains(body, "no server is called") {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var list struct{ Tools []tool }
	b.get("tools", &list)
	names := map[string]tool{}
	for _, one := range list.Tools {
		names[one.Name] = one
	}
	if len(names) != 5 || !names["files__read"].Hints.ReadOnly || names["files__read"].Description != attack || names["files__quiet"].Listed || !names["files__write"].Listed {
		t.Errorf("%+v", names)
	}
	if h := names["files__write"].Hints; h.Destructive || h.ReadOnly || !h.Given {
		t.Errorf("%+v", h)
	}
	if h := names["save_tool"].Hints; !h.Destructive || h.Given {
		t.Errorf("%+v", h)
	}
	resp, body := b.ask(http.MethodGet, "/ui/api/tool?kind=proxied&server=files&name=files__read", "")
	if resp.StatusCode != 200 || !strings.Contains(body, `"maximum":12345678901234567890`) || strings.Contains(body, "<img") {
		t.Errorf("%s %s", resp.Status, body) // encoded, so that it is harmless even if it were taken for HTML
	}
	if resp, _ := b.ask(http.MethodGet, "/ui/api/tool?kind=proxied&server=own&name=files__read", ""); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
}

// TestLongTexts checks that a server cannot make the page work on megabytes.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for path, most := range map[string]int{"tools": 10_000, "tool?kind=proxied&server=files&name=files__long": maxShown + maxDescription + 2000, "state": 10_000} {
		resp, body := b.ask(http.MethodGet, "/ui/api/"+path, "")
		if resp.StatusCode != http.StatusOK || len(body) > most || !utf8.ValidString(body) || !json.Valid([]byte(body)) {
			t.Errorf("%s: %s, %d bytes", path, resp.Status, len(body))
		}
	}
	var one struct {
		InputSchema json.RawMessage
		Left        string
	}
	if b.get("tool?kind=proxied&server=files&name=files__long", &one); string(one.InputSchema) != "{}" || one.Left == "" {
		t.Errorf("%s, %q", one.InputSchema, one.Left)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var called []string
	answer := func(reply wire.Reply, err error) {
		b.proxy.call = func(_ context.Context, name string, arguments []byte, progress func([]byte)) (wire.Reply, error) {
			called = append(called, name+string(arguments))
			progress([]byte(`{"progress":1}`))
			return reply, err
		}
	}
	text := func(s string) string { return `{"type":"text","text":` + string(wire.Quote(s)) + `}` }
	answer(wire.Reply{Result: []byte(`{"content":[` + text(attack) + `,` + text(`{"n":12345678901234567890}`) + `,{"type":"image","mimeType":"image/png","data":"AA=="},` +
		`{"type":"image","mimeType":"image/svg+xml","data":"AA=="}],"structuredContent":{"n":1.10}}`)}, nil)
	shown := map[string]string{}
	for _, name := range []string{"files__read", "files__write"} {
		var tool struct{ Fingerprint string }
		b.get("tool?kind=proxied&server=files&name="+name, &tool)
		shown[name] = tool.Fingerprint
	}
	for _, tt := range []struct {
		body string
		want int
		code string
	}{
		{`{"name":"files__write","arguments":{}}`, 428, "confirm"},
		{`{"name":"files__write","arguments":{},"confirmed":true}`, 428, "confirm"},
		{`{"name":"files__write","arguments":{},"confirmed":"` + shown["files__read"] + `"}`, 428, "confirm"},
		{`{"name":"save_tool","arguments":{},"confirmed":true}`, 403, ""},
		{`{"name":"files__quiet","arguments":{},"confirmed":true}`, 404, ""},
		{`{"name":"files__hidden","arguments":{},"confirmed":true}`, 404, ""},
		{`{"name":"files__read","arguments":[]}`, 400, ""},
		{`{"name":"files__read"}`, 400, ""},
	} {
		resp, body := b.ask(http.MethodPost, "/ui/api/call", tt.body)
		var got struct{ Error, Code string }
		if err := json.Unmarshal([]byte(body), &got); err != nil || resp.StatusCode != tt.want || got.Code != tt.code || got.Error == "" {
			t.Errorf("%s: %s %s", tt.body, resp.Status, body)
		}
	}
	if called != nil {
		t.Fatalf("called %q", called)
	}
	_, body := b.ask(http.MethodPost, "/ui/api/call", `{"name":"files__read","arguments":{"n":12345678901234567890}}`)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if len(lines) != 2 || lines[0] != `{"progress":{"progress":1}}` || !slices.Equal(called, []string{`files__read{"n":12345678901234567890}`}) {
		t.Fatalf("%q after %q", lines, called)
	}
	var got struct{ Result result }
	if err := json.Unmarshal([]byte(lines[1]), &got); err != nil {
		t.Fatal(err)
	}
	blocks := got.Result.Blocks
	if len(blocks) != 4 || blocks[0].Text != attack || blocks[1].Text != "{\n  \"n\": 12345678901234567890\n}" || blocks[2].Data != "AA==" || blocks[3].Data != "" ||
		got.Result.Structured != "{\n  \"n\": 1.10\n}" {
		t.Errorf("%+v", got)
	}
	answer(wire.Reply{Result: []byte(`{"content":[` + text(secret) + `],"isError":true}`)}, nil)
	if _, body := b.ask(http.MethodPost, "/ui/api/call", `{"name":"files__write","arguments":{},"confirmed":"`+shown["files__write"]+`"}`); !strings.Contains(body, `"isError":true`) || strings.Contains(body, secret) {
		t.Error(body)
	}
	answer(wire.Reply{}, errors.New("it is down: "+secret))
	if _, body := b.ask(http.MethodPost, "/ui/api/call", `{"name":"files__read","arguments":{}}`); !strings.Contains(body, `"error":"it is down: ****"`) {
		t.Error(body)
	}
}

// TestCallIsCancelled checks that a call ends when the page closes its stream.
func TestCallIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	over := make(chan struct{})
	b.proxy.call = func(ctx context.Context, _ string, _ []byte, progress func([]byte)) (wire.Reply, error) {
		defer close(over)
		progress([]byte(`{"progress":1}`))
		<-ctx.Done()
		return wire.Reply{}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/ui/api/call", strings.NewReader(`{"name":"files__read","arguments":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.Contains(line, "progress") {
		t.Fatal(line, err)
	}
	cancel()
	<-over
}

func TestSaved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	schema := json.RawMessage(`{"type":"object"}`)
	for _, code := range []string{"return 1", "return 2 # " + attack} {
		if _, _, err := b.store.Save(tools.Definition{Name: "two", Description: attack, InputSchema: schema, Code: code}); err != nil {
			t.Fatal(err)
		}
	}
	var list struct{ Tools []savedEntry }
	b.get("saved", &list)
	if len(list.Tools) != 1 || list.Tools[0].Description != attack {
		t.Errorf("%+v", list)
	}
	var one struct {
		Code     string
		Versions []version
	}
	b.get("saved/two", &one)
	if !strings.HasPrefix(one.Code, "return 2") || len(one.Versions) != 2 || !slices.Equal(one.Versions[0].Changed, []string{"code"}) || one.Versions[1].Number != 1 {
		t.Errorf("%+v", one)
	}
	var change struct{ Diff string }
	b.get("saved/two/diff?from=1&to=0", &change)
	if !strings.Contains(change.Diff, "-code = \"return 1\"\n") || !strings.Contains(change.Diff, "+code = \"return 2 # "+attack) {
		t.Error(change.Diff)
	}
	for path, want := range map[string]int{
		"two/diff?from=9&to=0": 404, "two/diff?from=x&to=0": 400, "gone": 404, "gone/calls": 404, "..%2ftwo": 404,
	} {
		if resp, body := b.ask(http.MethodGet, "/ui/api/saved/"+path, ""); resp.StatusCode != want {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	var calls struct {
		Calls    []savedCall
		Warnings []string
	}
	b.get("saved/two/calls", &calls)
	if len(calls.Calls) != 4 || calls.Calls[0].Times != 2 || calls.Calls[0].Line != 2 || calls.Calls[0].Problem != "" || !calls.Calls[0].Hints.ReadOnly || calls.Warnings[0] != "line 9: is odd" {
		t.Errorf("%+v", calls)
	}
	for _, c := range calls.Calls[1:] {
		if c.Problem == "" {
			t.Errorf("%+v may be called", c)
		}
	}
}

// record writes a run to the journal.
func (b *bench) record(tool string, failure abi.ErrorType) string {
	b.t.Helper()
	r, err := b.log.Open(journal.Begin{Definition: tools.Definition{Name: tool, Code: attack}, Params: []byte("{}")})
	if err != nil {
		b.t.Fatal(err)
	}
	r.OpenCall(abi.ToolCall{Arguments: []byte(`{"q":1}`)}, "files", attack).Close(journal.Answer{Value: []byte("1")})
	r.Close(journal.Outcome{Error: failure, Message: string(failure), Result: []byte(`"x"`)})
	return r.ID()
}

func TestRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := []string{b.record("a", ""), b.record("b", abi.ErrTool), b.record("a", abi.ErrTimeout)}
	slices.Reverse(ids) // the newest first
	for query, want := range map[string][]string{
		"": ids, "?tool=a": {ids[0], ids[2]}, "?outcome=error": ids[:2], "?outcome=ok": ids[2:], "?limit=1": ids[:1], "?before=" + ids[0]: ids[1:], "?tool=none": nil,
	} {
		var page struct {
			Runs []run
			More bool
		}
		b.get("runs"+query, &page)
		var got []string
		for _, r := range page.Runs {
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) || page.More != (query == "?limit=1") {
			t.Errorf("%q: %q, more %t", query, got, page.More)
		}
	}
	for path, want := range map[string]int{"runs?limit=0": 400, "runs?limit=x": 400, "runs/x": 404, "runs/019": 404} {
		if resp, body := b.ask(http.MethodGet, "/ui/api/"+path, ""); resp.StatusCode != want {
			t.Errorf("%s: %s %s", path, resp.Status, body)
		}
	}
	var one struct {
		Tool string
		View struct {
			Rows   []struct{ Label string }
			Values []struct{ Name, Text string }
		}
	}
	b.get("runs/"+ids[2], &one)
	if one.Tool != "a" || len(one.View.Rows) != 1 || one.View.Rows[0].Label != "files."+attack || !slices.ContainsFunc(one.View.Values, func(v struct{ Name, Text string }) bool { return v.Text == attack }) {
		t.Errorf("%+v", one)
	}
}

// follow opens a stream of runs and returns a function that waits for its next event.
func (b *bench) follow() (next func() (event string, got run)) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.URL+"/ui/api/live", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { cancel(); resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() (event string, got run) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "event":
				event = value
			case "data":
				if err := json.Unmarshal([]byte(value), &got); err != nil {
					b.t.Fatal(err)
				}
				return event, got
			}
		}
		b.t.Fatal(lines.Err())
		return "", run{}
	}
}

// TestLive checks that a page hears of a run while it goes on and when it ends.
func TestLive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.record("old", "")
	next := b.follow()
	if event, _ := next(); event != "ready" {
		t.Fatal(event)
	}
	live, err := b.log.Open(journal.Begin{Definition: tools.Definition{Name: "now"}})
	if err != nil {
		t.Fatal(err)
	}
	if event, got := next(); event != "run" || got.ID != live.ID() || got.Done || got.Tool != "now" {
		t.Errorf("%s %+v", event, got)
	}
	live.Close(journal.Outcome{Result: []byte("1")})
	if event, got := next(); event != "run" || got.ID != live.ID() || !got.Done || got.Outcome != "ok" {
		t.Errorf("%s %+v", event, got)
	}
}

// TestRunIsNotReadAgain checks that the journal is not read for each event of a run that a
// page looks at, even if there are several pages.
func TestRunIsNotReadAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.follow(), b.follow()
	for _, next := range []func() (string, run){one, two} {
		if event, _ := next(); event != "ready" {
			t.Fatal(event)
		}
	}
	live, err := b.log.Open(journal.Begin{Definition: tools.Definition{Name: "now"}})
	if err != nil {
		t.Fatal(err)
	}
	one()
	var got struct {
		Calls int
		Done  bool
		View  struct{ Rows []struct{ Class string } }
	}
	path := "runs/" + live.ID()
	b.get(path, &got) // from the journal
	live.OpenCall(abi.ToolCall{}, "files", "read").Close(journal.Answer{Value: []byte("1")})
	for _, next := range []func() (string, run){one, two} {
		for calls := 0; calls < 1; {
			_, event := next()
			calls = event.Calls
		}
	}
	files, err := os.ReadDir(b.log.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files { // so that nothing can be read again
		if err := os.Truncate(filepath.Join(b.log.Dir(), f.Name()), 0); err != nil {
			t.Fatal(err)
		}
	}
	if b.get(path, &got); got.Calls != 1 || len(got.View.Rows) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFeedIsBounded checks that neither a page that does not read nor many runs fill the
// memory.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	f := newFeed(t.Context(), t.TempDir())
	s, ready := f.subscribe()
	defer f.close()
	<-ready
	for i := range maxPending + 1 {
		rec := journal.Record{ID: strconv.Itoa(i)}
		f.publish(t.Context(), &rec)
		f.publish(t.Context(), &rec)
		f.watch(rec.ID)
	}
	if len(f.views) != maxViews || len(f.order) != maxViews {
		t.Errorf("%d views", len(f.views))
	}
	if events, behind := f.take(s); len(events) != maxPending || !behind {
		t.Errorf("%d events, behind %t", len(events), behind)
	}
	f.unsubscribe(s)
	f.rest()
	if f.ready != nil || len(f.views) != 0 {
		t.Error("the journal is still followed")
	}
}
