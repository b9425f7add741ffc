package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Headers of messages.
const (
	headerExpected = "Nats-Expected-Last-Subject-Sequence"
	headerTTL      = "Nats-TTL"
	headerID       = "Mt-Id"      // of an event; of a Put
	headerNumber   = "Mt-Number"  // of an event; with headerMarker, of the one before it
	headerFence    = "Mt-Fence"   // of the writer
	headerMarker   = "Mt-Marker"  // the message fences a log; where the event before it is
	headerRemoved  = "Mt-Removed" // the document was removed
	headerParts    = "Mt-Parts"   // where the value lies, see parts.go
	headerAfter    = "Mt-After"   // sequence number of the message that this form of a document replaced
	// headerDuplicate makes a stream write a message once, however often it comes (for two
	// minutes by default).
	headerDuplicate = "Nats-Msg-Id"
)

// ack is the answer of a stream to a message.
type ack struct {
	Error    *jetstream.APIError `json:"error"`
	Sequence uint64              `json:"seq"`
}

// publish sends a message to a stream once. expected is the sequence number that the last
// message on the subject must have; -1 is no condition. err is set unless the outcome is done.
func (s *Store) publish(ctx context.Context, msg *nats.Msg, expected int64) (seq uint64, out outcome, err error) {
	if expected >= 0 {
		msg.Header.Set(headerExpected, strconv.FormatInt(expected, 10))
	}
	switch {
	case s.ctx.Err() != nil:
		return 0, notSent, store.ErrClosed
	case ctx.Err() != nil:
		return 0, notDone, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Attempt)
	defer cancel()
	defer func() { s.heard(out != notDone && out != unknown) }()
	reply, err := s.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return 0, outcomeOfError(err), err
	}
	var a ack
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return 0, unknown, fmt.Errorf("an answer of NATS cannot be read: %w", err)
	}
	if a.Error != nil {
		return 0, outcomeOf(a.Error), a.Error
	}
	if a.Sequence == 0 {
		return 0, unknown, errors.New("an answer of NATS lacks the sequence number")
	}
	return a.Sequence, done, nil
}

// publishAlways sends a message without a condition until it is there. After an error, maybe
// says that it can be there, too.
func (s *Store) publishAlways(ctx context.Context, msg *nats.Msg) (maybe bool, err error) {
	var failure error
	err = s.retry(ctx, func(ctx context.Context) error {
		_, out, err := s.publish(ctx, msg, -1)
		maybe = maybe || s.inDoubt(out)
		switch out {
		case full, notStored:
			failure = fmt.Errorf("%w: %w", store.ErrFull, err)
			return nil
		case refused, notSent:
			failure = err
			return nil
		}
		return err
	})
	return maybe, errors.Join(failure, err)
}

// newMessage returns a message with headers, as pairs of a name and a value.
func newMessage(subject string, data []byte, headers ...string) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	return m
}

// last returns the last message of a subject, which can have wildcards; nil if there is none.
func (s *Store) last(ctx context.Context, st jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	return s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return st.GetLastMsgForSubject(ctx, subject)
	})
}

// next returns the first message of a subject with that sequence number or a larger one; nil if
// there is none.
func (s *Store) next(ctx context.Context, st jetstream.Stream, subject string, seq uint64) (*jetstream.RawStreamMsg, error) {
	return s.get(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) {
		return st.GetMsg(ctx, max(seq, 1), jetstream.WithGetMsgSubject(subject))
	})
}

func (s *Store) get(ctx context.Context, ask func(context.Context) (*jetstream.RawStreamMsg, error)) (m *jetstream.RawStreamMsg, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		var err error
		m, err = ask(ctx)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			m, err = nil, nil
		}
		return err
	})
	return m, err
}

// retry calls f until it returns nil, or an error that is not temporary, or ctx ends.
func (s *Store) retry(ctx context.Context, f func(context.Context) error) error {
	for wait := newBackoff(); ; {
		attempt, cancel := context.WithTimeout(ctx, s.opts.Attempt)
		err := f(attempt)
		cancel()
		over := err == nil || !temporary(err)
		s.heard(over)
		if over && (err == nil || ctx.Err() == nil) {
			return err
		}
		if !wait.sleep(ctx) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// backoff is the time between two attempts.
type backoff struct{ next time.Duration }

func newBackoff() *backoff { return &backoff{5 * time.Millisecond} }

// sleep waits, and returns false if ctx has ended.
func (b *backoff) sleep(ctx context.Context) bool {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	b.next = min(2*b.next, 500*time.Millisecond)
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
