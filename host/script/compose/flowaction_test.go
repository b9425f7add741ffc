package compose

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	memory "github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

const leak = "m = mail.list()\nchat.post({'text': m[0].body})\nreturn 1"

func withAction(a flow.Action) func(*flowRig, *Options) {
	return func(r *flowRig, _ *Options) { r.settings.Action = a }
}

// TestFlowAsks checks that a person can allow a call that depends on an answer, and that nothing is
// compared afterwards.
func TestFlowAsks(t *testing.T) {
	r := newFlowRig(t, withAction(flow.Ask))
	run := r.run(t, leak)
	run.denied()
	if len(r.asked) != 1 || strings.Contains(r.asked[0], secret) || run.sent("chat.post") != nil {
		t.Errorf("asked %q, sent %q", r.asked, run.calls)
	}
	r.allow, r.asked = true, nil
	run = r.run(t, "m = mail.list()\nchat.post({'text': m[0].body})\nchat.post({'text': 'same'})\nreturn 1")
	run.passed()
	if len(r.asked) != 2 || len(run.sent("chat.post")) != 2 || !run.labels.Has(flow.Private) {
		t.Errorf("asked %q, sent %q, labels %s", r.asked, run.calls, run.labels)
	}
	if !r.inherited["chat"].Has(flow.Private) {
		t.Error("the server that was given the answer has no label")
	}
}

// TestFlowAsksOfMeta checks that no person is asked about a call with _meta: people are not shown
// the _meta, so that they would allow unseen data.
func TestFlowAsksOfMeta(t *testing.T) {
	r := newFlowRig(t, withAction(flow.Ask))
	r.allow = true
	run := r.run(t, "m = mail.list()\nchat.post({'text': 'x'}, meta={'a.example/x': m[0].body})\nreturn 1")
	run.denied()
	if len(r.asked) != 0 || run.sent("chat.post") != nil {
		t.Errorf("asked %q, sent %q", r.asked, run.calls)
	}
}

// TestFlowReports checks that a call is made and recorded.
func TestFlowReports(t *testing.T) {
	r := newFlowRig(t, withAction(flow.Report))
	run := r.run(t, leak)
	run.passed()
	if len(run.sent("chat.post")) != 1 || !run.record.Flows(journal.FlowReport) || !run.labels.Has(flow.Private) || r.session.flagged {
		t.Errorf("sent %q, labels %s, record %+v", run.calls, run.labels, run.record.Flow)
	}
}

// TestFlowShadowCalls checks that the sent calls are the script's calls without the answers.
func TestFlowShadowCalls(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		sent       []string
	}{
		{"another value", "m = mail.list()\nchat.post({'text': m[0].body})\nreturn 1", []string{`{"text":"0"}`}},
		{"the same", "m = mail.list()\nchat.post({'text': 'x'})\nreturn 1", []string{`{"text":"x"}`}},
		{"another order of members", "m = mail.list()\nd = {'a': 1, 'b': 1}\nif m[0].id == 7:\n  d = {'b': 1, 'a': 1}\nchat.post(d)\nreturn 1", []string{`{"a":1,"b":1}`}},
		{"another order of members of a read", "m = mail.list()\nd = {'a': 1, 'b': 1}\nif m[0].id == 7:\n  d = {'b': 1, 'a': 1}\nchat.post({'text': str(desk.lookup(d))})\nreturn 1", nil},
		{"only the run", "m = mail.list()\nif m[0].id == 7:\n  try:\n    chat.post({'text': 'yes'})\n  except Exception as e:\n    print(e)\nchat.post({'text': 'end'})\nreturn 1", []string{`{"text":"end"}`}},
		{"only the shadow", "m = mail.list()\nchat.post({'text': 'a'})\nif m[0].id != 7:\n  chat.post({'text': 'b'})\nreturn 1", []string{`{"text":"a"}`, `{"text":"b"}`}},
		{"only the shadow, and the run comes to no sink", "m = mail.list()\nif m[0].id != 7:\n  chat.post({'text': 'b'})\nreturn 1", []string{`{"text":"b"}`}},
		{"only the shadow, and the run fails before a sink", "m = mail.list()\nif m[0].id == 7:\n  fail('x')\nchat.post({'text': 'b'})", []string{`{"text":"b"}`}},
		// A withheld call was not made, and the server was told nothing.
		{"only the run, and more from both", "m = mail.list()\nif m[0].id == 7:\n  try:\n    tools.send({})\n  except Exception as e:\n    print(e)\nfor t in ['a', 'b', 'c']:\n  chat.post({'text': t})\nreturn 1", []string{`{"text":"a"}`, `{"text":"b"}`, `{"text":"c"}`}},
		// An ended shadow sends nothing more: the shadow could have sent other data before.
		{"beside what has ended the shadow", "m = mail.list()\nif m[0].id == 7:\n  notes.set({'v': 1})\nparallel([lambda: tools.ask({}), lambda: tools.send({})])\nreturn 1", nil},
		{"what a shadow undoes that was ended", "undo(chat.post, {'text': 'back'})\nm = mail.list()\nif m[0].id == 7:\n  notes.set({'v': 1})\n  commit()\nn = notes.get({})\nreturn 1", nil},
		{"the run fails", "m = mail.list()\nchat.post({'text': 'a'})\nif m[0].id == 7:\n  fail('x')\nchat.post({'text': 'b'})\nreturn 1", []string{`{"text":"a"}`, `{"text":"b"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFlowRig(t, withAction(flow.Shadow))
			r.save("ask", "return notes.get({})")
			r.save("send", "return chat.post({'text': 'x'})")
			run := r.run(t, tt.code)
			if sent := run.sent("chat.post"); !slices.Equal(sent, tt.sent) {
				t.Errorf("sent %q, want %q: %s", sent, tt.sent, run.reply.Result)
			}
			if strings.Contains(strings.Join(run.sent("chat.post"), ""), secret) {
				t.Error("the secret was sent")
			}
		})
	}
}

// TestFlowAgainAfterDenial checks that no person is asked about the rest of a run after a denied
// call: the run is to end, and no person would be present in time.
func TestFlowAgainAfterDenial(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		sent       []string
	}{
		{"in parallel", "m = mail.list()\nparallel([lambda: tools.leak({'id': m[0].id}), lambda: tools.same({})], errors='collect')", nil},
		{"what it undoes", "m = mail.list()\nundo(chat.post, {'text': 'back'})\nif m[0].id == 7:\n  chat.post({'text': m[0].body})\nfail('x')", []string{`{"text":"back"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.Again = flow.AskAgain })
			r.save("leak", "if params.id == 7:\n  chat.post({'text': 'yes'})\nreturn 1")
			r.save("same", "return chat.post({'text': 'same'})")
			run := r.run(t, tt.code)
			run.denied()
			if sent := run.sent("chat.post"); !slices.Equal(sent, tt.sent) || r.asked != nil {
				t.Errorf("sent %q, want %q; asked %q", sent, tt.sent, r.asked)
			}
		})
	}
}

