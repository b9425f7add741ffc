package streamable

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
)

// eventID identifies an event of a session: the event's stream (0: the session's own) and the
// sequence number in the stream, from 1. The form on the wire is "stream.seq".
//
// In a fleet, a client may ask another replica for the events after an event. Then the form is
// "term-stream.seq" from the second replica of the session on, and ".request" with the id of the
// stream's request in base64url follows, so that a replica without the stream can answer the
// request.
type eventID struct {
	stream, seq uint64
	term        uint64 // how many replicas had had the session; 0 and 1 are the same
	request     string // raw; "" for none
}

// maxNamed is the largest id of a request in an event ID, in bytes.
const maxNamed = 64

func (id eventID) append(b []byte) []byte {
	if id.term > 1 {
		b = append(strconv.AppendUint(b, id.term, 10), '-')
	}
	b = strconv.AppendUint(b, id.stream, 10)
	b = strconv.AppendUint(append(b, '.'), id.seq, 10)
	if id.request != "" {
		b = base64.RawURLEncoding.AppendEncode(append(b, '.'), []byte(id.request))
	}
	return b
}

// parseEventID parses an id. Only the form that append writes is accepted.
func parseEventID(s string) (id eventID, ok bool) {
	rest := s
	id.term = 1
	var err1, err2, err3, err4 error
	if term, after, found := strings.Cut(s, "-"); found && !strings.Contains(term, ".") {
		id.term, err1 = strconv.ParseUint(term, 10, 64)
		rest = after
	}
	parts := strings.SplitN(rest, ".", 3)
	if len(parts) < 2 {
		return eventID{}, false
	}
	id.stream, err2 = strconv.ParseUint(parts[0], 10, 64)
	id.seq, err3 = strconv.ParseUint(parts[1], 10, 64)
	if len(parts) == 3 {
		var request []byte
		request, err4 = base64.RawURLEncoding.DecodeString(parts[2])
		id.request = string(request)
	}
	return id, errors.Join(err1, err2, err3, err4) == nil && len(id.request) <= maxNamed && string(id.append(nil)) == s
}

// appendHead appends the beginning of a message's event, with the event's id if the stream can be
// resumed. The message (oneLine) and eventEnd follow.
func appendHead(b []byte, id eventID, resumable bool) []byte {
	if resumable {
		b = append(id.append(append(b, "id: "...)), '\n')
	}
	return append(b, "event: message\ndata: "...)
}

const eventEnd = "\n\n"

// keepAlive is a comment, which clients ignore.
const keepAlive = ": keep-alive\n\n"

// appendPrime appends an event without data. The event gives the client an id for resuming the
// stream, and the time to wait before resuming, in milliseconds (2025-11-25, basic/transports,
// "Sending Messages to the Server"). If the stream cannot be resumed, the event gives only the
// time.
func appendPrime(b []byte, id eventID, resumable bool) []byte {
	if !resumable {
		return append(b, "retry: 1000\n\n"...)
	}
	b = id.append(append(b, "id: "...))
	return append(b, "\nretry: 1000\ndata: \n\n"...)
}

// oneLine returns msg, or a copy with the line breaks between tokens replaced by spaces. The
// replacement changes no JSON value.
func oneLine(msg []byte) []byte {
	if bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0 {
		return msg
	}
	line := bytes.Clone(msg)
	for i, c := range line {
		if c == '\n' || c == '\r' {
			line[i] = ' '
		}
	}
	return line
}
