package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

const script = `print("begin")
found = demo.search(q="x")
undo(other.remove, {"n": 1})
inner = tools.inner(n=found.total_count)
print("end", inner)
if inner == 2 and params.n == 3:
    fail("both", details={"inner": inner})
return inner`

// scripted returns the record of script: two calls, one of them of a saved tool, logs, an
// undo of its own and one of the saved tool, compensations, and a failure.
func scripted(t *testing.T) journal.Record {
	saved := savedTools{"inner": definition("inner", "r = demo.echo({'n': params.n})\nprint('in', r.n)\nundo(other.remove, {'n': 2})\nreturn r.n")}
	return record(t, job{name: "script", def: definition("job", script), params: `{"n":3}`, saved: saved})
}

// TestDifferences changes one part of a record at a time, and checks that the replay
// reports it first.
func TestDifferences(t *testing.T) {
	inner := func(r *journal.Record) *journal.Record {
		copied := *r.Calls[1].Answer.Run
		copied.Calls = slices.Clone(copied.Calls)
		r.Calls[1].Answer.Run = &copied
		return &copied
	}
	for _, tt := range []struct {
		name   string
		change func(*journal.Record)
		in     string
		what   string
		says   string // part of the report's text
		at     int    // line of the script, 0 for none
	}{
		{"an answer that leads elsewhere", func(r *journal.Record) { r.Calls[0].Answer.Value = []byte(`{"total_count":5}`) },
			"", "call 2", "+  \"n\": 5\n", 4},
		{"arguments", func(r *journal.Record) { r.Calls[0].Request.Arguments = []byte(`{"q":"y"}`) }, "", "call 1", "has other arguments\n  at job:2:20", 2},
		{"another tool", func(r *journal.Record) { r.Calls[0].Request.Tool = "find" }, "", "call 1", "is of demo.search, recorded was demo.find", 2},
		{"another way", func(r *journal.Record) { r.Calls[0].Request.Raw = true }, "", "call 1", "-raw: true", 2},
		{"white space", func(r *journal.Record) { r.Calls[0].Request.Arguments = []byte(`{"q": "x"}`) }, "", "call 1", "the same arguments, written differently", 2},
		{"a call more", func(r *journal.Record) { r.Calls = r.Calls[:1] }, "", "call 2", "was not recorded: tools.inner({\"n\":2})", 4},
		{"a call less", func(r *journal.Record) {
			r.Calls = append(r.Calls, journal.CallRecord{Seq: 5, Request: call("demo", "echo", `{}`), Done: true})
		}, "", "call 5", "is not made, recorded was demo.echo({})", 0},
		{"a log entry", func(r *journal.Record) { r.Logs[0].Text = "start" }, "", "log 1", "-info: start\n  +info: begin\n", 0},
		{"a level", func(r *journal.Record) { r.Logs[1].Level = abi.LogError }, "", "log 2", "-error: end 2\n  +info: end 2\n", 0},
		{"an entry more", func(r *journal.Record) { r.Logs = r.Logs[:1] }, "", "log 2", "was not recorded: info: end 2", 0},
		{"an entry less", func(r *journal.Record) { r.Logs = append(r.Logs, journal.Entry{Text: "more"}) }, "", "log 3", "is missing, recorded was info: more", 0},
		{"an undo", func(r *journal.Record) { r.Undos[0].Request.Arguments = []byte(`{"n":2}`) }, "", "undo 1", "has other arguments", 3},
		{"an undo more", func(r *journal.Record) { r.Undos = nil }, "", "undo 1", "was not recorded", 3},
		{"an undo less", func(r *journal.Record) { r.Undos = append(r.Undos, r.Undos[0]) }, "", "undo 2", "is not asked for, recorded was other.remove", 0},
		{"an undo that was refused", func(r *journal.Record) { r.Undos[0].Err = &abi.CallError{Type: abi.ErrValidation, Message: "no"} },
			"", "call 2", "is not made", 0},
		{"a compensation", func(r *journal.Record) { r.Calls[2].Request.Arguments = []byte(`{"n":3}`) }, "", "compensation 1", "has other arguments", 0},
		{"a compensation more", func(r *journal.Record) { r.Calls = r.Calls[:3] }, "", "compensation 2", "was not recorded", 0},
		{"a compensation less", func(r *journal.Record) { r.Calls = append(r.Calls, r.Calls[3]) }, "", "compensation 3", "is not made", 0},
		{"the failure", func(r *journal.Record) {
			r.Outcome.Failure = bytes.Replace(r.Outcome.Failure, []byte("both"), []byte("none"), 1)
		},
			"", "failure", "-  \"message\": \"none\",\n  +  \"message\": \"both\",\n", 7},
		{"a result", func(r *journal.Record) { r.Outcome = journal.Outcome{Result: []byte(`1`), Fuel: r.Outcome.Fuel} }, "", "outcome", "is a failure, recorded was a result", 7},
		{"the fuel", func(r *journal.Record) { r.Outcome.Fuel++ }, "", "fuel", "fuel is ", 0},
		{"the memory", func(r *journal.Record) { r.Outcome.Memory++ }, "", "memory", "memory is ", 0},
		{"the code", func(r *journal.Record) { r.Definition.Code = strings.Replace(script, "begin", "begun", 1) }, "", "log 1", "+info: begun", 0},
		{"params", func(r *journal.Record) { r.Params = []byte(`{"n":4}`) }, "", "compensation 1", "is not made", 0},
		{"below: an answer", func(r *journal.Record) { inner(r).Calls[0].Answer.Value = []byte(`{"n":7}`) },
			"call 2 (tools.inner)", "log 1", "+info: in 7", 0},
		{"below: a call", func(r *journal.Record) { inner(r).Calls[0].Request.Tool = "x" },
			"call 2 (tools.inner)", "call 1", "is of demo.echo, recorded was demo.x\n  at inner:1:14", 1},
		{"below: the fuel", func(r *journal.Record) { inner(r).Outcome.Fuel++; r.Outcome.Fuel++ }, "call 2 (tools.inner)", "fuel", "fuel is ", 0},
		{"below: the result", func(r *journal.Record) { inner(r).Outcome.Result = []byte(`3`) }, "call 2 (tools.inner)", "result", "-3\n  +2\n", 0},
		{"below: the code", func(r *journal.Record) { inner(r).Definition.Code = "x = " }, "call 2 (tools.inner)", "call 1", "is not made", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := scripted(t)
			tt.change(&rec)
			r := replayed(t, rec, Options{})
			text := r.Text()
			if r.Verdict != Diverged || len(r.Differences) == 0 {
				t.Fatalf("%s", text)
			}
			d := r.Differences[0]
			if d.In != tt.in || d.What != tt.what || !strings.Contains(text, tt.says) {
				t.Errorf("%s\nwant first: %s %s ... %s", text, tt.in, tt.what, tt.says)
			}
			if tt.at == 0 && d.Position != nil || tt.at != 0 && (d.Position == nil || d.Position.Line != tt.at) {
				t.Errorf("at %+v, want line %d\n%s", d.Position, tt.at, text)
			}
			if _, err := json.Marshal(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNotes checks that the possible reasons for differences come first.
func TestNotes(t *testing.T) {
	rec := scripted(t)
	for _, tt := range []struct {
		name   string
		change func(*journal.Record, *Options)
		note   string
		want   Verdict
	}{
		{"none", func(*journal.Record, *Options) {}, "", Identical},
		{"another guest", func(r *journal.Record, _ *Options) { r.Guest = "abc"; r.Outcome.Fuel += 9; r.Outcome.Memory++ }, "note: the guest differs (recorded abc", Identical},
		{"another guest, and a difference", func(r *journal.Record, _ *Options) { r.Guest = ""; r.Logs = nil }, "note: the guest differs (recorded unknown", Diverged},
		{"redacted", func(r *journal.Record, _ *Options) { r.Redacted = true }, "note: the record has redacted parts", Identical},
		{"incomplete", func(r *journal.Record, _ *Options) { r.Incomplete = true }, "note: a part of the run could not be written", Identical},
		{"saved again", func(r *journal.Record, o *Options) { o.Saved = &tools.Definition{Name: "job"} }, `note: the saved tool "job" has changed since`, Identical},
		{"saved as it was", func(r *journal.Record, o *Options) { o.Saved = &r.Definition }, "", Identical},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, opts := rec, Options{}
			tt.change(&r, &opts)
			report := replayed(t, r, opts)
			if text := report.Text(); report.Verdict != tt.want || !strings.HasPrefix(text, tt.note) || (tt.note == "") != (report.Notes == nil) {
				t.Errorf("%s\nwant %s, %q", text, tt.want, tt.note)
			}
		})
	}
}

// TestUnfinished replays records of runs that did not end, for example because the process
// was killed.
func TestUnfinished(t *testing.T) {
	whole := scripted(t)
	for _, tt := range []struct {
		name   string
		change func(*journal.Record)
		note   string
	}{
		{"while the script computed", func(r *journal.Record) { r.Calls = r.Calls[:2] }, "replayed, it fails: both"},
		{"while a call was made", func(r *journal.Record) {
			r.Calls = r.Calls[:1]
			r.Calls[0].Done, r.Calls[0].Answer, r.Undos, r.Logs = false, journal.Answer{}, nil, r.Logs[:1]
		}, "replayed up to the end of the record"},
		{"before a call", func(r *journal.Record) { r.Calls, r.Logs = r.Calls[:1], r.Logs[:1] }, "replayed up to the end of the record"},
		{"before an undo", func(r *journal.Record) { r.Calls, r.Undos = r.Calls[:1], nil }, "replayed up to the end of the record"},
		{"before anything", func(r *journal.Record) { r.Calls, r.Undos, r.Logs = nil, nil, nil }, "replayed up to the end of the record"},
		{"while undoing", func(r *journal.Record) { r.Calls = r.Calls[:3] }, "replayed, it fails: both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := whole
			rec.Calls = slices.Clone(whole.Calls)
			rec.Done, rec.Outcome = false, journal.Outcome{}
			tt.change(&rec)
			r := replayed(t, rec, Options{})
			if r.Verdict != Identical || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], tt.note) {
				t.Errorf("%s\nwant the note %q", r.Text(), tt.note)
			}
			if short := strings.Contains(tt.note, "up to the end"); r.Short != short || strings.Contains(r.Text(), "\n  ended where the record ends, ") != short {
				t.Errorf("short %v, want %v:\n%s", r.Short, short, r.Text())
			}
		})
	}
}

