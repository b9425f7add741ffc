package front

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// visit is a session over HTTP: it holds the streams to the client.
type visit struct {
	http    *HTTP
	id      string
	token   digest       // of whoever made it
	address netip.Prefix // of the same
	session *Session
	main    *stream
	gone    chan struct{} // closed when nothing is left of the session

	busy   int            // HTTP requests being served; guarded by HTTP.mu
	last   time.Time      // when the last of them ended; guarded by HTTP.mu
	used   atomic.Bool    // for more than the handshake
	inside sync.WaitGroup // those of them that the end of the session waits for

	mu       sync.Mutex
	streams  map[uint64]*stream // of POSTs: open ones, and those in finished
	lastNo   uint64
	finished []finished // streams kept for replay, oldest first
}

type finished struct {
	stream *stream
	at     time.Time
}

// maxFinished bounds the finished streams that are kept in one session.
const maxFinished = 100

func newVisit(h *HTTP, id string, token digest, address netip.Prefix) *visit {
	v := &visit{
		http: h, id: id, token: token, address: address, last: time.Now(),
		gone: make(chan struct{}), streams: map[uint64]*stream{},
	}
	v.main = newStream(v, 0)
	opts := h.opts.Session
	opts.MaySave = func() bool { return h.guard.Load().saves(token) }
	v.session = NewSession(h.ctx, v.main, opts)
	return v
}

// log names the session without telling its id, which is a key to it.
func (v *visit) log() *slog.Logger { return v.http.log().With("session", v.id[:6]) }

// open makes the stream for the answer to a POST.
func (v *visit) open() *stream {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.lastNo++
	s := newStream(v, v.lastNo)
	v.streams[s.no] = s
	return s
}

// find is the stream with a number.
func (v *visit) find(no uint64) (*stream, bool) {
	if no == 0 {
		return v.main, true
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.streams[no]
	return s, ok
}

// drop forgets a stream that nobody can resume.
func (v *visit) drop(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.streams, s.no)
	s.release()
}

// keep retains a stream that is over, since the client may have lost the end of
// it.
func (v *visit) keep(s *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.streams[s.no] != s {
		return
	}
	v.finished = slices.DeleteFunc(v.finished, func(f finished) bool { return f.stream == s })
	v.finished = append(v.finished, finished{s, time.Now()})
	total := 0
	for i := len(v.finished) - 1; i >= 0; i-- {
		n, unsent := v.finished[i].stream.size()
		total += n
		newest := unsent && i == len(v.finished)-1 // whatever its size: it may be all the client waits for
		if !newest && (total > v.http.opts.Replay || len(v.finished)-i > maxFinished) {
			v.forgetFinished(i + 1)
			return
		}
	}
}

// expire forgets streams that were over before the time.
func (v *visit) expire(before time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n := 0
	for n < len(v.finished) && v.finished[n].at.Before(before) {
		n++
	}
	v.forgetFinished(n)
}

// forgetFinished forgets the n oldest finished streams.
func (v *visit) forgetFinished(n int) {
	for _, f := range v.finished[:n] {
		delete(v.streams, f.stream.no)
		f.stream.release()
	}
	v.finished = slices.Delete(v.finished, 0, n)
}

// request takes a request to the client on the session's own stream, or if the
// client has not opened that, on the newest other one, or waits a little.
func (v *visit) request(ctx context.Context, msg []byte) error {
	timer := time.NewTimer(v.http.opts.ListenWindow)
	defer timer.Stop()
	for {
		listening, err := v.main.requestNow(msg)
		if listening == nil {
			return err
		}
		if s := v.newest(); s != nil {
			if err := s.Write(msg); !errors.Is(err, errFinished) {
				return err
			}
		}
		select {
		case <-listening:
		case <-timer.C:
			return ErrNotListening
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-v.session.Done():
			return errFinished
		}
	}
}

// newest is the newest stream that would reach the client.
func (v *visit) newest() *stream {
	var newest *stream
	for _, s := range v.all() {
		if s.no != 0 && (newest == nil || s.no > newest.no) && s.live() {
			newest = s
		}
	}
	return newest
}

// all are the streams, the session's own included.
func (v *visit) all() []*stream {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := []*stream{v.main}
	for _, s := range v.streams {
		all = append(all, s)
	}
	return all
}

// overflow ends the session of a client that does not read.
func (v *visit) overflow() {
	if v.session.ctx.Err() == nil {
		v.log().Warn("session ended: the client does not read its messages", "buffer", v.http.opts.Buffer)
	}
	v.session.End(errOverflow)
	for _, s := range v.all() {
		s.abort() // there is no point in waiting for it
	}
}

// watch waits for the end of the session and releases what it owns.
func (v *visit) watch() {
	<-v.session.Done()
	v.http.forget(v)
	err := v.session.Close() // requests in flight give their last answers
	for _, s := range v.all() {
		_ = s.Close(nil) // most are closed already
	}
	if !waitFor(&v.inside, stallTime) {
		for _, s := range v.all() {
			s.abort()
		}
		if !waitFor(&v.inside, stallTime) {
			err = errors.Join(err, errors.New("some of its HTTP requests are still being served"))
		}
	}
	if err != nil {
		v.log().Warn("work of a session was left behind", "err", err)
	}
	for _, s := range v.all() {
		s.release()
	}
	v.log().Debug("session ended", "cause", context.Cause(v.session.ctx))
	v.http.release(v)
	close(v.gone)
}
