//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// tell lets a durable run survive the deaths of two replicas, and prints the events: the calls at
// the server, the output of the commands meanwhile, and the record of the run.
func (t *trial) tell(ctx context.Context, out io.Writer) error {
	c := newCrowd(t)
	c.settle, c.over = context.WithCancel(ctx)
	defer c.over()
	if err := c.prepare(ctx); err != nil {
		return err
	}
	const key, times = "story", 8
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	client := c.sticky(0)
	defer client.Disconnect()
	got := ask(client, 1, "tools/call", runOf(toolPays, key, times, 700))
	task, ok := wire.GetString(got.result, "taskId")
	if !ok {
		return fmt.Errorf("no task: %v", got)
	}
	say("the client calls %s at replica-1, and gets a task", toolPays)
	owner := t.fleet.replicas[0]
	for n := range 2 {
		if err := t.called(ctx, key, 2+3*n); err != nil {
			return err
		}
		say("the server was called %d times; kill -9 %s", t.calledKeys(key, times), owner.name)
		before := t.goingOn()
		if err := owner.down("kill -9", syscall.SIGKILL); err != nil {
			return err
		}
		killed := owner
		if owner = t.next(ctx, before); owner == nil {
			return fmt.Errorf("no replica goes on with the run")
		}
		say("%s goes on with the run", owner.name)
		if text, err := t.command(ctx, owner, "runs", "list", "--open"); err == nil {
			fmt.Fprintf(out, "\n%s\n", text)
		}
		if n == 0 {
			if err := killed.start(ctx); err != nil {
				return err
			}
			say("%s is started again", killed.name)
		}
	}
	any := c.modern()
	defer any.Disconnect()
	var last reply
	for n := 1; ; n++ {
		last = ask(any, n, "tasks/get", fmt.Sprintf(`{"taskId":%q}`, task))
		status, _ := wire.GetString(last.result, "status")
		if status != "" && status != "working" {
			say("tasks/get at any replica: %s", status)
			break
		}
		if time.Since(began) > settleTime {
			return fmt.Errorf("the run does not end: %v", last)
		}
		pause(ctx, 200*time.Millisecond)
	}
	for i := range times {
		if n := t.fleet.ledger.count(fmt.Sprintf("%s.%d", key, i)); n != 1 {
			return fmt.Errorf("%s.%d was paid %d times", key, i, n)
		}
	}
	say("each of %d keys was paid once; %d calls came again with their idempotency key", times, t.fleet.ledger.repeated())
	result, _ := wire.Get(last.result, "result")
	text, _ := wire.Get(result, "content")
	say("the result: %s", text)
	shown, err := t.command(ctx, owner, "runs", "list", "--tool", toolPays)
	fmt.Fprintf(out, "\n%s", shown)
	return err
}

// called waits until the server was called with so many keys.
func (t *trial) called(ctx context.Context, key string, times int) error {
	for deadline := time.Now().Add(patience); t.calledKeys(key, times) < times; pause(ctx, 5*time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the server is not called")
		}
	}
	return nil
}

func (t *trial) calledKeys(key string, times int) (n int) {
	for i := range times {
		if t.fleet.ledger.count(fmt.Sprintf("%s.%d", key, i)) > 0 {
			n++
		}
	}
	return n
}

// goingOn returns how often each replica's log says that the replica goes on with a run.
func (t *trial) goingOn() []int {
	var all []int
	for _, r := range t.fleet.replicas {
		text, _ := os.ReadFile(r.log)
		all = append(all, bytes.Count(text, []byte("going on with a durable run")))
	}
	return all
}

// next waits until a replica goes on with a run; nil if none does.
func (t *trial) next(ctx context.Context, before []int) *replica {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); pause(ctx, 20*time.Millisecond) {
		for i, n := range t.goingOn() {
			if n > before[i] {
				return t.fleet.replicas[i]
			}
		}
	}
	return nil
}
