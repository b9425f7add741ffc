// Package jetstream is a [store.Store] in NATS JetStream.
//
//	jetstream.go  Open: the connection
//	options.go    Options
//	streams.go    the four streams: which are made, and whether they are still the same
//	request.go    requests to a stream: publishing with a condition, reading one message
//	server.go     servers that refuse, and leaving one that is cut off from the others
//	errors.go     what an answer, or none, says about the outcome
//	logs.go       Append, Fence, Whole, Drop
//	lasting.go    where the log of an open run is
//	read.go       Read, Follow, Logs
//	tail.go       the messages of a subject, each once, across connections and servers
//	parts.go      values that do not fit into one message
//	documents.go  Get, Put, Remove
//	watch.go      Documents, Watch
//	blobs.go      blobs
//
// # Streams and subjects
//
// With the prefix P, the stream P_logs has the subjects P.log.LOG, P_runs has P.run.LOG for the
// logs that last, P_docs has P.doc.COLLECTION.NAME, and P_blobs has P.blob.DIGEST. Each of them also has subjects for the parts of values that do
// not fit into one message. A credential that may publish to P.> and to the API of these
// streams can do everything that this package does, and nothing to another fleet.
//
// All events of a log are on one subject. An event is published on the condition that the last
// message there is the one before it (Nats-Expected-Last-Subject-Sequence), which the leader
// of the stream decides. A log is fenced by a message without an event: the condition of a
// writer that does not know of it fails. Documents are replaced on the same condition.
//
// Messages are read from the leader only (direct gets, which any replica answers, are off).
//
// # Two leaders
//
// A server that is cut off from the others believes for some seconds that it is still the leader
// of a stream. What it accepts is never committed, and what it shows was committed, but can be
// old. When the servers find each other again, it and the real leader both get messages, and
// the first answer counts. So an answer that refuses a message does not say that it will not be
// written, and that nothing is found does not say that nothing is there. What is found is
// certain: a writer is told that its event is not there only if another one is in its place.
package jetstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Store is a [store.Store] in JetStream.
type Store struct {
	opts   Options
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	logs   jetstream.Stream
	runs   jetstream.Stream // logs that last
	docs   jetstream.Stream
	blobs  jetstream.Stream
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	parts  int // bytes of a value that fit into one message
	// standalone says that the streams were not in a cluster when the Store was opened.
	standalone bool
	// replicated says that the stream of documents had several replicas then.
	replicated bool

	refused atomic.Pointer[noAnswer] // why a connection could not be made

	mu        sync.Mutex           // a leaf
	made      map[string]time.Time // when the streams were made, by their names
	reconnect map[*context.CancelCauseFunc]struct{}
	silent    time.Time // since when no stream answers; zero: the last one did
}

var _ store.Store = (*Store)(nil)

// errReconnected is the cause of the end of a wait for messages.
var errReconnected = errors.New("the connection was made again")

