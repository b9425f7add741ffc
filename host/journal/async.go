package journal

import (
	"runtime"
	"sync"
	"time"
)

// maxQueued is how many proxied calls can wait to be written.
const maxQueued = 256

// maxGather bounds the bytes gathered for one write.
const maxGather = 256 << 10

// asyncQueue holds unwritten proxied calls. A goroutine writes all waiting calls with one write.
type asyncQueue struct {
	wake chan struct{} // holds a token while the goroutine may have work

	mu      sync.Mutex // guards the fields below; a leaf
	waiting []queuedCall
	ended   chan struct{} // closed when the goroutine has ended; nil before the start
	closed  bool
}

// queuedCall is a proxied call and the function to call after the write.
type queuedCall struct {
	call Proxied
	then func()
}

// ProxiedAsync is [Log.Proxied] for callers that must not wait. Another goroutine calls then after
// the write of the call, or after a failed write; then must not block. ProxiedAsync does nothing
// and returns false if too many calls are waiting, or if the Log is closed or nil.
func (l *Log) ProxiedAsync(p Proxied, then func()) bool {
	if l == nil {
		return false
	}
	s := &l.async
	s.mu.Lock()
	if s.closed || len(s.waiting) >= maxQueued {
		s.mu.Unlock()
		return false
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
		go l.writeQueued(s.ended)
	}
	s.waiting = append(s.waiting, queuedCall{p, then})
	first := len(s.waiting) == 1
	s.mu.Unlock()
	if first {
		s.signal()
	}
	return true
}

func (s *asyncQueue) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // the goroutine is awake already
	}
}

// stallTime is how long Close waits for calls to be written.
const stallTime = 2 * time.Second

// close refuses further calls and waits until the queued calls are written. It returns false after
// stallTime, because a callback blocks.
func (s *asyncQueue) close() bool {
	s.mu.Lock()
	s.closed = true
	ended := s.ended
	s.mu.Unlock()
	if ended == nil {
		return true
	}
	s.signal()
	stalled := time.NewTimer(stallTime)
	defer stalled.Stop()
	select {
	case <-ended:
		return true
	case <-stalled.C:
		return false
	}
}

// take waits for calls and returns all queued calls; after close, take returns none when the queue
// is empty. take reuses the memory of the previous batch.
func (s *asyncQueue) take(previous []queuedCall) []queuedCall {
	clear(previous)
	for {
		s.mu.Lock()
		batch, closed := s.waiting, s.closed
		if len(batch) > 0 {
			s.waiting = previous[:0]
		}
		s.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch
		}
		<-s.wake
		runtime.Gosched() // calls about to end join this batch
	}
}

func (l *Log) writeQueued(ended chan<- struct{}) {
	defer close(ended)
	var batch []queuedCall
	var buffer []byte
	for {
		if batch = l.async.take(batch); len(batch) == 0 {
			return
		}
		for done := 0; done < len(batch); {
			done, buffer = l.writeBatch(batch, done, buffer)
		}
	}
}

// writeBatch writes calls from all[first] on, as many as fit into one write, and returns the index
// after the last. buffer and reuse are reused memory.
func (l *Log) writeBatch(all []queuedCall, first int, buffer []byte) (done int, reuse []byte) {
	opts := l.options()
	line := line{b: buffer[:0], redactor: opts.Redactor}
	for done = first; done < len(all) && len(line.b) < maxGather; done++ {
		line.proxied(&all[done].call)
	}
	end, err := l.writeAt(line.b, line.ends, nil)
	if err == nil && opts.Sync == SyncAlways {
		l.flush(end) // which reports failures
	}
	for _, t := range all[first:done] {
		t.then()
	}
	if cap(line.b) > 2*maxGather {
		return done, nil
	}
	return done, line.b
}
