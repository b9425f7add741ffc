package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// overStdio is a client of the binary itself, which ends the binary in one of the ways in which
// clients end servers. The binary then has little time to exit.
func (s *soak) overStdio(ctx context.Context, kind string, rnd *rand.Rand) {
	cmd := exec.Command(s.binary, "serve", "--config", s.farm.small)
	in, inErr := cmd.StdinPipe()
	// A plain pipe, not cmd's: Wait would close cmd's pipe before all has been read.
	out, theirs, outErr := os.Pipe()
	if err := firstError(inErr, outErr); err != nil {
		s.tally.fail("%v", err)
		return
	}
	cmd.Stdout = theirs
	err := cmd.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		s.tally.fail("%v", err)
		return
	}
	c := s.newSession(kind, rnd)
	c.Client = mcptest.NewStdio(out, in, c.options())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	if err := c.begin(ctx); err != nil {
		s.tally.check(ctx.Err() != nil, "%s could not begin: %v", c.name(), err)
	} else {
		c.converse(ctx, small, 10+rnd.IntN(40))
		s.endStdio(c, cmd.Process)
	}
	select {
	case <-gone: // how, depends on the end
	case <-time.After(10 * time.Second):
		s.tally.fail("%s: the process did not end", c.name())
		_ = cmd.Process.Kill()
		<-gone
	}
}

// endStdio ends a session with the binary while calls are pending.
func (s *soak) endStdio(c *session, p *os.Process) {
	way := []string{"end of input", "both pipes closed", "SIGTERM", "SIGINT", "SIGKILL", "stops reading"}[c.rnd.IntN(6)]
	s.tally.fault("client: stdio, " + way)
	if way == "end of input" {
		c.close()
		return
	}
	if way == "stops reading" {
		c.Pause()
		for range 5 {
			c.call("calm__burst", `{"count":2000}`, false)
		}
	}
	for range 3 {
		c.call("calm__wait", fmt.Sprintf(`{"x":%q}`, c.mark), true)
	}
	c.leave() // pending requests may be answered or not
	switch way {
	case "SIGTERM":
		_ = p.Signal(syscall.SIGTERM)
	case "SIGINT":
		_ = p.Signal(os.Interrupt)
	case "SIGKILL":
		_ = p.Kill()
	case "stops reading":
		time.Sleep(time.Duration(c.rnd.IntN(500)) * time.Millisecond)
		_ = p.Signal(syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
	}
	if way == "SIGTERM" || way == "SIGINT" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = c.Close(ctx)
		cancel()
		c.account()
		return
	}
	c.vanish()
}
