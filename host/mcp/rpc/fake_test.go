package rpc

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeStream is a Stream that writes frames only when the test calls flush.
type fakeStream struct {
	mu       sync.Mutex
	changed  *sync.Cond
	room     int // for requests and notifications
	held     []Frame
	requests []int64       // written, in order
	cancels  []int64       // written
	numbers  map[int]int64 // ids of requests by played.number
	sent     [][]byte
	broken   bool
	finished bool // Finish was called, and it is not the main stream
	main     bool
	finishes int
	last     []byte // of Finish
}

func newFakeStream(room int) *fakeStream {
	s := &fakeStream{room: room, numbers: map[int]int64{}}
	s.changed = sync.NewCond(&s.mu)
	return s
}

func (s *fakeStream) full() bool { return s.finished || s.broken || len(s.held) >= s.room }

// TrySend implements Stream.
func (s *fakeStream) TrySend(f Frame) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full() {
		return false
	}
	s.held = append(s.held, f)
	return true
}

// Send implements Stream.
func (s *fakeStream) Send(ctx context.Context, f Frame) error {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.finished:
			return ErrFinished
		case s.broken:
			return errUnwritten
		case !s.full(): // even if ctx has ended meanwhile
			s.held = append(s.held, f)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		s.changed.Wait()
	}
}

// Push implements Stream.
func (s *fakeStream) Push(f Frame) error {
	s.mu.Lock()
	if s.finished {
		s.mu.Unlock()
		return ErrFinished
	}
	broken := s.broken
	if !broken {
		s.held = append(s.held, f)
	}
	s.mu.Unlock()
	if broken {
		f.Done(Unsent, nil)
	}
	return nil
}

// Withdraw implements Stream.
func (s *fakeStream) Withdraw(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.held, func(f Frame) bool { return f.ID == id })
	if i < 0 {
		return false
	}
	s.held = slices.Delete(s.held, i, i+1)
	s.changed.Broadcast()
	return true
}

// Finish implements Stream.
func (s *fakeStream) Finish(f Frame) {
	s.mu.Lock()
	s.finishes++
	s.last = bytes.Clone(f.Data)
	s.finished = !s.main
	s.changed.Broadcast()
	s.mu.Unlock()
	if f.Data != nil {
		f.Done(Written, nil)
	}
}

// flush writes up to n frames.
func (s *fakeStream) flush(n int) {
	s.mu.Lock()
	batch := slices.Clone(s.held[:min(n, len(s.held))])
	s.held = slices.Delete(s.held, 0, len(batch))
	s.changed.Broadcast()
	s.mu.Unlock()
	for _, f := range batch {
		denied := wire.CheckPermit(f.Permit)
		if denied != nil {
			f.Done(Unsent, denied)
			continue
		}
		s.mu.Lock()
		s.sent = append(s.sent, f.Data)
		if f.ID != 0 {
			s.requests = append(s.requests, f.ID)
			n, _ := wire.Get(f.Data, "params", "n")
			number, _ := strconv.Atoi(string(n))
			s.numbers[number] = f.ID
		}
		if f.Cancels != 0 {
			s.cancels = append(s.cancels, f.Cancels)
		}
		s.mu.Unlock()
		f.Done(Written, nil)
	}
}

// fail breaks the stream in the middle of the first frame that it holds.
func (s *fakeStream) fail() {
	s.mu.Lock()
	s.broken = true
	batch := s.held
	s.held = nil
	s.changed.Broadcast()
	s.mu.Unlock()
	for i, f := range batch {
		if i == 0 {
			f.Done(Broken, nil)
		} else {
			f.Done(Unsent, nil)
		}
	}
}

// written returns the ids of the requests, and of the cancelled requests, that were
// written.
func (s *fakeStream) written() (requests, cancels []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests), slices.Clone(s.cancels)
}

// fakeCallStream is a stream of one call.
type fakeCallStream struct {
	*fakeStream
	owner     any
	id        int64
	settled   int
	elsewhere bool // of Settled
}

var _ CallStream = (*fakeCallStream)(nil)

// TrySend implements Stream.
func (s *fakeCallStream) TrySend(f Frame) bool {
	s.mu.Lock()
	s.id = max(s.id, f.ID)
	s.mu.Unlock()
	return s.fakeStream.TrySend(f)
}

// Call implements CallStream.
func (s *fakeCallStream) Call() (int64, any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id, s.owner
}

// Settled implements CallStream.
func (s *fakeCallStream) Settled(_, elsewhere bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled++
	s.elsewhere = elsewhere
}