// Open connects, and makes the streams that are not there, as opts.Make says. It tries until ctx
// ends, except that it returns store.ErrMissing at once. The caller must Close the Store, which goes
// on connecting again for as long as it is open.
func Open(ctx context.Context, opts Options) (*Store, error) {
	opts.fill()
	if err := opts.check(); err != nil {
		return nil, err
	}
	s := &Store{opts: opts, log: opts.Log, made: map[string]time.Time{}, reconnect: map[*context.CancelCauseFunc]struct{}{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	options, err := opts.connect()
	if err != nil {
		return nil, err
	}
	options = append(options,
		nats.ReconnectHandler(func(*nats.Conn) { s.reconnected() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.noConnection(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if s.ctx.Err() == nil {
				s.log.Warn("the connection with NATS is lost", "err", err)
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.log.Warn("NATS reports an error", "err", err)
		}),
	)
	if s.nc, err = nats.Connect(opts.servers(), options...); err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", opts.servers(), err)
	}
	if err := s.prepare(ctx); err != nil {
		if last := s.refused.Load(); last != nil && !s.nc.IsConnected() {
			err = errors.Join(err, last.err) // such as a wrong password
		} else if last := s.nc.LastError(); last != nil {
			err = errors.Join(err, last) // such as a permission that is lacking
		}
		s.nc.Close()
		return nil, fmt.Errorf("NATS at %s: %w", opts.servers(), err)
	}
	return s, nil
}

// prepare waits for the connection and for the streams.
func (s *Store) prepare(ctx context.Context) (err error) {
	if s.js, err = jetstream.New(s.nc, jetstream.WithDefaultTimeout(s.opts.Attempt)); err != nil {
		return err
	}
	if err := s.openStreams(ctx); err != nil {
		return err
	}
	s.replicated = s.docs.CachedInfo().Config.Replicas > 1
	s.standalone = true
	for _, st := range s.streams() {
		if c := st.CachedInfo().Cluster; c != nil && c.Name != "" {
			s.standalone = false
		}
	}
	if s.parts = min(int(s.nc.MaxPayload()), maxMessage) - headerRoom; s.parts < 1<<10 {
		return fmt.Errorf("its max_payload of %d bytes is too small", s.nc.MaxPayload())
	}
	return nil
}

// Sizes of messages, in bytes. A server takes messages of 1 MiB by default, including headers.
const (
	maxMessage = 1 << 20
	headerRoom = 4 << 10
)

// configError says that a stream is not what this package needs.
type configError string

func (e configError) Error() string { return string(e) }

// checkStream returns why a stream that somebody else has made cannot be used.
func checkStream(is, want jetstream.StreamConfig) error {
	switch {
	case is.AllowDirect:
		return configError("allows direct gets, which can be out of date (set allow_direct = false)")
	case is.MaxMsgsPerSubject != want.MaxMsgsPerSubject:
		return configError(fmt.Sprintf("keeps %d messages of a subject (set max_msgs_per_subject = %d)", is.MaxMsgsPerSubject, want.MaxMsgsPerSubject))
	case is.Discard != want.Discard:
		return configError(fmt.Sprintf("discards %s messages (set discard = %s)", is.Discard, want.Discard))
	case is.NoAck, is.DenyPurge, want.AllowMsgTTL && !is.AllowMsgTTL:
		return configError("lacks a setting (set no_ack = false, deny_purge = false, allow_msg_ttl = true)")
	case want.Duplicates > 0 && is.Duplicates < minDuplicates:
		return configError(fmt.Sprintf("knows ids of messages for %v only (set duplicate_window = %v)", is.Duplicates, want.Duplicates))
	case is.Replicas < want.Replicas:
		return configError(fmt.Sprintf("has %d replicas, not %d (change it with the nats command)", is.Replicas, want.Replicas))
	}
	return nil
}

// Close ends everything that goes on. It does not wait for answers of servers.
func (s *Store) Close() error {
	s.cancel(store.ErrClosed)
	s.nc.Close()
	return nil
}

// reconnected makes everybody who waits for messages look for what was missed.
func (s *Store) reconnected() {
	s.log.Info("connected with NATS again", "server", s.nc.ConnectedUrlRedacted())
	if s.opts.ignoreReconnects {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for cancel := range s.reconnect {
		(*cancel)(errReconnected)
	}
}

// untilReconnected returns a context that also ends, with errReconnected, when the connection
// is made again, and with context.DeadlineExceeded after a time.
func (s *Store) untilReconnected(ctx context.Context, after time.Duration) (context.Context, func()) {
	ctx, stop := context.WithTimeout(ctx, after)
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	s.reconnect[&cancel] = struct{}{}
	s.mu.Unlock()
	return ctx, func() {
		s.mu.Lock()
		delete(s.reconnect, &cancel)
		s.mu.Unlock()
		cancel(nil)
		stop()
	}
}

// open returns ctx, which ends with the Store, too.
func (s *Store) open(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(store.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// tlsConfig returns the configuration for a connection with TLS.
func (o *Options) tlsConfig() *tls.Config {
	if o.TLS == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o.TLS.Clone()
}
