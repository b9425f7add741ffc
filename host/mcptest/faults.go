package mcptest

import (
	"bytes"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// fault returns the fault to inject into a call.
func (s *Server) fault(c *call) Fault {
	name := c.msg.Method
	if c.tool != "" {
		name = c.tool
	}
	f := s.sw.Faults[name]
	if c.tool == "fault" {
		f = faultOf(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.served[name]++
	if n := s.served[name] - f.Skip; n <= 0 || f.Times > 0 && n > f.Times {
		return Fault{}
	}
	return f
}

// faultOf reads the arguments of the tool "fault".
func faultOf(c *call) Fault {
	kind, _ := wire.GetString(c.msg.Params, "arguments", "kind")
	return Fault{Kind: kind, Count: c.number("count"), Size: c.number("size"), Pause: c.number("pause")}
}

// deliver writes the answer, with the fault.
func (c *call) deliver(reply wire.Reply, f Fault) {
	msg := wire.Response(c.msg.ID, reply)
	switch f.Kind {
	case CrashDuring, HalfLine:
		framed := c.out.frame(msg)
		c.out.write(framed[:len(framed)/2], 0, nil)
		if f.Kind == CrashDuring {
			c.crash()
			return
		}
		<-c.cancelled
	case CrashAfter:
		c.out.send(msg, true)
		c.crash()
	case Hang, StopReading:
		<-c.ctx.Done()
	case Slow:
		c.writeSlowly(c.out.frame(msg), f)
	case CloseStdout:
		c.closeOutput()
		<-c.ctx.Done()
	case AfterCancel:
		<-c.cancelled
		c.out.send(msg, true)
	case OnlyWrongID:
		c.out.send(wire.Response([]byte("987654321"), reply), true)
	default:
		c.answerWith(msg, reply, f)
	}
}

// answerWith injects the faults that end with the right answer.
func (c *call) answerWith(msg []byte, reply wire.Reply, f Fault) {
	switch f.Kind {
	case Garbage:
		for range max(f.Count, 1) {
			c.out.send([]byte("this is not JSON-RPC"), false)
		}
	case Flood:
		filler := wire.Quote(string(bytes.Repeat([]byte("x"), f.Size)))
		for range max(f.Count, 1) {
			c.notify("notifications/message", append(append([]byte(`{"level":"debug","data":`), filler...), '}'))
		}
	case HugeLine:
		c.notify("notifications/huge", append(append([]byte(`{"x":"`), bytes.Repeat([]byte("x"), f.Size)...), `"}`...))
	case WrongID:
		c.out.send(wire.Response([]byte("987654321"), reply), false)
	case Duplicate:
		for range max(f.Count, 2) - 1 {
			c.out.send(msg, false)
		}
	case IgnoreShutdown:
		signal.Ignore(syscall.SIGTERM)
	}
	c.out.send(msg, true)
}

// writeSlowly writes a few bytes at a time, for as long as the session lasts.
func (c *call) writeSlowly(b []byte, f Fault) {
	ticker := time.NewTicker(max(time.Duration(f.Pause)*time.Millisecond, time.Microsecond))
	defer ticker.Stop()
	c.out.write(b, max(f.Size, 1), func() bool {
		select {
		case <-ticker.C:
			return true
		case <-c.ctx.Done():
			return false
		}
	})
}

// closeOutput closes standard output and leaves the process running.
func (c *call) closeOutput() {
	if c.srv.process {
		_ = os.Stdout.Close()
		return
	}
	c.out.abort()
	c.general.abort()
}
