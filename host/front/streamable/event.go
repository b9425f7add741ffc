package streamable

import (
	"bytes"
	"strconv"
	"strings"
)

// eventID identifies an event of a session: the stream it was written to (0: the
// session's own) and its sequence number there, from 1. On the wire it is
// "stream.seq".
type eventID struct{ stream, seq uint64 }

func (id eventID) append(b []byte) []byte {
	b = strconv.AppendUint(b, id.stream, 10)
	return strconv.AppendUint(append(b, '.'), id.seq, 10)
}

// parseEventID parses an id. It accepts only the form that append writes.
func parseEventID(s string) (id eventID, ok bool) {
	stream, seq, _ := strings.Cut(s, ".")
	var err1, err2 error
	id.stream, err1 = strconv.ParseUint(stream, 10, 64)
	id.seq, err2 = strconv.ParseUint(seq, 10, 64)
	return id, err1 == nil && err2 == nil && string(id.append(nil)) == s
}

// appendHead appends the beginning of the event of a message, with its id if the stream
// can be resumed. The message (oneLine) and eventEnd follow.
func appendHead(b []byte, id eventID, resumable bool) []byte {
	if resumable {
		b = append(id.append(append(b, "id: "...)), '\n')
	}
	return append(b, "event: message\ndata: "...)
}

const eventEnd = "\n\n"

// keepAlive is a comment, which clients ignore.
const keepAlive = ": keep-alive\n\n"

// appendPrime appends an event without data. It gives the client an id to resume
// the stream with, and the time to wait before it does, in milliseconds
// (2025-11-25, basic/transports, "Sending Messages to the Server"). If the stream
// cannot be resumed, it only gives the time.
func appendPrime(b []byte, id eventID, resumable bool) []byte {
	if !resumable {
		return append(b, "retry: 1000\n\n"...)
	}
	b = id.append(append(b, "id: "...))
	return append(b, "\nretry: 1000\ndata: \n\n"...)
}

// oneLine returns msg, or a copy of it, with the line breaks between tokens replaced by
// spaces. That changes no JSON value.
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
