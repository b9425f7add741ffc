package jetstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// message is a message of a stream, or the news that there are no more at the moment.
type message struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	idle    bool // nothing else is set: everything that is there has been yielded
}

// tail yields the messages on a subject from a sequence number on, in their order and each
// once, until ctx ends. While there is no connection, it waits.
//
// A consumer delivers them. It lives on one server, and it forgets what was on its way to us
// when a connection breaks. So each of them is numbered, a new consumer is made when one is
// missing and whenever we are connected again, and when nothing comes, the stream is asked
// whether there is more.
func (s *Store) tail(ctx context.Context, st jetstream.Stream, subject string, from uint64) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		made := s.whenMade(st)
		for wait := newBackoff(); ctx.Err() == nil; {
			next, err := s.fetch(ctx, st, subject, from, yield)
			if err == nil {
				next, err = s.consume(ctx, st, subject, next, made, yield)
			}
			if errors.Is(err, errStopped) {
				return
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil && !temporary(err) && !errors.Is(err, errAgain) {
				yield(message{}, failed(ctx, subject, false, err))
				return
			}
			if next > from || errors.Is(err, errAgain) {
				wait = newBackoff()
			}
			from = next
			if !errors.Is(err, errAgain) {
				s.log.Debug("reading from NATS begins again", "subject", subject, "err", err)
			}
			if !wait.sleep(ctx) {
				return
			}
			// Sequence numbers begin anew in a stream that was lost and made again.
			if again, err := s.madeAgain(ctx, st, made); err == nil && again {
				yield(message{}, fmt.Errorf("%s: %w: its stream was lost and made again", subject, store.ErrGone))
				return
			}
		}
	}
}

var (
	errStopped = errors.New("the caller wants no more")
	errAgain   = errors.New("messages were missed")
)

// fetched is how many messages are asked for one by one. In a cluster, it takes some tenths of
// a second until a consumer delivers the first one, so that it is only worth while for more.
const fetched = 1000

// fetch yields messages that are asked for one by one, until there are no more, or too many. It
// returns the sequence number to go on with.
func (s *Store) fetch(ctx context.Context, st jetstream.Stream, subject string, from uint64, yield func(message, error) bool) (uint64, error) {
	for range fetched {
		m, err := s.next(ctx, st, subject, from)
		switch {
		case err != nil:
			return from, err
		case m == nil && !yield(message{idle: true}, nil):
			return from, errStopped
		case m == nil:
			return from, nil
		}
		from = m.Sequence + 1
		if !yield(message{subject: m.Subject, header: m.Header, data: m.Data, seq: m.Sequence}, nil) {
			return from, errStopped
		}
	}
	return from, nil
}

// consume yields what one consumer delivers. It returns the sequence number to go on with, and
// why the consumer does not do any more.
func (s *Store) consume(ctx context.Context, st jetstream.Stream, subject string, from uint64, made time.Time, yield func(message, error) bool) (uint64, error) {
	make, cancel := context.WithTimeout(ctx, s.opts.Attempt)
	consumer, err := st.CreateConsumer(make, jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	cancel()
	if err != nil {
		return from, err
	}
	name := consumer.CachedInfo().Name
	defer s.remove(ctx, st, name)
	heartbeat := min(s.opts.Idle, 5*time.Second)
	messages, err := consumer.Messages(jetstream.PullMaxMessages(256), jetstream.PullExpiry(max(4*heartbeat, time.Second)),
		jetstream.PullHeartbeat(max(heartbeat, 500*time.Millisecond)), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return from, err
	}
	defer messages.Stop()
	for count := uint64(1); ; {
		within, cancel := s.untilReconnected(ctx, s.opts.Idle)
		m, err := messages.Next(jetstream.NextContext(within))
		cause := context.Cause(within)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return from, err
		case errors.Is(cause, errReconnected):
			return from, errAgain
		case cause != nil: // nothing has come
			missed, err := s.next(ctx, st, subject, from)
			if err != nil || missed != nil {
				return from, errors.Join(errAgain, err)
			}
			// The consumer may have gone with its stream, and no message has said so.
			if again, err := s.madeAgain(ctx, st, made); err != nil || again {
				return from, errors.Join(errAgain, err)
			}
			if !yield(message{idle: true}, nil) {
				return from, errStopped
			}
			continue
		default:
			return from, err
		}
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != count {
			return from, errAgain
		}
		count++
		from = meta.Sequence.Stream + 1
		if !yield(message{subject: m.Subject(), header: m.Headers(), data: m.Data(), seq: meta.Sequence.Stream}, nil) {
			return from, errStopped
		}
		if meta.NumPending == 0 && !yield(message{idle: true}, nil) {
			return from, errStopped
		}
	}
}

// remove removes a consumer, so that the server need not keep it for a minute. Nobody waits for
// the answer.
func (s *Store) remove(ctx context.Context, st jetstream.Stream, consumer string) {
	if s.ctx.Err() != nil {
		return
	}
	_ = s.nc.Publish("$JS.API.CONSUMER.DELETE."+st.CachedInfo().Config.Name+"."+consumer, nil) // it goes away by itself
}

// closedOr returns the error of a call whose context may have ended because the Store was
// closed; nil otherwise.
func (s *Store) closedOr(what string) error {
	if s.ctx.Err() == nil {
		return nil
	}
	return failed(s.ctx, what, false, store.ErrClosed)
}