// TestFlowAgain checks that a person decides about calls after the first denial of a session.
func TestFlowAgain(t *testing.T) {
	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.Again = flow.AskAgain })
	same := "m = mail.list()\nchat.post({'text': 'x'})\nreturn 1"
	r.run(t, same).passed()
	if len(r.asked) != 0 {
		t.Fatalf("asked %q", r.asked)
	}
	r.run(t, leak).denied()
	r.run(t, same).denied()
	if len(r.asked) != 1 {
		t.Errorf("asked %q", r.asked)
	}
	r.allow = true
	r.run(t, same).passed()
	r.run(t, "chat.post({'text': 'no label'})\nreturn 1").passed()
	if len(r.asked) != 2 {
		t.Errorf("asked %q", r.asked)
	}
}

// TestFlowUndo checks that compensations pass the same gate.
func TestFlowUndo(t *testing.T) {
	r := newFlowRig(t)
	run := r.run(t, "m = mail.list()\nundo(chat.post, {'text': m[0].body})\nundo(notes.set, {'v': 1})\nfail('stop')")
	if run.class != "runtime" || run.sent("chat.post") != nil || len(run.sent("notes.set")) != 1 {
		t.Fatalf("%q: %s", run.calls, run.reply.Result)
	}
	undone := get(t, run.reply, "structuredContent", "error", "details", "compensation")
	if !strings.Contains(undone, `"undone":false,"error":{"type":"permission"`) || !run.labels.Has(flow.Private) {
		t.Errorf("compensation: %s", undone)
	}
	run = r.run(t, "m = mail.list()\nundo(chat.post, {'text': 'taken back'})\nfail('stop')")
	if len(run.sent("chat.post")) != 1 {
		t.Errorf("%q: %s", run.calls, run.reply.Result)
	}
	// After a denial, compensations registered before are still gated, and the reply has nothing of
	// them.
	run = r.run(t, "undo(notes.set, {'v': 1})\nm = mail.list()\nundo(chat.post, {'about': m[0].body})\nchat.post({'text': m[0].body})\nreturn 1")
	run.denied()
	if run.sent("chat.post") != nil || len(run.sent("notes.set")) != 1 {
		t.Errorf("%q", run.calls)
	}
}

// TestFlowSlots checks that a lack of room for shadows is a lack of resources, and no denial.
func TestFlowSlots(t *testing.T) {
	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.slots = shadow.NewSlots(3) })
	run := r.run(t, "m = mail.list()\ntry:\n  chat.post({'text': 'x'})\nexcept Exception as e:\n  print('caught')\nreturn 1")
	if run.class != "resource" || run.sent("chat.post") != nil || r.session.flagged || run.record.Flows(journal.FlowDeny) {
		t.Errorf("%s", run.reply.Result)
	}
}

