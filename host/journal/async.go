package journal

import (
	"runtime"
	"sync"
	"time"
)

// maxSoon bounds the proxied calls that wait to be written down.
const maxSoon = 256

// maxGather is how much of them is gathered for one write, in bytes.
const maxGather = 256 << 10

// soon are proxied calls that wait to be written down, all that there are with
// one write, by one goroutine.
type soon struct {
	wake chan struct{} // holds a token while the goroutine may have something to do

	mu      sync.Mutex // guards what follows; a leaf
	waiting []later
	ended   chan struct{} // closed when the goroutine has ended; nil before it is started
	closed  bool
}

// later is a call, and what is to happen once it is written down.
type later struct {
	call Proxied
	then func()
}

// ProxiedSoon is Proxied for whoever must not wait: then is called by another
// goroutine when the call has been recorded, or could not be. It must not block.
// It is false, and nothing is done, where too many calls wait or the Log is
// closed or nil.
func (l *Log) ProxiedSoon(p Proxied, then func()) bool {
	if l == nil {
		return false
	}
	s := &l.soon
	s.mu.Lock()
	if s.closed || len(s.waiting) >= maxSoon {
		s.mu.Unlock()
		return false
	}
	if s.ended == nil {
		s.ended = make(chan struct{})
		go l.recordSoon(s.ended)
	}
	s.waiting = append(s.waiting, later{p, then})
	first := len(s.waiting) == 1
	s.mu.Unlock()
	if first {
		s.signal()
	}
	return true
}

func (s *soon) signal() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake already
	}
}

// stallTime is how long Close waits for calls to be written down.
const stallTime = 2 * time.Second

// close waits until all that waits is written down. Nothing is taken any more.
// It is false when that takes too long: somebody who is told of trouble does not
// listen.
func (s *soon) close() bool {
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

// take waits for calls and takes all there are; none when there will be none. It
// keeps the memory of those before.
func (s *soon) take(before []later) []later {
	clear(before)
	for {
		s.mu.Lock()
		batch, closed := s.waiting, s.closed
		if len(batch) > 0 {
			s.waiting = before[:0]
		}
		s.mu.Unlock()
		if len(batch) > 0 || closed {
			return batch
		}
		<-s.wake
		runtime.Gosched() // calls that are about to end come along
	}
}

func (l *Log) recordSoon(ended chan<- struct{}) {
	defer close(ended)
	var batch []later
	var buffer []byte
	for {
		if batch = l.soon.take(batch); len(batch) == 0 {
			return
		}
		for done := 0; done < len(batch); {
			done, buffer = l.recordSome(batch, done, buffer)
		}
	}
}

// recordSome writes down calls from the first on that is not, as many as go into
// one write, and returns how many are then. buffer is memory to work in, as is
// what is returned.
func (l *Log) recordSome(all []later, first int, buffer []byte) (done int, reuse []byte) {
	opts := l.options()
	line := line{b: buffer[:0], redactor: opts.Redactor}
	for done = first; done < len(all) && len(line.b) < maxGather; done++ {
		line.proxied(&all[done].call)
	}
	end, err := l.write(line.b)
	if err == nil && opts.Sync == SyncAlways {
		l.flush(end) // a failure was told
	}
	for _, t := range all[first:done] {
		t.then()
	}
	if cap(line.b) > 2*maxGather {
		return done, nil
	}
	return done, line.b
}
