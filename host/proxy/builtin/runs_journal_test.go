package builtin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

// TestShowGaps checks that agents are told if the record of a run is incomplete.
func TestShowGaps(t *testing.T) {
	rec := journal.Record{Incomplete: true, Calls: []journal.CallRecord{{Answer: journal.Answer{Run: &journal.Record{Redacted: true}}}}}
	text := show(&rec, timeline.Of(&rec), many).text()
	for _, want := range []string{"\nnote: the journal could not be written to for a while", "\nnote: secrets were replaced by ****\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
	rec = journal.Record{}
	if text := show(&rec, timeline.Of(&rec), many).text(); strings.Contains(text, "note:") {
		t.Error(text)
	}
}

// TestJournalRuns checks that runs in a journal on disk are found by their session.
func TestJournalRuns(t *testing.T) {
	h := newFixture(t)
	dir := t.TempDir()
	log := journal.OpenLog(dir, journal.LogOptions{Log: quiet()})
	defer func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}()
	composer := compose.New(compose.Options{Sandbox: sandboxtest.Guest(t), Catalog: h.catalog, Upstreams: echo{}, Log: quiet(), Journal: log.Open})
	for _, session := range []string{"one", "two", "one"} {
		composer.Eval(t.Context(), "return git_hub.search(s='"+session+"')", nil, route.Call{Origin: client{id: session}})
	}
	runs := JournalRuns{Journal: journal.Reader{Dir: dir}, Since: time.Now().Add(-time.Hour), Budget: budget.New(0)}
	list := func(runs JournalRuns, session, id string) (found []journal.Record, err error) {
		err = runs.Each(t.Context(), "owner", journal.Filter{Session: session, ID: id}, func(r *journal.Record) bool {
			found = append(found, *r)
			return true
		})
		return found, err
	}
	mine, err := list(runs, "one", "")
	if err != nil || len(mine) != 2 || mine[0].ID <= mine[1].ID {
		t.Fatalf("%d runs, %v", len(mine), err)
	}
	if recs, err := list(runs, "one", mine[1].ID); err != nil || len(recs) != 1 || string(recs[0].Calls[0].Request.Arguments) != `{"s":"one"}` {
		t.Errorf("%+v, %v", recs, err)
	}
	if recs, err := list(runs, "two", mine[1].ID); err != nil || len(recs) != 0 {
		t.Errorf("another session's run: %v, %v", recs, err)
	}
	if recs, err := list(runs, "one", mine[0].ID[:4]); err != nil || len(recs) != 2 {
		t.Errorf("the beginning of two: %v, %v", recs, err)
	}
	late := JournalRuns{Journal: journal.Reader{Dir: dir}, Since: time.Now().Add(time.Hour)}
	if old, err := list(late, "one", ""); err != nil || len(old) != 0 {
		t.Errorf("runs of before: %d, %v", len(old), err)
	}
	if none, err := list(JournalRuns{Journal: journal.Reader{Dir: t.TempDir()}}, "one", ""); err != nil || none != nil {
		t.Errorf("no journal: %d, %v", len(none), err)
	}
	if f := runs.Budget.Figures(); f.Used != 0 || f.Peak == 0 {
		t.Errorf("records are not counted while they are read: %+v", f)
	}
	tight := runs
	tight.Budget = budget.New(4000)
	var large *budget.TooLargeError
	if recs, err := list(tight, "one", ""); len(recs) != 0 || !errors.As(err, &large) || !strings.Contains(unreadable(err).Error(), "max_total_memory") {
		t.Errorf("records that are too large: %d, %v", len(recs), err)
	}
}

// TestShowRunShowsTheLog checks that the parts of a long log that results and the
// overview leave out can be read, and that images are described.
func TestShowRunShowsTheLog(t *testing.T) {
	s := newRunFixture(t)
	s.call("eval_starlark", `{"code":"for n in range(250): print('entry', n + 1)\ngit_hub.search(q=1)\nreturn content.image('aGVsbG8=')"}`)
	got := s.text("show_run", `{"log":101}`)
	for _, want := range []string{"calls: (1 left out)", "(100 entries left out)\n  entry 101\n", "  entry 200\n  (50 more, from {\"log\": 201} on)\n", `result: "image, image/png, 6 bytes"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := s.text("show_run", `{"log":201}`); !strings.Contains(got, "\n  entry 201\n") || !strings.Contains(got, "entry 250\nresult") {
		t.Errorf("the end is\n%s", got)
	}
	if got := s.text("show_run", `{"log":999}`); strings.Contains(got, "entry 2") {
		t.Errorf("beyond the end is\n%s", got)
	}
}

// hangingRuns are Runs that cannot be read.
type hangingRuns struct{}

func (hangingRuns) Each(ctx context.Context, _ any, _ journal.Filter, _ func(*journal.Record) bool) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTurnsOfReadsEnd checks that a read that hangs ends with its turn, and says so.
func TestTurnsOfReadsEnd(t *testing.T) {
	h := newFixture(t)
	h.handler = New(Options{Composer: idle(), Store: h.store, Catalog: h.catalog, Log: quiet(), Runs: hangingRuns{}, Reading: budget.NewTurns(1, time.Millisecond)})
	for range 2 { // the turn is there again
		reply := h.handler.CallTool(t.Context(), "list_runs", route.Call{Origin: client{id: "a"}, Params: []byte(`{"name":"list_runs"}`)})
		const want = "list_runs: stopped after 1ms, because other callers wait for a turn"
		if text, _ := wire.GetString(reply.Result, "structuredContent", "error", "message"); !strings.HasPrefix(text, want) {
			t.Errorf("%s", reply.Result)
		}
		if class, _ := wire.GetString(reply.Result, "structuredContent", "error", "type"); class != "timeout" {
			t.Errorf("%s", reply.Result)
		}
	}
}
