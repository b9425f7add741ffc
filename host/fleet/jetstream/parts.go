package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// A value that does not fit into one message is split. Its parts are written first, on
// subjects that no other value has, and then the message, which says where they are:
// "SUBJECT COUNT SIZE DIGEST". So parts without a message are possible, but not the other way
// round.

// split writes the parts of a value, if it needs any, below a subject. It returns what the
// message has instead.
func (s *Store) split(ctx context.Context, subject string, data []byte) (body []byte, parts string, err error) {
	if len(data) <= s.parts {
		return data, "", nil
	}
	subject += "." + store.NewID().String()
	n := 0
	for rest := data; len(rest) > 0; n++ {
		part := rest[:min(len(rest), s.parts)]
		rest = rest[len(part):]
		if _, err := s.publishAlways(ctx, newMessage(subject+"."+strconv.Itoa(n), part)); err != nil {
			return nil, "", err
		}
	}
	return nil, fmt.Sprintf("%s %d %d %s", subject, n, len(data), store.DigestOf(data)), nil
}

// failedParts returns the error of a call that could not write the parts of its value. What
// they belong to was not written.
func failedParts(ctx context.Context, what string, err error) error {
	if errors.Is(err, store.ErrFull) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return failed(ctx, what, false, err)
}

// errPartsGone says that parts of a value are not there any more.
var errPartsGone = errors.New("parts of it are not there any more")

// join returns the value of a message: its body, or that of its parts. The error is
// errPartsGone, a *store.CorruptError, or a failure to read.
func (s *Store) join(ctx context.Context, what string, st jetstream.Stream, h nats.Header, body []byte) ([]byte, error) {
	text := h.Get(headerParts)
	if text == "" {
		return body, nil
	}
	var subject, digest string
	var count, size int
	if _, err := fmt.Sscanf(text, "%s %d %d %s", &subject, &count, &size, &digest); err != nil ||
		size < 0 || size > store.MaxEvent+store.Slack || count > size || !strings.HasPrefix(subject, s.opts.Prefix+".") {
		return nil, &store.CorruptError{What: what, Reason: "its message has a wrong header " + headerParts}
	}
	data := make([]byte, 0, min(size, 16<<20)) // whoever operates NATS could say anything
	for n := range count {
		m, err := s.last(ctx, st, subject+"."+strconv.Itoa(n))
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, errPartsGone
		}
		if len(data)+len(m.Data) > size {
			return nil, &store.CorruptError{What: what, Reason: "its parts are larger than it is"}
		}
		data = append(data, m.Data...)
	}
	if string(store.DigestOf(data)) != digest {
		return nil, &store.CorruptError{What: what, Reason: "its parts are not what was written"}
	}
	return data, nil
}

// partsOf returns the subjects of the parts that a message names; "" for none.
func partsOf(h nats.Header) string {
	subject, _, _ := strings.Cut(h.Get(headerParts), " ")
	return subject
}
