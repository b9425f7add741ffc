package journal

import (
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func TestID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	start := time.Date(2026, 1, 2, 3, 4, 5, 999_000_000, time.UTC)
	var ids []string
	seen := map[string]bool{}
	for _, d := range []time.Duration{0, time.Microsecond, 500 * time.Microsecond, 999 * time.Microsecond,
		time.Millisecond, time.Second, time.Hour, 24 * 365 * time.Hour} {
		id := NewID(start.Add(d))
		if !form.MatchString(id) {
			t.Errorf("%s is no UUIDv7", id)
		}
		ids = append(ids, id)
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids do not sort by time: %q", ids)
	}
	if got, want := ids[0][:13], "019b7ca9-906f"; got != want { // 1767323045999 ms
		t.Errorf("time part = %s, want %s", got, want)
	}
	for range 1000 {
		id := NewID(start)
		if seen[id] {
			t.Fatalf("%s made twice", id)
		}
		seen[id] = true
	}
}

// shortest is the minimum duration of a run here. The clock of Windows has a resolution
// of 15 ms.
var shortest = map[bool]time.Duration{true: 0, false: 1}[runtime.GOOS == "windows"]

func TestRecord(t *testing.T) {
	r := Open(Begin{Definition: tools.Definition{Name: "sum"}, Params: []byte(`{"n":1}`)})
	a := r.OpenCall(abi.ToolCall{Arguments: []byte(`{"a":1}`)}, "calc", "add")
	b := r.OpenCall(abi.ToolCall{Arguments: []byte(`{"a":0}`)}, "calc", "div")
	open := r.OpenCall(abi.ToolCall{Arguments: []byte(`{}`)}, "calc", "slow")
	b.Begin()
	b.Progress()
	b.Progress()
	r.Log(abi.LogInfo, "one")
	b.Close(Answer{RPCError: []byte(`{"code":1}`), Err: &abi.CallError{Type: abi.ErrTool, Message: "no"}})
	a.Close(Answer{Result: []byte(`{"_meta":{}}`), Meta: []byte(`{}`), Value: []byte(`3`)})
	a.Close(Answer{Value: []byte(`4`)}) // too late
	r.Log(abi.LogWarn, "two")

	early := r.Record()
	if early.Done || len(early.Calls) != 3 || len(early.Logs) != 2 {
		t.Errorf("before the end: %+v", early)
	}
	r.Close(Outcome{Error: abi.ErrTimeout, Message: "late", Memory: 9})
	r.Close(Outcome{})
	r.Log(abi.LogInfo, "three")
	open.Close(Answer{Value: []byte(`5`)})

	rec := r.Record()
	if rec.ID != r.ID() || rec.Definition.Name != "sum" || string(rec.Params) != `{"n":1}` || !rec.Done || rec.Duration < shortest {
		t.Errorf("record = %+v", rec)
	}
	if want := (Outcome{Error: abi.ErrTimeout, Message: "late", Memory: 9}); !reflect.DeepEqual(rec.Outcome, want) {
		t.Errorf("outcome = %+v", rec.Outcome)
	}
	if len(rec.Logs) != 2 || rec.Logs[0].Text != "one" || rec.Logs[1].Level != abi.LogWarn {
		t.Errorf("logs = %+v", rec.Logs)
	}
	var got []string
	for _, c := range rec.Calls {
		msg := ""
		if c.Answer.Err != nil {
			msg = c.Answer.Err.Message
		}
		got = append(got, fmt.Sprintf("%d %s.%s %s done=%v progress=%d value=%s err=%s",
			c.Seq, c.Server, c.Tool, c.Request.Arguments, c.Done, c.Progress, c.Answer.Value, msg))
		if c.Start < 0 || c.Duration < 0 || c.Start+c.Duration > rec.Duration {
			t.Errorf("call %d from %v for %v in a run of %v", c.Seq, c.Start, c.Duration, rec.Duration)
		}
	}
	want := []string{
		`1 calc.add {"a":1} done=true progress=0 value=3 err=`,
		`2 calc.div {"a":0} done=true progress=2 value= err=no`,
		`3 calc.slow {} done=false progress=0 value= err=`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls:\n%q\nwant\n%q", got, want)
	}
	// The snapshot belongs to the caller.
	rec.Calls[0].Tool, rec.Logs[0].Text = "x", "x"
	if again := r.Record(); again.Calls[0].Tool != "add" || again.Logs[0].Text != "one" {
		t.Errorf("the record changed with its snapshot")
	}
}

func TestConcurrentUse(t *testing.T) {
	r := Open(Begin{Definition: tools.Definition{Name: "t"}})
	const calls, each = 16, 50
	var wg sync.WaitGroup
	for i := range calls {
		c := r.OpenCall(abi.ToolCall{}, "s", fmt.Sprint(i))
		wg.Add(1)
		go func() {
			defer wg.Done()
			c.Begin()
			for range each {
				c.Progress()
				r.Log(abi.LogInfo, "x")
				r.Record()
			}
			c.Close(Answer{Value: []byte(c.rec.Tool)})
		}()
	}
	wg.Wait()
	r.Close(Outcome{})
	rec := r.Record()
	if len(rec.Logs) != calls*each {
		t.Errorf("%d log entries", len(rec.Logs))
	}
	for i, c := range rec.Calls {
		if c.Seq != i+1 || c.Tool != fmt.Sprint(i) || string(c.Answer.Value) != c.Tool || c.Progress != each || !c.Done {
			t.Errorf("call %d = %+v", i, c)
		}
	}
}

// TestTree checks that the record of a nested run is in the record of its call, and
// that compensations are marked.
func TestTree(t *testing.T) {
	r := Open(Begin{Definition: tools.Definition{Name: "outer"}})
	inner := Open(Begin{Definition: tools.Definition{Name: "inner"}})
	inner.OpenCall(abi.ToolCall{Arguments: []byte(`{}`)}, "s", "t").Close(Answer{Value: []byte("1")})
	inner.Close(Outcome{Result: []byte("2")})
	rec := inner.Record()
	r.OpenCall(abi.ToolCall{Arguments: []byte(`{}`)}, "tools", "inner").Close(Answer{Value: []byte("2"), Run: &rec})
	r.OpenUndo(abi.ToolCall{Arguments: []byte(`{}`)}, "s", "back").Close(Answer{Value: []byte("3")})
	r.Close(Outcome{Error: "runtime"})
	calls := r.Record().Calls
	if len(calls) != 2 || calls[0].Undo || calls[0].Answer.Run.Calls[0].Tool != "t" || !calls[1].Undo || calls[1].Seq != 2 {
		t.Errorf("calls = %+v", calls)
	}
}
