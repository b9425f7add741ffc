package front

import (
	"bytes"
	"strconv"
	"strings"
)

// eventID names an event of a session: the stream it was written to (0: the
// session's own) and its place there, from 1. On the wire it is "stream.place".
type eventID struct{ stream, place uint64 }

func (id eventID) append(b []byte) []byte {
	b = strconv.AppendUint(b, id.stream, 10)
	return strconv.AppendUint(append(b, '.'), id.place, 10)
}

// parseEventID reads what append has written, and nothing else.
func parseEventID(s string) (id eventID, ok bool) {
	stream, place, _ := strings.Cut(s, ".")
	var err1, err2 error
	id.stream, err1 = strconv.ParseUint(stream, 10, 64)
	id.place, err2 = strconv.ParseUint(place, 10, 64)
	return id, err1 == nil && err2 == nil && string(id.append(nil)) == s
}

// appendHead begins the event that carries a message, with its id if it can be
// had again. The message (oneLine) and eventEnd follow.
func appendHead(b []byte, id eventID, lasting bool) []byte {
	if lasting {
		b = append(id.append(append(b, "id: "...)), '\n')
	}
	return append(b, "event: message\ndata: "...)
}

const eventEnd = "\n\n"

// keepAlive is a comment, which clients ignore.
const keepAlive = ": keep-alive\n\n"

// appendPrime appends an event without data: it gives the client an id to
// resume with, and the milliseconds to wait before it does (2025-11-25,
// basic/transports, "Sending Messages to the Server"). Of a stream that cannot be
// resumed it only says the latter.
func appendPrime(b []byte, id eventID, lasting bool) []byte {
	if !lasting {
		return append(b, "retry: 1000\n\n"...)
	}
	b = id.append(append(b, "id: "...))
	return append(b, "\nretry: 1000\ndata: \n\n"...)
}

// oneLine is msg, or a copy, with spaces for the line breaks between tokens,
// which changes no JSON value.
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
