package compose

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// onlyLog returns the id of the only open run, and the name of the run's log.
func (r *durableRig) onlyLog(runs *durable.Runs) (id, log string) {
	r.t.Helper()
	open, err := runs.List(r.t.Context())
	if err != nil || len(open) != 1 {
		r.t.Fatalf("%+v, %v", open, err)
	}
	return open[0].ID, store.LastingPrefix + open[0].ID
}

// TestDurableLogGone removes the log of a run, or the beginning of the log, during a call. The
// process of the run notices the loss at the renewal of the lease, or with the next event, ends the
// run, and undoes the run's calls, although the log cannot record the compensations.
func TestDurableLogGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		events int // how many are removed
		renew  bool
	}{{"beginning, renewed", 1, true}, {"all, renewed", 100, true}, {"all, appended", 100, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := newDurableRig(t, false)
			r.link = memorytest.New(t)
			called := r.up.block("s.block")
			r.saved["job"] = durableTool("undo(s.remove, {\"n\": 2})\ns.other(n=1)\ntry:\n    s.block({\"n\": 3}, timeout=0.2)\nexcept Error as e:\n    pass\nreturn s.other(n=4)", "")
			if c.renew {
				r.saved["job"] = durableTool("undo(s.remove, {\"n\": 2})\ns.other(n=1)\ns.block(n=3)\nreturn s.other(n=4)", "")
			}
			runs, _ := r.process(1 << 30)
			done := make(chan wire.Reply, 1)
			go func() { done <- r.round(asker0("2025-11-25"), r.saved["job"], "", "") }()
			<-called
			_, log := r.onlyLog(runs)
			r.link.Remove(log, c.events)
			if c.renew {
				runs.Renew(t.Context())
			}
			reply := <-done
			if !strings.Contains(string(reply.Result), durable.ErrGap.Error()) || !strings.Contains(string(reply.Result), `"undone":true`) {
				t.Errorf("ended with %s", reply.Result)
			}
			if counts := r.counts(); counts["remove 2"] != 1 || counts["other 4"] != 0 {
				t.Errorf("calls %v", counts)
			}
			if open, err := runs.List(t.Context()); err != nil || len(open) > 0 {
				t.Errorf("open runs %+v, error %v", open, err)
			}
		})
	}
}

// TestDurableFlood lets a client write more into the journal than the store keeps while a run of
// another client is open. The log of the run stays, and another process continues the run.
func TestDurableFlood(t *testing.T) {
	r := newDurableRig(t, true)
	r.link = memorytest.New(t)
	r.link.Bound(4 << 10)
	r.saved["job"] = durableTool("s.other(n=1)\nundo(s.remove, {\"n\": 2})\ns.other(n=3)\nfail('enough')", "")
	_, _ = r.process(4)
	r.round(asker0("2025-11-25"), r.saved["job"], "", "")
	s := r.link.MustOpen(t)
	var at store.Position
	for range 20 {
		var err error
		if at, err = s.Append(t.Context(), "record-flood", store.Entry{After: at, ID: store.NewID(), Data: make([]byte, 1<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Whole(t.Context(), "record-flood"); !errors.Is(err, store.ErrGone) {
		t.Fatalf("nothing was removed: %v", err)
	}
	r.goOn()
	if counts := r.counts(); counts["remove 2"] != 1 {
		t.Errorf("calls %v", counts)
	}
}

// TestFindRunWithoutLog asks for a run after the loss of the log: the run goes on as long as a
// process has the run, and then counts as failed, for a process with a record of the run and for a
// process without.
func TestFindRunWithoutLog(t *testing.T) {
	for _, recorded := range []bool{true, false} {
		r := newDurableRig(t, true)
		r.link = memorytest.New(t)
		r.saved["job"] = durableTool("s.other(n=1)\nreturn s.other(n=3)", "")
		_, _ = r.process(4)
		r.round(asker0("2025-11-25"), r.saved["job"], "", "")
		runs, _ := r.process(1 << 30)
		id, log := r.onlyLog(runs)
		r.link.Remove(log, 1)
		chain := journal.Chain{Runs: 1, Start: time.Now(), Abandoned: true}
		chain.Last.ID, chain.Last.Saved, chain.Last.Start = id, true, time.Now()
		chain.Last.Definition.Name = "job"
		r.change = func(o *Options) {
			o.Chain = func(string) (journal.Chain, error) {
				if recorded {
					return chain, nil
				}
				return journal.Chain{}, journal.ErrNotFound
			}
		}
		_, _ = r.process(1 << 30)
		found, err := r.composer.FindRun(id)
		if err != nil || found.Status != protocol.TaskFailed || found.Start.IsZero() || !strings.Contains(string(found.Reply.Error), "its log was removed") {
			t.Errorf("recorded %v: %+v, %v", recorded, found, err)
		}
	}
}

// TestDurableFull lets a client fill the room for logs of open runs. The client has half of the
// room, further runs of the client end with their calls undone, and other clients go on.
func TestDurableFull(t *testing.T) {
	r := newDurableRig(t, false)
	link := memorytest.New(t)
	runs := durable.New(durable.Options{
		Store: durable.Shared(link.MustOpen(t)), Owner: func() (string, error) { return "one", nil }, Log: quiet(), Room: 200 << 10,
	})
	defer func() {
		if err := runs.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	r.change = func(o *Options) { o.Durable = runs }
	r.saved["job"] = durableTool("undo(s.remove, {\"n\": 2})\nfor i in range(1000):\n    s.other({\"n\": i, \"text\": \"x\" * 2000})", "")
	_, _ = r.process(1 << 30)
	reply := r.round(asker0("2025-11-25"), r.saved["job"], "", "")
	var full *durable.FullError
	text := string(reply.Result)
	if !strings.Contains(text, string(abi.ErrResource)) || !strings.Contains(text, "a client may have as much as is free") || !strings.Contains(text, `"undone":true`) {
		t.Errorf("ended with %s", text)
	}
	if counts := r.counts(); counts["remove 2"] != 1 || counts["other 10"] != 1 || counts["other 200"] != 0 {
		t.Errorf("calls %v", len(counts))
	}
	// The room held by open runs counts for new runs.
	begin := func(principal string, params int) error {
		b := &journal.Begin{Params: []byte(`{"a":"` + strings.Repeat("x", params) + `"}`)}
		_, err := runs.Begin(t.Context(), journal.NewID(time.Now()), time.Now(), b, durable.About{Principal: principal})
		return err
	}
	if err := begin("one", 80<<10); err != nil {
		t.Fatal(err)
	}
	if err := begin("one", 80<<10); !errors.As(err, &full) {
		t.Errorf("more than is free: %v", err)
	}
	if err := begin("two", 30<<10); err != nil {
		t.Errorf("another client: %v", err)
	}
	other := durable.New(durable.Options{
		Store: durable.Shared(link.MustOpen(t)), Owner: func() (string, error) { return "two", nil }, Log: quiet(), Room: 200 << 10,
	})
	runs.Renew(t.Context()) // the leases have the state of the logs
	b := &journal.Begin{Params: []byte(`{"a":"` + strings.Repeat("x", 30<<10) + `"}`)}
	if _, err := other.Begin(t.Context(), journal.NewID(time.Now()), time.Now(), b, durable.About{Principal: "one"}); !errors.As(err, &full) {
		t.Errorf("in another process: %v", err)
	}
	if err := other.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
