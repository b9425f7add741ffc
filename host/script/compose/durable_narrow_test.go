package compose

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// narrowing is a change between the death of a process and the start of the next process.
type narrowing struct {
	change  func(r *durableRig)
	allowed string // the permitted calls of the next process; "" is any
	undone  bool   // all compensations are still made
}

const anyRemove = "remove 2 remove 11"

// narrowings are all ways in which a run can lose permissions between two processes.
var narrowings = map[string]narrowing{
	"nothing": {func(*durableRig) {}, "", true},
	"tool":    {func(r *durableRig) { r.saved.bound("job", "s.other", "tools.inner") }, "other 1 other 3 other 5 other 10", false},
	"all of the tool": {func(r *durableRig) { r.saved.bound("job", "s.remove") },
		anyRemove, true},
	"called tool": {func(r *durableRig) { r.saved.bound("inner", "s.remove") },
		"other 1 other 3 " + anyRemove, true},
	"compensations of the called tool": {func(r *durableRig) { r.saved.bound("inner", "s.other") },
		"other 1 other 3 other 5 other 10 remove 2", false},
	"code of the called tool": {func(r *durableRig) {
		r.saved.permit("inner", "return 0", "s.remove")
		r.saved.bound("inner", "s.remove")
	}, "other 1 other 3 " + anyRemove, true},
	"removed": {func(r *durableRig) { delete(r.saved, "job") }, anyRemove, true},
	"called tool removed": {func(r *durableRig) { delete(r.saved, "inner") },
		"other 1 other 3 " + anyRemove, true},
	"denied": {func(r *durableRig) {
		r.change = func(o *Options) {
			o.Denies = func(_ route.Origin, tool string, _ []byte) error { return errors.New("policy denies tools." + tool) }
		}
	}, anyRemove, true},
	"pins": {func(r *durableRig) {
		r.change = func(o *Options) { o.Definitions = durablePins("2") }
	}, "", true}, // see below
}

func durablePins(other string) pinned {
	return pinned{pins.Enforce, map[string]string{"s.other": other, "s.remove": "1"}}
}

// newNarrowRig has a durable tool with a call of another tool, with permissions and pins.
func newNarrowRig(t *testing.T) *durableRig {
	r := newDurableRig(t, true)
	inner := "a = s.other(n=10)\nundo(s.remove, {\"n\": 11})\nreturn a + s.other(n=params.n)"
	r.saved.permit("inner", inner, "s.other", "s.remove")
	r.saved.permit("job", "s.other(n=1)\nundo(s.remove, {\"n\": 2})\ntools.inner(n=5)\ns.other(n=3)\nfail('enough')", "s.other", "s.remove", "tools.inner")
	job := r.saved["job"]
	job.Durability = tools.Durability{Durable: true}
	below := r.saved["inner"]
	for _, d := range []*tools.Definition{&job, &below} {
		d.Permissions.Definitions = map[string]string{"s.other": "1", "s.remove": "1"}
	}
	job.Permissions.Definitions["tools.inner"] = below.Hash()
	r.saved["job"], r.saved["inner"] = job, below
	return r
}

// TestDurableNarrowed takes permissions away from a durable run at events of the log. The next
// process makes no call outside the current permissions, and still makes permitted compensations.
func TestDurableNarrowed(t *testing.T) {
	for name, n := range narrowings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused := 0
			for events := 1 + int64(len(name)%2); ; events += 2 { // every second event is enough
				r := newNarrowRig(t)
				if name == "pins" {
					r.change = func(o *Options) { o.Definitions = durablePins("1") }
				}
				_, kept := r.process(events)
				r.round(asker0("2025-11-25"), r.saved["job"], "", "")
				if !kept.cut.Load() {
					break
				}
				before := len(r.up.calls())
				n.change(r)
				got := string(r.goOn().Result)
				r.checkNarrowed(events, n, before, name == "pins")
				if strings.Contains(got, `"type":"permission"`) {
					refused++
				}
				for _, undo := range r.registered() {
					if counts := r.counts(); counts[undo] == 0 && (n.undone || !reported(got, undo)) {
						t.Errorf("after %d events: %s is not made: %v, %s", events, undo, counts, got)
					}
				}
			}
			if want := name != "nothing"; want != (refused > 0) {
				t.Errorf("%d runs were refused", refused)
			}
		})
	}
}

// reported reports whether a result names a compensation as not made.
func reported(result, undo string) bool {
	_, n, _ := strings.Cut(undo, " ")
	return strings.Contains(result, `"params":{"n":`+n+`},"undone":false`) || strings.Contains(result, "may not call s.remove")
}

// registered returns the compensations in the log.
func (r *durableRig) registered() (all []string) {
	r.state.Record.Any(func(rec *journal.Record) bool {
		for _, u := range rec.Undos {
			n, _ := wire.Get(u.Request.Arguments, "n")
			all = append(all, u.Tool+" "+string(n))
		}
		return false
	})
	return all
}

// checkNarrowed compares the calls after the first calls with the permitted calls.
func (r *durableRig) checkNarrowed(events int64, n narrowing, before int, pinned bool) {
	r.t.Helper()
	for _, call := range r.up.calls()[before:] {
		_, params, _ := strings.Cut(call, " ")
		name, _ := wire.GetString([]byte(params), "name")
		arg, _ := wire.Get([]byte(params), "arguments", "n")
		call = name + " " + string(arg)
		if n.allowed != "" && !strings.Contains(" "+n.allowed+" ", " "+call+" ") || pinned && name == "other" {
			r.t.Errorf("after %d events: the next process calls %s", events, call)
		}
	}
}
