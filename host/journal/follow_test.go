package journal

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// follow runs Follow until the end of the test and returns a channel of what it yields.
func follow(t *testing.T, dir string, tick <-chan time.Time) <-chan Record {
	t.Helper()
	return followWith(t, dir, FollowOptions{Tick: tick})
}

func followWith(t *testing.T, dir string, opts FollowOptions) <-chan Record {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	started, over := make(chan struct{}), make(chan struct{})
	got := make(chan Record, 10)
	go func() {
		defer close(over)
		opts.Started = func() { close(started) }
		for r, err := range Follow(ctx, dir, opts) {
			if err != nil {
				t.Error(err)
			}
			got <- r
		}
	}()
	t.Cleanup(func() { cancel(); <-over })
	<-started
	return got
}

// TestFollow checks that runs are yielded whole as they end, even if they run in other
// processes or began before Follow.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{MaxSize: 1000})
	record(t, l, "old")
	early := begin(t, l, Begin{Definition: tools.Definition{Name: "early"}})
	c := early.OpenCall(abi.ToolCall{}, abi.Composites, "inner")
	got := follow(t, dir, nil)

	inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Parent: &Parent{early.ID(), c.Seq()}})
	inner.Close(Outcome{Result: []byte("1")})
	c.Close(Answer{Value: []byte("1")})
	other := openLog(t, dir, LogOptions{}) // another writer
	record(t, other, "other")
	if r := <-got; r.Definition.Name != "other" || !r.Done || len(r.Calls) != 1 {
		t.Errorf("first %+v", r)
	}
	early.Close(Outcome{Result: []byte("2")})
	r := <-got
	if r.Definition.Name != "early" || !r.Done || len(r.Calls) != 1 || r.Calls[0].Answer.Run == nil || r.Calls[0].Answer.Run.Definition.Name != "inner" {
		t.Errorf("second %+v", r)
	}
	record(t, l, "last")
	if r := <-got; r.Definition.Name != "last" {
		t.Errorf("third %+v", r)
	}
}

// TestFollowMissingDirectory checks that Follow polls for a directory that does not
// exist yet.
func TestFollowMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	tick := make(chan time.Time)
	got := follow(t, dir, tick)
	tick <- time.Time{}
	l := openLog(t, dir, LogOptions{})
	record(t, l, "a")
	tick <- time.Time{}
	if r := <-got; r.Definition.Name != "a" {
		t.Errorf("got %+v", r)
	}
	record(t, l, "b") // from now on the file system sends notifications
	if r := <-got; r.Definition.Name != "b" {
		t.Errorf("got %+v", r)
	}
}

// TestFollowUnfinished checks that runs are yielded while they go on, with the calls of
// nested runs, and only if they got events.
func TestFollowUnfinished(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	begin(t, l, Begin{Definition: tools.Definition{Name: "abandoned"}})
	tick := make(chan time.Time)
	got := followWith(t, dir, FollowOptions{Tick: tick, Unfinished: true, Pause: time.Nanosecond})

	outer := begin(t, l, Begin{Definition: tools.Definition{Name: "outer"}})
	if r := <-got; r.ID != outer.ID() || r.Done || len(r.Calls) != 0 {
		t.Errorf("begun: %+v", r)
	}
	c := outer.OpenCall(abi.ToolCall{}, abi.Composites, "inner")
	if r := <-got; r.Done || len(r.Calls) != 1 || r.Calls[0].Done {
		t.Errorf("called: %+v", r)
	}
	inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Parent: &Parent{outer.ID(), c.Seq()}})
	if r := <-got; r.ID != outer.ID() || r.Done {
		t.Errorf("nested: %+v", r)
	}
	inner.OpenCall(abi.ToolCall{}, "a", "b")
	if r := <-got; r.ID != outer.ID() || r.Done {
		t.Errorf("called in it: %+v", r)
	}
	outer.Close(Outcome{Result: []byte("2")})
	if r := <-got; r.ID != outer.ID() || !r.Done {
		t.Errorf("ended: %+v", r)
	}
	tick <- time.Time{}
	tick <- time.Time{}
	record(t, l, "next")
	for r := range got {
		if r.Definition.Name != "next" {
			t.Fatalf("%+v", r)
		}
		if r.Done {
			return
		}
	}
}

// TestFollowReadsOnlyNewEvents checks that following a run reads each of its lines once,
// however often the run is yielded.
func TestFollowReadsOnlyNewEvents(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	r := begin(t, l, Begin{Definition: tools.Definition{Name: "long"}})
	var last Record
	yields := 0
	f := follower{index: newIndex(dir), now: time.Now, partial: map[string]*partialTree{}, yield: func(rec Record, err error) bool {
		if err != nil {
			t.Error(err)
		}
		last, yields = rec, yields+1
		return true
	}}
	f.touched = map[string]bool{}
	poll := func() {
		if !f.poll(t.Context(), false) {
			t.Fatal("poll ended")
		}
	}
	const calls = 50
	for i := range calls {
		c := r.OpenCall(abi.ToolCall{Server: "s", Tool: "t"}, abi.Composites, "inner")
		poll()
		inner := begin(t, l, Begin{Definition: tools.Definition{Name: "inner"}, Parent: &Parent{r.ID(), c.Seq()}})
		inner.Close(Outcome{Result: []byte("1")})
		c.Close(Answer{Value: []byte("1")})
		poll()
		if len(last.Calls) != i+1 || last.Calls[i].Answer.Run == nil || !last.Calls[i].Done || last.Done {
			t.Fatalf("after call %d: %+v", i, last)
		}
	}
	read := f.partial[r.ID()].lines
	r.Close(Outcome{Result: []byte("2")})
	poll()
	if !last.Done || yields != 2*calls+1 || read != 1+4*calls {
		t.Errorf("%d records, %d lines read: %+v", yields, read, last.Outcome)
	}
	if len(f.partial) != 0 || len(f.order) != 0 || len(f.runs) != 0 {
		t.Errorf("%d runs are kept", len(f.partial))
	}
}

// TestFollowKeepsFewRuns checks that runs that do not end do not fill the memory.
func TestFollowKeepsFewRuns(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{})
	f := follower{index: newIndex(dir), now: time.Now, partial: map[string]*partialTree{}, yield: func(Record, error) bool { return true }}
	f.touched = map[string]bool{}
	first := begin(t, l, Begin{Definition: tools.Definition{Name: "first"}})
	for range maxPartial + 5 {
		begin(t, l, Begin{Definition: tools.Definition{Name: "endless"}})
		f.poll(t.Context(), false)
	}
	if len(f.partial) != maxPartial || f.partial[first.ID()] != nil {
		t.Errorf("%d runs are kept", len(f.partial))
	}
	var last Record
	f.yield = func(rec Record, err error) bool { last = rec; return true }
	first.OpenCall(abi.ToolCall{}, "s", "t").Close(Answer{Value: []byte("1")})
	f.poll(t.Context(), false)
	if last.Definition.Name != "first" || len(last.Calls) != 1 {
		t.Errorf("%+v", last)
	}
}
