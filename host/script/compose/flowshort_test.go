package compose

import (
	"context"
	"errors"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
)

// TestFlowShort checks that a run with an earlier end than its shadows is noticed, also if the run
// came to no sink at all. Otherwise the run could reveal a bit, as often as an agent likes.
func TestFlowShort(t *testing.T) {
	const untold = "m = mail.list()\nif m[0].id != 7:\n  chat.post({'text': 'b'})\nreturn 1"
	for _, tt := range []struct {
		name, code string
		saved      string // tools.send
		action     flow.Action
		short      bool
	}{
		{name: "after a sink", code: "m = mail.list()\nchat.post({'text': 'a'})\nif m[0].id != 7:\n  chat.post({'text': 'b'})\nreturn 1", short: true},
		{name: "without a sink", code: untold, short: true},
		{name: "without a sink, asking", code: untold, action: flow.Ask, short: true},
		{name: "without a sink, reporting", code: untold, action: flow.Report, short: true},
		{name: "failing", code: "m = mail.list()\nif m[0].id == 7:\n  fail('x')\nchat.post({'text': 'b'})", short: true},
		{name: "in a saved tool", code: "m = mail.list()\nif m[0].id != 7:\n  tools.send({})\nreturn 1", saved: "return chat.post({'text': 'b'})", short: true},
		{name: "a compensation", code: "undo(chat.post, {'text': 'b'})\nm = mail.list()\nif m[0].id != 7:\n  fail('x')\nreturn 1", short: true},
		{name: "no shadow does", code: "m = mail.list()\nif len(m) == 77:\n  chat.post({'text': 'b'})\nreturn 1"},
		{name: "before the label", code: "chat.post({'text': 'b'})\nm = mail.list()\nreturn 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFlowRig(t, func(r *flowRig, _ *Options) {
				if tt.action != "" {
					r.settings.Action = tt.action
				}
			})
			if tt.saved != "" {
				r.save("send", tt.saved)
			}
			run := r.run(t, tt.code)
			if r.session.flagged != tt.short || run.record.Flows(journal.FlowShort) != tt.short {
				t.Errorf("flagged %v, labels %s, record %+v", r.session.flagged, run.labels, run.record.Flow)
			}
			if tt.short && !run.labels.Has(flow.Private) {
				t.Errorf("labels %s", run.labels)
			}
			if want := int64(flow.NumBlank); r.shadows.Load() != want {
				t.Errorf("%d shadows, want %d", r.shadows.Load(), want)
			}
		})
	}
}

// TestFlowShortCancelled checks that an agent cannot hide a run by cancelling the run, or by taking
// all places for shadows.
func TestFlowShortCancelled(t *testing.T) {
	const code = "m = mail.list()\nif m[0].id == 7:\n  desk.lookup({'id': 1})\nchat.post({'text': 'b'})\nreturn 1"
	for _, tt := range []struct {
		name  string
		cause error
		short bool
	}{
		{"cancelled", &wire.CancelledError{}, true},
		{"given up", context.DeadlineExceeded, true},
		{"the client has gone", context.Canceled, true},
		{"asks", errAsks, false},
		{"elsewhere", durable.ErrLost, false},
		{"shutdown", wire.ErrClosed, false},
	} {
		r := newFlowRig(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		r.calling = func(name string) {
			if name == "desk.lookup" {
				cancel(tt.cause)
			}
		}
		r.composer.Eval(ctx, code, nil, r.call)
		if rec := r.records[0].Record(); r.session.flagged != tt.short || rec.Flows(journal.FlowShort) != tt.short {
			t.Errorf("%s: flagged %v: %+v", tt.name, r.session.flagged, rec.Flow)
		}
		if !errors.Is(context.Cause(ctx), tt.cause) || r.slots.Taken() != 0 {
			t.Errorf("%s: %v, %d slots taken", tt.name, context.Cause(ctx), r.slots.Taken())
		}
		cancel(nil)
	}

	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.slots = shadow.NewSlots(3) })
	run := r.run(t, "m = mail.list()\nif m[0].id != 7:\n  chat.post({'text': 'b'})\nreturn 1")
	run.passed()
	if !r.session.flagged {
		t.Error("without room for shadows, the session is not flagged")
	}
}