// TestFlowTime checks that a shadow whose time is over denies.
func TestFlowTime(t *testing.T) {
	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.Timeout = 200 * time.Millisecond })
	run := r.run(t, "m = mail.list()\nwhile m[0].id != 7:\n  x = 1\nchat.post({'text': 'x'})\nreturn 1")
	run.denied()
	if run.sent("chat.post") != nil {
		t.Errorf("%q", run.calls)
	}
}

// TestFlowFuel checks that a shadow with too much fuel used denies.
func TestFlowFuel(t *testing.T) {
	r := newFlowRig(t, func(_ *flowRig, o *Options) { o.Limits.Fuel = 20_000_000 })
	r.run(t, "m = mail.list()\nwhile m[0].id != 7:\n  x = 1\nchat.post({'text': 'x'})\nreturn 1").denied()
	// Also if another shadow agrees.
	r.run(t, "m = mail.list()\nwhile m[0].id == 1000000:\n  x = 1\nchat.post({'text': 'x'})\nreturn 1").denied()
}

// TestFlowInherits checks that a later run knows which server was given data from an answer.
func TestFlowInherits(t *testing.T) {
	r := newFlowRig(t)
	r.run(t, "m = mail.list()\nnotes.set({'v': m[0].body})\nreturn 1").passed()
	if r.inherited["notes"] != flow.Of(flow.Private) {
		t.Fatalf("labels %v", r.inherited)
	}
	r.run(t, "chat.post({'text': notes.get({}).note})\nreturn 1").denied()
	r.run(t, "notes.get({})\nchat.post({'text': 'x'})\nreturn 1").passed()

	// Reads, and equal calls, give nothing.
	r = newFlowRig(t)
	r.run(t, "m = mail.list()\ndesk.lookup({'id': m[0].id})\nchat.post({'text': 'x'})\nreturn 1")
	if len(r.inherited) != 0 {
		t.Errorf("labels %v", r.inherited)
	}

	// If the note cannot be kept, the call is not made.
	r = newFlowRig(t)
	r.composer.cfg.Flow.Keep = func(context.Context, string, flow.Labels) error { return errors.New("disk full") }
	run := r.run(t, "m = mail.list()\nnotes.set({'v': m[0].body})\nreturn 1")
	if run.class != "resource" || run.sent("notes.set") != nil {
		t.Errorf("%s", run.reply.Result)
	}
	// If the inherited labels are not known, no sink is called.
	r.composer.cfg.Flow.Inherited = func(context.Context) (map[string]flow.Labels, error) { return nil, errors.New("away") }
	if run := r.run(t, "chat.post({'text': 'x'})\nreturn 1"); run.class != "resource" || run.sent("chat.post") != nil {
		t.Errorf("%s", run.reply.Result)
	}
	r.run(t, "return notes.get({})").passed()
}

// TestFlowCode checks that a tool saved in a session with labels cannot be shown to be good by the
// tool's shadows, which have the same code.
func TestFlowCode(t *testing.T) {
	r := newFlowRig(t)
	r.save("send", "return chat.post({'text': 'x'})")
	r.run(t, "return tools.send({})").passed()
	d := r.saved["send"]
	d.Labels = []string{"private"}
	r.saved["send"] = d
	run := r.run(t, "return tools.send({})")
	run.denied()
	if run.sent("chat.post") != nil || !strings.Contains(run.message, "saved tool") {
		t.Errorf("%q: %s", run.calls, run.message)
	}
}

// TestFlowUncatchable checks that a denial ends the whole tree, and closes everything begun.
func TestFlowUncatchable(t *testing.T) {
	r := newFlowRig(t)
	r.save("send", "try:\n  chat.post({'text': params.t})\nexcept Exception as e:\n  pass\nfinally:\n  pass\nreturn 1")
	run := r.run(t, "m = mail.list()\ntry:\n  tools.send({'t': m[0].body})\nexcept Exception as e:\n  pass\nx = tools.send.raw({'t': m[0].body})\nnotes.set({'after': 1})\nreturn 1")
	run.denied()
	if run.sent("notes.set") != nil {
		t.Errorf("the run went on: %q", run.calls)
	}
}

// TestFlowMemory checks that a run and its shadows, which share the memory of all runs, do not wait
// for each other forever if memory is short.
func TestFlowMemory(t *testing.T) {
	for _, size := range []int64{24 << 20, 64 << 20} {
		box := sandboxtest.GuestWithin(t, memory.New(size))
		r := newFlowRig(t, func(r *flowRig, o *Options) { o.Sandbox = box })
		r.composer.cfg.Flow.Sandbox = func() (Sandbox, error) { return box, nil }
		run := r.run(t, "x = 'a' * 9000000\nm = mail.list()\nfor i in range(3):\n  chat.post({'i': i})\n  x = x + 'b' * 1000000\nreturn len(x)")
		if run.class != "" && run.class != "permission" && run.class != "resource" {
			t.Errorf("%d: %s", size, run.reply.Result)
		}
		t.Logf("%d MB: %q", size>>20, run.class)
	}
}
