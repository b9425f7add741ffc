package jetstream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// The name of a document in subjects is in base64, since subjects have no spaces, dots and
// wildcards in their tokens.
func (s *Store) docSubject(kind string, key store.Key) string {
	return s.opts.subject(kind, key.Collection, base64.RawURLEncoding.EncodeToString([]byte(key.Name)))
}

// keyOf returns the key of a document by the subject.
func (s *Store) keyOf(subject string) (store.Key, bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, s.opts.subject("doc", "")), ".")
	if len(tokens) != 2 {
		return store.Key{}, false
	}
	name, err := base64.RawURLEncoding.Strict().DecodeString(tokens[1])
	key := store.Key{Collection: tokens[0], Name: string(name)}
	return key, err == nil && key.Check() == nil
}

// form is what the last message of a document says.
type form struct {
	seq     uint64 // 0: there never was one
	removed bool
	write   string // id of the Put or Remove
	header  nats.Header
	body    []byte
}

// there reports whether there is a document.
func (f *form) there() bool { return f.seq > 0 && !f.removed }

// version returns the version. It says whether there are parts, which must be removed with
// the form.
func (f *form) version() store.Version {
	if !f.there() {
		return ""
	}
	return versionOf(f.seq, f.header.Get(headerParts) != "")
}

func versionOf(seq uint64, parts bool) store.Version {
	r := strconv.FormatUint(seq, 10)
	if parts {
		r += inParts
	}
	return store.Version(r)
}

// inParts ends the versions of documents with parts.
const inParts = "p"

func (s *Store) form(ctx context.Context, key store.Key) (form, error) {
	m, err := s.last(ctx, s.docs, s.docSubject("doc", key))
	if err != nil || m == nil {
		return form{}, err
	}
	return form{m.Sequence, m.Header.Get(headerRemoved) != "", m.Header.Get(headerID), m.Header, m.Data}, nil
}

