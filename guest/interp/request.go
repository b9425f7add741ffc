package interp

import (
	"fmt"
	"strconv"
	"unsafe"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// ReadRequest decodes a request of the host. It takes a fraction of the time of encoding/json,
// which would take longer than a small script. Names of members match exactly, and unknown names
// are an error. Params shares the bytes of message, which must not be changed afterwards.
func ReadRequest(message []byte) (abi.Request, error) {
	var req abi.Request
	d := decoder{text: unsafe.String(unsafe.SliceData(message), len(message))}
	if err := d.members(func(name string) error { return d.requestMember(&req, message, name) }); err != nil {
		return abi.Request{}, fmt.Errorf("request: %w", err)
	}
	d.space()
	if d.pos < len(d.text) {
		return abi.Request{}, fmt.Errorf("request: %w", d.unexpected("after the value"))
	}
	return req, nil
}

func (d *decoder) requestMember(req *abi.Request, message []byte, name string) (err error) {
	switch name {
	case "op":
		var op string
		op, err = d.wantString()
		req.Op = abi.Op(op)
	case "name":
		req.Name, err = d.wantString()
	case "code":
		req.Code, err = d.wantString()
	case "params":
		d.space()
		start := d.pos
		if err = d.skip(); err == nil {
			req.Params = message[start:d.pos]
		}
	case "servers":
		req.Servers, err = d.wantStrings()
	case "agentTools":
		req.AgentTools, err = d.wantStrings()
	case "memory":
		req.Memory, err = strconv.ParseUint(d.natural(), 10, 64)
	case "withheld":
		req.Withheld, err = d.wantString()
	case "now":
		req.Now, err = strconv.ParseInt(d.natural(), 10, 64)
	case "seed":
		req.Seed, err = strconv.ParseUint(d.natural(), 10, 64)
	default:
		err = d.errorf("unknown name %q", name)
	}
	return err
}

// natural reads the digits of a number.
func (d *decoder) natural() string {
	d.space()
	start := d.pos
	for d.pos < len(d.text) && d.text[d.pos] >= '0' && d.text[d.pos] <= '9' {
		d.pos++
	}
	return d.text[start:d.pos]
}

// wantString reads a string.
func (d *decoder) wantString() (string, error) {
	if d.next() != '"' {
		return "", d.unexpected("where a string should be")
	}
	return d.str()
}

// wantStrings reads an array of strings.
func (d *decoder) wantStrings() (list []string, err error) {
	err = d.elements(func() error {
		s, err := d.wantString()
		list = append(list, s)
		return err
	})
	return list, err
}

// members reads an object and calls value at the value of each member.
func (d *decoder) members(value func(name string) error) error {
	return d.list('{', '}', func() error {
		name, err := d.wantString()
		if err != nil {
			return err
		}
		if d.next() != ':' {
			return d.unexpected("after a key")
		}
		d.pos++
		return value(name)
	})
}

// elements reads an array and calls element at each element.
func (d *decoder) elements(element func() error) error { return d.list('[', ']', element) }

func (d *decoder) list(opening, closing byte, item func() error) error {
	if d.next() != opening {
		return d.unexpected(fmt.Sprintf("where %q should be", opening))
	}
	d.pos++
	if d.next() == closing {
		d.pos++
		return nil
	}
	for {
		if err := item(); err != nil {
			return err
		}
		switch d.next() {
		case ',':
			d.pos++
		case closing:
			d.pos++
			return nil
		default:
			return d.unexpected("in a list")
		}
	}
}

// skip skips a value. The check of the value is partial; decoding checks in full.
func (d *decoder) skip() error {
	depth := 0
	for {
		switch d.next() {
		case 0:
			return d.unexpected("in a value")
		case '"':
			for d.pos++; d.pos < len(d.text) && d.text[d.pos] != '"'; d.pos++ {
				if d.text[d.pos] == '\\' {
					d.pos++
				}
			}
			if d.pos >= len(d.text) {
				return d.unexpected("in a string")
			}
			d.pos++
		case '{', '[':
			depth++
			d.pos++
		case '}', ']':
			if depth == 0 {
				return d.unexpected("where a value should be")
			}
			depth--
			d.pos++
		case ',', ':':
			if depth == 0 {
				return d.unexpected("where a value should be")
			}
			d.pos++
			continue
		default:
			for d.pos < len(d.text) && !isDelimiter(d.text[d.pos]) {
				d.pos++
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

func isDelimiter(c byte) bool {
	switch c {
	case ' ', '\t', '\n', '\r', ',', ':', '{', '}', '[', ']', '"':
		return true
	}
	return false
}

// AppendCalls encodes a batch of calls for the host. Arguments must be JSON; they
// are appended as they are.
func AppendCalls(buf []byte, calls []abi.ToolCall) []byte {
	buf = append(buf, '[')
	for i, c := range calls {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = AppendCall(buf, c)
	}
	return append(buf, ']')
}

// AppendCall encodes a call; see AppendCalls.
func AppendCall(buf []byte, c abi.ToolCall) []byte {
	buf = appendString(append(buf, `{"server":`...), c.Server)
	buf = appendString(append(buf, `,"tool":`...), c.Tool)
	if c.Exact {
		buf = append(buf, `,"exact":true`...)
	}
	if c.Raw {
		buf = append(buf, `,"raw":true`...)
	}
	if c.Caught {
		buf = append(buf, `,"caught":true`...)
	}
	if c.Timeout != 0 {
		buf = strconv.AppendFloat(append(buf, `,"timeout":`...), c.Timeout, 'g', -1, 64)
	}
	if c.Meta != nil {
		buf = append(append(buf, `,"meta":`...), c.Meta...)
	}
	buf = append(append(buf, `,"arguments":`...), c.Arguments...)
	return append(buf, '}')
}
