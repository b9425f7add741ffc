package compose

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// progress turns the progress of all calls of a run into a single sequence for the client. The
// value is the number of finished calls plus a fraction for each active call. Once the script
// reports progress of its own, only the script's progress is sent.
//
// Each value is greater than the value before, as the protocol requires (MCP 2025-11-25,
// basic/utilities/progress): a smaller value is raised to the next float64. Only the last
// notification of each interval is sent, at the end of the interval or of the run. A nil progress
// accepts everything and sends nothing.
type progress struct {
	send func(params []byte)
	// tell returns the labels of a message to the client now, and notes the message; nil: nothing
	// has labels. more are the labels of the message itself. tell takes no lock of this package.
	tell     func(more flow.Labels) flow.Labels
	interval time.Duration // least time between two notifications; 0: all are sent

	// mu is held while sending, to keep the sequence in order; send only writes to
	// the client and takes no lock of this package.
	mu     sync.Mutex
	parts  []*part // of active calls
	done   int     // number of finished calls
	last   float64 // value sent last, 0 at the start
	owned  bool    // the script has reported progress
	closed bool

	waiting *notice     // sent when the interval is over; nil for none
	timer   *time.Timer // runs during an interval
}

// notice is a progress notification before the notification is sent.
type notice struct {
	value   float64
	total   *float64
	message string
	labels  flow.Labels // of the message itself
}

// progressInterval is the interval for clients.
const progressInterval = 500 * time.Millisecond

// part is the share of a call.
type part struct {
	of       *progress
	name     string      // server.tool
	labels   flow.Labels // of the answer, if they are known before
	count    int         // notifications
	fraction float64
	finished bool
}

// maxFraction is the most that an active call can count.
const maxFraction = 1 - 1.0/(1<<20)

// progressRow reports the progress of calls.
type progressRow struct {
	stack.Pass
	r *run
}

// Call implements stack.Handler. The part of a call stays open if the call ends with the run, so
// that no progress follows the end.
func (w *progressRow) Call(ctx context.Context, t *stack.Request) stack.Answer {
	if t.Undoes {
		return w.Pass.Call(ctx, t)
	}
	part := w.r.progress.begin(t.Server+"."+t.Tool, w.r.tree.flow.Expected(t.Server, t.Tool))
	t.Set(progressKey, part.reporter(t.Record))
	answer := w.Pass.Call(ctx, t)
	if ofRun(ctx, t).Err() == nil {
		part.finish()
	}
	return answer
}

// progressKey is the note with the function for the progress of a call.
var progressKey = &stack.Key{Name: "progress"}

// begin adds a call. labels are the labels of the call's answer, as far as known.
func (p *progress) begin(name string, labels flow.Labels) *part {
	if p == nil {
		return nil
	}
	c := &part{of: p, name: name, labels: labels}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.parts = append(p.parts, c)
	return c
}

// reporter returns the function for the call's progress; nil if the client did not ask
// for progress.
func (c *part) reporter(record *journal.Call) func(params []byte) {
	if c == nil {
		return nil
	}
	return func(params []byte) {
		record.Progress()
		c.advance(params)
	}
}

// advance handles a progress notification of the call.
func (c *part) advance(params []byte) {
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.finished || p.closed {
		return
	}
	c.count++
	c.fraction = max(c.fraction, fraction(params, c.count))
	message := c.name
	if text, _ := wire.GetString(params, "message"); text != "" {
		message += ": " + text
	}
	p.report(message, c.labels)
}

// fraction returns how much of a call is done at the count-th notification. Without a usable total
// each notification counts less than the notification before.
func fraction(params []byte, count int) float64 {
	value, ok1 := number(params, "progress")
	total, ok2 := number(params, "total")
	f := 1 - 1/float64(1+count)
	if ok1 && ok2 && total > 0 {
		f = value / total
	}
	return min(max(f, 0), maxFraction)
}

func number(params []byte, name string) (float64, bool) {
	raw, ok := wire.Get(params, name)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// finish counts the call as done.
func (c *part) finish() {
	if c == nil {
		return
	}
	p := c.of
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.finished {
		return
	}
	c.finished = true
	for i, x := range p.parts {
		if x == c {
			p.parts = append(p.parts[:i], p.parts[i+1:]...)
			break
		}
	}
	p.done++
	p.report(c.name, c.labels)
}

// report sends the current value. The caller holds mu.
func (p *progress) report(message string, labels flow.Labels) {
	if p.owned {
		return
	}
	value := float64(p.done)
	for _, c := range p.parts {
		value += c.fraction
	}
	p.write(value, nil, message, labels)
}

// script handles the script's own progress.
func (p *progress) script(s abi.Progress) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owned = true
	p.write(s.Progress, s.Total, s.Message, 0)
}

// write sends a notification, or keeps the notification until the interval is over. The caller
// holds mu.
func (p *progress) write(value float64, total *float64, message string, labels flow.Labels) {
	if p.closed || math.IsInf(value, 0) || math.IsNaN(value) {
		return
	}
	n := &notice{value, total, message, labels}
	if p.timer != nil {
		p.waiting = n
		return
	}
	p.sendNow(n)
	if p.interval > 0 {
		p.timer = time.AfterFunc(p.interval, p.intervalOver)
	}
}

func (p *progress) intervalOver() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if n := p.waiting; n != nil && !p.closed {
		p.waiting = nil
		p.sendNow(n)
		p.timer = time.AfterFunc(p.interval, p.intervalOver)
	}
}

func (p *progress) sendNow(n *notice) {
	if n.value <= p.last {
		n.value = math.Nextafter(p.last, math.Inf(1))
	}
	if math.IsInf(n.value, 0) { // no value is greater
		return
	}
	p.last = n.value
	var params wire.Object
	params.Raw("progress", wire.Marshal(n.value))
	if n.total != nil && !math.IsInf(*n.total, 0) && !math.IsNaN(*n.total) {
		params.Raw("total", wire.Marshal(*n.total))
	}
	if n.message != "" {
		params.Text("message", n.message)
	}
	if p.tell != nil {
		if meta := ifcMeta(p.tell(n.labels)); meta != nil {
			params.Raw("_meta", meta)
		}
	}
	p.send(params.Bytes())
}

// close sends the waiting notification, and ends the sequence. Later notifications are
// from abandoned calls, and are dropped.
func (p *progress) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop() // if the timer has fired already, the callback will find the sequence closed
	}
	if n := p.waiting; n != nil {
		p.waiting = nil
		p.sendNow(n)
	}
	p.closed = true
}
