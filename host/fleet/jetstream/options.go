package jetstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// Streams returns the names of the streams of a fleet.
func Streams(prefix string) (names []string) {
	o := Options{Prefix: prefix}
	o.fill()
	for _, c := range o.streams() {
		names = append(names, c.Name)
	}
	return names
}

// streams returns the streams, in the order in which they are made: versions before made the first
// three.
func (o *Options) streams() [4]jetstream.StreamConfig {
	return [...]jetstream.StreamConfig{o.logs(), o.docs(), o.blobs(), o.runs()}
}

// Options say where the servers are, and how the streams are made.
type Options struct {
	// URLs are the addresses of servers, such as "nats://10.0.0.1:4222"; with tls://, or a
	// TLS configuration, only an encrypted connection is used.
	URLs []string
	// Credentials is the path of a file with a JWT and a seed, and NKey that of one with a
	// seed; "" for none.
	Credentials, NKey string
	// User and Password, or Token; "" for none.
	User, Password, Token string
	TLS                   *tls.Config // nil: what the addresses say
	// Prefix begins all subjects and the names of the streams: 1 to 32 of A-Z, a-z, 0-9, "_"
	// and "-". "" is store.DefaultPrefix.
	Prefix string
	// Replicas is on how many servers each stream is when it is made: 1, 3 or 5; 0 is 1.
	Replicas int
	// MaxAge is how long the events of logs are kept at least; 0 is for ever. MaxBytes bounds the
	// stream of logs, whose oldest events are then removed; 0 is no bound. Neither is for logs that
	// last, see store.IsLasting.
	MaxAge   time.Duration
	MaxBytes int64
	// Make says which streams Open makes that are not there.
	Make Make
	// Had are the streams that a process with the same folder has used before: with MakeNew, they
	// are not made again.
	Had []string
	// Made, if set, is called with the name of each stream that Open has made.
	Made func(stream string)
	// Attempt is how long to wait for one answer of a server; 0 is DefaultAttempt.
	Attempt time.Duration
	// Idle is how often Follow and Watch ask whether they have missed something; 0 is
	// DefaultIdle.
	Idle time.Duration
	// Name is that of the connection, for those who operate the servers.
	Name string
	Log  *slog.Logger // nil is slog.Default()

	reconnectWait    time.Duration // of tests
	ignoreReconnects bool          // of tests: nobody is told that messages may have been missed
}

// Make says which streams are made when a Store is opened. If others are not there, the error is
// store.ErrMissing.
type Make int

const (
	MakeNone Make = iota // for who only looks
	// MakeNew makes streams that, as far as is known, have never been there: for a replica.
	MakeNew
	MakeAll // for people who know that what they had is lost
)

// The defaults of Options.
const (
	DefaultAttempt = 5 * time.Second
	DefaultIdle    = 5 * time.Second
)

func (o *Options) fill() {
	if o.Prefix == "" {
		o.Prefix = store.DefaultPrefix
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	if o.Attempt <= 0 {
		o.Attempt = DefaultAttempt
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.Name == "" {
		o.Name = "mcp-metatool"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.reconnectWait <= 0 {
		o.reconnectWait = 250 * time.Millisecond
	}
}

func (o *Options) check() error {
	if len(o.URLs) == 0 {
		return errors.New("no NATS server is named")
	}
	for i, u := range o.URLs {
		if err := store.CheckServer(u); err != nil {
			return fmt.Errorf("address %d of NATS %w", i+1, err)
		}
	}
	if err := store.CheckPrefix(o.Prefix); err != nil {
		return fmt.Errorf("prefix %.40q %w", o.Prefix, err)
	}
	if err := store.CheckReplicas(o.Replicas); err != nil {
		return fmt.Errorf("replicas %d %w", o.Replicas, err)
	}
	return nil
}

// servers returns all addresses, as the library and people read them.
func (o *Options) servers() string { return strings.Join(o.URLs, ",") }

// connect returns the options of the connection.
func (o *Options) connect() ([]nats.Option, error) {
	options := []nats.Option{
		nats.Name(o.Name),
		nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(o.reconnectWait), nats.ReconnectJitter(o.reconnectWait/2, o.reconnectWait),
		nats.Timeout(o.Attempt),
		// What is not sent is not kept either: it would be sent when nobody waits for it.
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(), // whoever operates the servers may put it right
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
		nats.CustomInboxPrefix("_INBOX_" + o.Prefix),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(o.NKey)
		if err != nil {
			return nil, fmt.Errorf("NKey file %s: %w", o.NKey, err)
		}
		options = append(options, key)
	}
	if o.User != "" {
		options = append(options, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		options = append(options, nats.Token(o.Token))
	}
	if o.TLS != nil {
		options = append(options, nats.Secure(o.tlsConfig()))
	}
	return options, nil
}

// minDuplicates is how long the stream of documents must know the ids of messages at least: several
// times as long as they count, see dispels.
const minDuplicates = 10 * time.Second

// removedFor is how long it is known that a document was removed.
const removedFor = 24 * time.Hour

func (o *Options) logs() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Prefix + "_logs", Description: "mcp-metatool: records of runs",
		Subjects: []string{o.subject("log", "*"), o.subject("logpart", "*", "*", "*")},
		Replicas: o.Replicas, Discard: jetstream.DiscardOld, MaxAge: o.MaxAge, MaxBytes: unlimited(o.MaxBytes),
		MaxMsgsPerSubject: -1,
	}
}

// runs is the stream of logs that last. It has no bound of its own, so that what open runs have to
// write is not refused for the sake of a bound: package durable admits no more than fits.
func (o *Options) runs() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Prefix + "_runs", Description: "mcp-metatool: open runs",
		Subjects: []string{o.subject("run", "*"), o.subject("runpart", "*", "*", "*")},
		Replicas: o.Replicas, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: -1,
	}
}

func (o *Options) docs() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Prefix + "_docs", Description: "mcp-metatool: documents",
		Subjects: []string{o.subject("doc", "*", "*"), o.subject("docpart", "*", "*", "*", "*")},
		Replicas: o.Replicas, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, AllowMsgTTL: true,
		Duplicates: 2 * time.Minute,
	}
}

func (o *Options) blobs() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: o.Prefix + "_blobs", Description: "mcp-metatool: blobs",
		Subjects: []string{o.subject("blob", "*"), o.subject("blobpart", "*", "*")},
		Replicas: o.Replicas, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
	}
}

func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// subject returns a subject below the prefix. Tokens have no dots, spaces or wildcards.
func (o *Options) subject(tokens ...string) string {
	return o.Prefix + "." + strings.Join(tokens, ".")
}
