package servers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestResolve checks that secrets are asked for before each start.
func TestResolve(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	f := launchWith(t, restartingSpec(t, "ok"), Options{Resolve: func(_ context.Context, s Spec) (Spec, error) {
		n := asked.Add(1)
		if n == 2 {
			return Spec{}, lockedError{}
		}
		s.Env = append(slices.Clone(s.Env), fmt.Sprintf("SECRET=value-%d", n))
		return s, nil
	}}, fastTimings)
	env := func() string {
		reply, err := f.Call(t.Context(), toolCall("env"))
		if err != nil {
			t.Fatal(err)
		}
		all, _ := wire.Get(reply.Result, "env")
		return string(all)
	}
	if got := env(); !strings.Contains(got, `"SECRET=value-1"`) {
		t.Error(got)
	}
	_, err := f.Call(t.Context(), toolCall("crash"))
	wantDown(t, err, "exit status 9")
	for { // the start that fails is tried again
		_, err := f.Call(t.Context(), toolCall("who"))
		if err == nil {
			break
		}
		wantDown(t, err, "")
		if strings.Contains(err.Error(), "private") {
			t.Errorf("the caller sees the detail: %v", err)
		}
	}
	if got := env(); !strings.Contains(got, `"SECRET=value-3"`) {
		t.Error(got)
	}
	log := f.log.String()
	for _, want := range []string{`upstream \"x\": the keyring is locked`, "private detail"} {
		if !strings.Contains(log, want) {
			t.Error(log)
		}
	}
}

// lockedError is an error with a detail that only the person may see.
type lockedError struct{}

func (lockedError) Error() string  { return "the keyring is locked" }
func (lockedError) Detail() string { return "private detail" }
