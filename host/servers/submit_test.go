package servers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link/linktest"
)

func TestLimitOf(t *testing.T) {
	t.Parallel()
	u := &Upstream{spec: Spec{Timeout: 10 * time.Second, MaxTimeout: 15 * time.Second}}
	if got, want := u.limitOf("tools/call"), (rpc.Limit{Idle: 10 * time.Second, Max: 15 * time.Second}); got != want {
		t.Errorf("tools/call: got %v, want %v", got, want)
	}
	if got, want := u.limitOf(protocol.MethodTasksResult), (rpc.Limit{Max: 15 * time.Second}); got != want {
		t.Errorf("tasks/result: got %v, want %v", got, want)
	}
}

func TestUpstreamSubmit(t *testing.T) {
	t.Parallel()
	f := launch(t, restartingSpec(t, "ok"))
	done := make(linktest.Outcomes, 2)
	if _, ok := f.Submit(toolCall("echo"), done.Complete); ok { // it may have started already
		<-done
	}
	<-f.Started()
	if _, ok := f.Submit(toolCall("echo"), done.Complete); !ok || string((<-done).Reply.Result) != `{"name":"echo"}` {
		t.Error("not submitted, or another answer")
	}
	hanging := make(linktest.Outcomes, 2)
	cancel, ok := f.Submit(toolCall("hang"), hanging.Complete)
	if !ok {
		t.Fatal("not submitted")
	}
	<-f.notes
	if _, ok := f.Submit(toolCall("crash"), done.Complete); !ok {
		t.Fatal("not submitted")
	}
	for _, d := range []linktest.Outcomes{done, hanging} {
		_, err := (<-d).Next(t.Context())
		wantDown(t, err, "its process ended: exit status 9")
	}
	cancel(errors.New("too late"))
	if got := f.call(t, "who"); !strings.HasPrefix(got, `{"start":2,`) {
		t.Error(got)
	}
	if len(hanging)+len(done) > 0 {
		t.Error("a call has two outcomes")
	}
}

// endedLink is a link that has ended without being noticed.
type endedLink struct {
	link.Link
	ended func() error
}

func (l endedLink) Submit(_ wire.Call, _ rpc.Limit, complete wire.CompletionFunc) (rpc.Pending, error) {
	complete(wire.Reply{}, func(context.Context) (wire.Reply, error) { return wire.Reply{}, l.ended() })
	return rpc.Pending{}, nil
}

// TestSubmitOnAnEndedLink checks that a call that was surely not written is made
// again over the next link, and no other one.
func TestSubmitOnAnEndedLink(t *testing.T) {
	t.Parallel()
	for _, unsent := range []bool{true, false} {
		f := launch(t, here("ok"))
		<-f.Started()
		f.mu.Lock()
		next := f.link
		f.link = endedLink{next, func() error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.link = next
			return &DownError{Upstream: "x", Reason: "gone", unsent: unsent}
		}}
		f.mu.Unlock()
		done := make(linktest.Outcomes, 1)
		if _, ok := f.Submit(toolCall("echo"), done.Complete); !ok {
			t.Fatal("not submitted")
		}
		reply, err := (<-done).Next(t.Context())
		if unsent && (err != nil || string(reply.Result) != `{"name":"echo"}`) {
			t.Errorf("%s %v", reply.Result, err)
		}
		if !unsent {
			wantDown(t, err, "gone")
		}
	}
}