func TestUnified(t *testing.T) {
	for _, tt := range [][3]string{
		{"", "", ""},
		{"a", "", "--- recorded\n+++ replayed\n@@ -1,1 +0,0 @@\n-a\n"},
		{"", "a\nb\n", "--- recorded\n+++ replayed\n@@ -0,0 +1,2 @@\n+a\n+b\n"},
		{"a\n", "a", ""},
	} {
		if got := unified(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%q to %q: %q", tt[0], tt[1], got)
		}
	}
}

// TestRunBelow replays the run of a saved tool that a script has called.
func TestRunBelow(t *testing.T) {
	for _, j := range worldJobs() {
		for _, c := range record(t, j).Calls {
			if c.Answer.Run == nil || j.name == "too much fuel of a saved tool" || j.name == "too much fuel together" { // these shared the account of their caller
				continue
			}
			if r := replayed(t, *c.Answer.Run, Options{}); r.Verdict != Identical {
				t.Errorf("%s: %s", j.name, r.Text())
			}
		}
	}
}

// TestAnotherGuestStops checks that additional or missing steps are not reported where a
// run was stopped by its fuel and the guest is a different one.
func TestAnotherGuestStops(t *testing.T) {
	rec := record(t, job{def: definition("job", "progress(1, 2, 'cancel now')\nfor i in range(1000000): print(i)"), limits: sandbox.Limits{Logs: 1 << 30}})
	rec.Guest = "abc"
	for _, more := range []int64{-300_000, 0, 300_000} {
		r := rec
		r.Outcome.Fuel = uint64(int64(rec.Outcome.Fuel) + more)
		if report := replayed(t, r, Options{}); report.Verdict != Identical {
			t.Errorf("%d units more: %s", more, report.Text())
		}
	}
	rec.Guest = sandbox.GuestDigest()
	rec.Outcome.Fuel = 1 << 40
	rec.Definition.Code = "return 1"
	if report := replayed(t, rec, Options{}); report.Verdict != Diverged || report.Differences[len(report.Differences)-2].Message != "is a result, recorded was a failure" {
		t.Errorf("a run that ends before it is stopped: %s", report.Text())
	}
}

func TestContextEnds(t *testing.T) {
	rec := record(t, job{def: definition("job", "while True: pass"), limits: sandbox.Limits{Fuel: 20_000_000}})
	rec.Limits.Fuel = 1 << 60
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan struct{})
	why := errors.New("enough")
	go func() { <-started; cancel(why) }()
	rec.Definition.Code = "print('go')\nwhile True: pass"
	box := announcing{sandboxtest.Guest(t), started}
	if _, err := Run(ctx, box, rec, Options{}); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if _, err := Run(ctx, box, rec, Options{}); !errors.Is(err, why) {
		t.Errorf("error %v of a replay that never began", err)
	}
}

// announcing is a sandbox that signals when a script has logged something.
type announcing struct {
	*sandbox.Sandbox
	logged chan struct{}
}

func (a announcing) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	r.Caller = announcer{r.Caller, a.logged}
	return a.Sandbox.Run(ctx, r)
}

type announcer struct {
	sandbox.Caller
	logged chan struct{}
}

func (a announcer) Log(level abi.LogLevel, text string) (send func()) {
	defer close(a.logged)
	return a.Caller.Log(level, text)
}
