package otlp

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// A call by gRPC is a POST over HTTP/2 with a message. The answer is a message and a status in the
// trailer (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).

// frameHead is the length of the head of a message: whether the message is compressed, and the
// message's length.
const frameHead = 5

// frame puts a message into a frame.
func frame(message []byte, zipped bool) []byte {
	b := make([]byte, frameHead, frameHead+len(message))
	if zipped {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(message)))
	return append(b, message...)
}

// setMetadata sets the header fields of a call.
func setMetadata(h http.Header, zip bool, timeout time.Duration) {
	h.Set("Content-Type", "application/grpc")
	h.Set("TE", "trailers")
	h.Set("Grpc-Timeout", strconv.FormatInt(min(timeout.Milliseconds(), 99_999_999), 10)+"m")
	if zip {
		h.Set("Grpc-Encoding", "gzip")
	}
}

// The codes of gRPC with which an attempt can be repeated.
const (
	codeCancelled = 1
	codeDeadline  = 4
	codeExhausted = 8 // only if the collector says when
	codeAborted   = 10
	codeRange     = 11
	codeAway      = 14
	codeLoss      = 15
)

// outcomeOfGRPC reads an answer by gRPC.
func (s *sender) outcomeOfGRPC(answer *http.Response, content []byte) *failure {
	status := answer.Trailer
	if answer.Header.Get("Grpc-Status") != "" { // an answer without a message
		status = answer.Header
	}
	code, err := strconv.Atoi(status.Get("Grpc-Status"))
	switch {
	case err != nil: // from a proxy in front of the collector
		f := s.outcome(answer, nil)
		if f == nil {
			f = &failure{err: fmt.Errorf("the answer does not come from a gRPC collector: content of type %q", answer.Header.Get("Content-Type"))}
		}
		return f
	case code == 0 && len(content) >= frameHead:
		return s.partly(content[frameHead:])
	case code == 0:
		return nil
	}
	text, err := url.PathUnescape(status.Get("Grpc-Message"))
	if err != nil {
		text = status.Get("Grpc-Message")
	}
	f := &failure{err: fmt.Errorf("the collector answers with code %d of gRPC: %s", code, text)}
	after, given := retryInfo(status.Get("Grpc-Status-Details-Bin"))
	switch code {
	case codeCancelled, codeDeadline, codeAborted, codeRange, codeAway, codeLoss:
		f.again, f.after = true, after
	case codeExhausted:
		f.again, f.after = given, after
	}
	return f
}

// retryInfo finds a google.rpc.RetryInfo among the details of a google.rpc.Status.
func retryInfo(encoded string) (after time.Duration, given bool) {
	status, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil {
		return 0, false
	}
	for detail := range fields(status) {
		if detail.number != 3 { // details
			continue
		}
		var kind string
		var info []byte
		for f := range fields(detail.text) {
			switch f.number {
			case 1: // type_url
				kind = string(f.text)
			case 2: // value
				info = f.text
			}
		}
		if !strings.HasSuffix(kind, "/google.rpc.RetryInfo") {
			continue
		}
		for delay := range fields(info) {
			if delay.number != 1 { // retry_delay
				continue
			}
			for f := range fields(delay.text) {
				switch f.number {
				case 1: // seconds
					after += time.Duration(min(f.value, 3600)) * time.Second
				case 2: // nanos
					after += time.Duration(min(f.value, 1e9))
				}
			}
		}
		return after, true
	}
	return 0, false
}

// field is a field of a message: a number, or bytes.
type field struct {
	number protowire.Number
	value  uint64
	text   []byte
}

// fields returns the fields of a message of unknown type, up to the first unreadable field.
func fields(message []byte) iter.Seq[field] {
	return func(yield func(field) bool) {
		for len(message) > 0 {
			number, kind, head := protowire.ConsumeTag(message)
			if head < 0 {
				return
			}
			f, size := field{number: number}, 0
			switch rest := message[head:]; kind {
			case protowire.VarintType:
				f.value, size = protowire.ConsumeVarint(rest)
			case protowire.BytesType:
				f.text, size = protowire.ConsumeBytes(rest)
			default:
				size = protowire.ConsumeFieldValue(number, kind, rest)
			}
			if size < 0 || !yield(f) {
				return
			}
			message = message[head+size:]
		}
	}
}
