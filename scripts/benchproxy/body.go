package main

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
)

// bodyReader reads the bodies of HTTP/1.1 responses without allocating.
type bodyReader struct {
	r    *bufio.Reader
	body []byte
}

// next returns the body of the next response, valid until the next call.
func (b *bodyReader) next() ([]byte, error) {
	status, length, err := b.header()
	if err != nil {
		return nil, err
	}
	b.body = b.body[:0]
	for chunked := length < 0; ; {
		if chunked {
			line, err := b.r.ReadSlice('\n')
			if err != nil {
				return nil, err
			}
			n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
			if err != nil {
				return nil, err
			}
			length = int(n)
		}
		if err := b.take(length); err != nil {
			return nil, err
		}
		if chunked {
			if _, err := b.r.Discard(len("\r\n")); err != nil {
				return nil, err
			}
		}
		if !chunked || length == 0 {
			break
		}
	}
	if status != 200 {
		return nil, fmt.Errorf("status %d: %s", status, b.body)
	}
	return b.body, nil
}

// header returns the status and the length of the body; -1 for a chunked body.
func (b *bodyReader) header() (status, length int, err error) {
	length = -1
	for {
		line, err := b.r.ReadSlice('\n')
		if err != nil {
			return 0, 0, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return status, length, nil
		}
		if status == 0 {
			_, rest, _ := bytes.Cut(line, []byte(" "))
			status = number(rest)
		} else if name, value, _ := bytes.Cut(line, []byte(":")); bytes.EqualFold(name, []byte("Content-Length")) {
			length = number(bytes.TrimSpace(value))
		}
	}
}

func (b *bodyReader) take(n int) error {
	for n > 0 {
		part, err := b.r.Peek(min(n, b.r.Size()))
		if err != nil {
			return err
		}
		b.body = append(b.body, part...)
		n -= len(part)
		if _, err := b.r.Discard(len(part)); err != nil {
			return err
		}
	}
	return nil
}

// number returns the number at the start of a text.
func number(text []byte) int {
	n := 0
	for _, c := range text {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