// Get implements [store.Store].
func (s *Store) Get(ctx context.Context, key store.Key) (store.Document, error) {
	if err := key.Check(); err != nil {
		return store.Document{}, err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "document " + key.String()
	for wait := newBackoff(); ; {
		f, err := s.form(ctx, key)
		if err != nil {
			return store.Document{}, failed(ctx, what, false, err)
		}
		if !f.there() {
			return store.Document{}, fmt.Errorf("%s: %w", what, store.ErrNotFound)
		}
		data, err := s.join(ctx, what, s.docs, f.header, f.body)
		switch {
		case err == nil:
			return store.Document{Key: key, Version: f.version(), Data: data}, nil
		case isCorrupt(err):
			return store.Document{}, err
		case !errors.Is(err, errPartsGone):
			return store.Document{}, failed(ctx, what, false, err)
		}
		// It was replaced while it was read, or it is damaged.
		if now, err := s.form(ctx, key); err == nil && now.seq == f.seq {
			return store.Document{}, &store.CorruptError{What: what, Reason: errPartsGone.Error()}
		}
		if !wait.sleep(ctx) {
			return store.Document{}, failed(ctx, what, false, errPartsGone)
		}
	}
}

// Put implements [store.Store].
func (s *Store) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if err := errors.Join(key.Check(), store.CheckDocument(data)); err != nil {
		return "", err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	what := "document " + key.String()
	expected, ok := sequenceOf(old)
	if !ok {
		return "", &store.ConflictError{What: what} // a version of another store
	}
	for {
		if old == "" && (len(data) > s.parts || !s.single()) {
			// Parts that are older than the message that has removed a document are removed.
			// And in a cluster it would not be certain, after a refusal, that the document that
			// was removed is not ours.
			f, err := s.form(ctx, key)
			if err != nil {
				return "", failed(ctx, what, false, err)
			}
			if f.there() {
				return "", &store.ConflictError{What: what}
			}
			expected = f.seq
		}
		body, parts, err := s.split(ctx, s.docSubject("docpart", key), data)
		if err != nil {
			return "", failedParts(ctx, what, err)
		}
		msg := newMessage(s.docSubject("doc", key), body)
		if parts != "" {
			msg.Header.Set(headerParts, parts)
		}
		seq, err := s.replace(ctx, key, old, expected, msg)
		if errors.Is(err, errRemovedAgain) {
			continue
		}
		if err != nil {
			return "", err
		}
		if parts != "" || strings.HasSuffix(string(old), inParts) {
			s.clear(ctx, key, old, seq, msg)
		}
		return versionOf(seq, parts != ""), nil
	}
}

// errRemovedAgain says that a document that should not be there is not there, but was in
// between.
var errRemovedAgain = errors.New("the document was written and removed by somebody else")

// Remove implements [store.Store].
func (s *Store) Remove(ctx context.Context, key store.Key, old store.Version) error {
	if err := key.Check(); err != nil {
		return err
	}
	ctx, cancel := s.open(ctx)
	defer cancel()
	expected, ok := sequenceOf(old)
	if old == "" || !ok {
		return &store.ConflictError{What: "document " + key.String()}
	}
	msg := newMessage(s.docSubject("doc", key), nil, headerRemoved, "1", headerTTL, removedFor.String())
	seq, err := s.replace(ctx, key, old, expected, msg)
	if err == nil && strings.HasSuffix(string(old), inParts) {
		s.clear(ctx, key, old, seq, msg)
	}
	return err
}

// replace publishes the message of a document on the condition that it has a version, and the
// last message a sequence number. If that of a document that is not there is another one, it
// goes on with that; with parts, the error is errRemovedAgain.
func (s *Store) replace(ctx context.Context, key store.Key, old store.Version, expected uint64, msg *nats.Msg) (uint64, error) {
	what := "document " + key.String()
	write := store.NewID().String()
	msg.Header.Set(headerID, write)
	msg.Header.Set(headerDuplicate, write)
	began := time.Now()
	var d doubt
	for wait := newBackoff(); ; {
		msg.Header.Set(headerAfter, strconv.FormatUint(expected, 10))
		seq, out, last := s.publishOnce(ctx, msg, expected, &d)
		if out == done {
			return seq, nil
		}
		maybe := d.any()
		if out == refused || out == notSent {
			return 0, refusal(ctx, what, maybe, last)
		}
		if out.answered() {
			now, err := s.form(ctx, key)
			switch {
			case err != nil:
				last = err
			case now.write == write && now.seq > 0:
				return now.seq, nil
			case old == "" && !now.there() && (now.seq > expected || now.seq < expected && s.single()) && !maybe:
				if partsOf(msg.Header) != "" {
					return 0, errRemovedAgain
				}
				expected = now.seq // it was there once, or nobody remembers any more
				continue
			case now.seq < expected && !s.single() && time.Since(began) < s.opts.silence():
				// It is from before, or the document was removed so long ago that nobody remembers.
			case now.seq > expected && now.replaced(expected):
				return 0, conflict(false, what, store.Position{})
			case now.seq > expected && out != unmet && s.dispels(&d):
				// The next attempt finds out whether this one was written.
			case now.seq != expected:
				return 0, conflict(maybe, what, store.Position{})
			case out == unmet && !maybe && !s.single():
				return 0, conflict(false, what, store.Position{}) // what was read is from before
			case out == full || out == notStored:
				return 0, fullError(what, maybe, last)
			}
		}
		if !wait.sleep(ctx) {
			return 0, failed(ctx, what, d.any(), last)
		}
	}
}

// doubt is what is not known of the attempts to write a form of a document.
type doubt struct {
	unanswered bool      // the outcome of one is unknown
	refused    time.Time // when the first began that one server of a cluster has refused
}

func (d *doubt) any() bool { return d.unanswered || !d.refused.IsZero() }

// forgets is how long a server that has forgotten the ids of messages cannot be the leader yet: it
// has started again, or got a state without the messages that were replaced, and it must be elected.
const forgets = time.Second

// dispels reports whether a server that has a later form, and does not know the id of the message,
// shows that no attempt has written it, nor will. A stream with one replica looks at the condition
// before it looks at ids, so that it shows nothing about attempts before. About this one it does:
// there is no other server that could have got it. While such a stream is moved, it has several.
func (s *Store) dispels(d *doubt) bool {
	return !d.unanswered && (d.refused.IsZero() || s.replicated && time.Since(d.refused) < forgets)
}

// publishOnce is publish for a message with headerDuplicate, which a stream takes only once.
//
// A server that says that there is a later form does not have this message: otherwise it would
// know its id, and say that it has it. And nobody can write it any more, since the condition does
// not hold.
func (s *Store) publishOnce(ctx context.Context, msg *nats.Msg, expected uint64, d *doubt) (uint64, outcome, error) {
	began := time.Now()
	seq, out, err := s.publish(ctx, msg, int64(expected))
	switch {
	case unmetAt(err) > expected && s.dispels(d):
		*d = doubt{}
	case out == unknown || out == notStored:
		d.unanswered = true
	case s.inDoubt(out) && d.refused.IsZero():
		d.refused = began
	}
	return seq, out, err
}

// replaced reports whether a form has replaced the one with a sequence number itself, so that
// no other form was between them.
func (f *form) replaced(seq uint64) bool {
	return f.header.Get(headerAfter) == strconv.FormatUint(seq, 10)
}

// sequenceOf returns the sequence number that a document with a version has. It is 0 for one
// that is not there, unless it was removed.
func sequenceOf(r store.Version) (seq uint64, ok bool) {
	if r == "" {
		return 0, true
	}
	seq, err := strconv.ParseUint(strings.TrimSuffix(string(r), inParts), 10, 64)
	return seq, err == nil
}

// clear removes the parts of forms that were replaced by the message with a sequence number.
// Whatever lies before the parts of the new form belongs to an older one, or to an attempt
// that cannot succeed any more, because its condition does not hold. If clear fails, the parts
// are removed with the next form.
func (s *Store) clear(ctx context.Context, key store.Key, old store.Version, seq uint64, msg *nats.Msg) {
	before := seq
	if subject := partsOf(msg.Header); subject != "" {
		first, err := s.next(ctx, s.docs, subject+".0", 1)
		if err != nil || first == nil {
			return
		}
		before = first.Sequence
	}
	if err := s.purge(ctx, "document "+key.String(), s.docs, before, s.docSubject("docpart", key)+".*.*"); err != nil {
		s.log.Debug("old parts of a document are still there", "document", key.String(), "version", string(old), "err", err)
	}
}

// Collections returns the names of the collections that have, or had until recently, documents.
func (s *Store) Collections(ctx context.Context) (names []string, err error) {
	ctx, cancel := s.open(ctx)
	defer cancel()
	err = s.retry(ctx, func(ctx context.Context) error {
		info, err := s.docs.Info(ctx, jetstream.WithSubjectFilter(s.opts.subject("doc", "*", "*")))
		if err != nil {
			return err
		}
		found := map[string]bool{}
		for subject := range info.State.Subjects {
			if key, ok := s.keyOf(subject); ok {
				found[key.Collection] = true
			}
		}
		names = slices.Sorted(maps.Keys(found))
		return nil
	})
	if err != nil {
		return nil, failed(ctx, "collections", false, err)
	}
	return names, nil
}
