package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Limits are the limits of runs of one tool, where the author wants less than the configuration
// allows. A zero field means the limit of the configuration. In JSON, limits are an object with the
// optional members
//
//	"fuel"     units of fuel in the sandbox: an integer
//	"memory"   an integer, in bytes, or "64MB"
//	"timeout"  an integer, in milliseconds, or "5s"
//	"calls"    tool calls: an integer
//
// No limit is compared with the configuration here.
type Limits struct {
	Fuel    uint64
	Memory  uint64 // bytes
	Timeout time.Duration
	Calls   int

	// raw is the object as read, with unknown members.
	raw json.RawMessage
}

// The minimum of each limit, needed to start a run.
const (
	MinFuel   = 10_000_000
	MinMemory = 16 << 20
)

// ParseLimits parses limits. The error is a [*ValidationError] with pointers into a
// definition ("/limits/fuel"). Unknown members are kept.
func ParseLimits(raw []byte) (Limits, error) {
	flat, err := compact(raw)
	if err != nil {
		return Limits{}, limitsViolation("not valid JSON")
	}
	members, err := readObject(flat)
	if err != nil {
		return Limits{}, limitsViolation(err.Error())
	}
	l := Limits{raw: flat}
	var wrong ValidationError
	for _, m := range members {
		if err := l.set(m); err != nil {
			wrong.Violations = append(wrong.Violations, Violation{pointer([]string{"limits", m.Name}), err.Error()})
		}
	}
	if wrong.Violations != nil {
		return Limits{}, &wrong
	}
	return l, nil
}

func limitsViolation(message string) error {
	return &ValidationError{[]Violation{{"/limits", message}}}
}

// set reads a member.
func (l *Limits) set(m Member) error {
	if string(m.Value) == "null" {
		return nil
	}
	var err error
	var n uint64
	switch m.Name {
	case "fuel":
		l.Fuel, err = number(m.Value, "a whole number", nil, MinFuel, strconv.Itoa)
	case "calls":
		n, err = number(m.Value, "a whole number", nil, 1, strconv.Itoa)
		l.Calls = int(min(n, math.MaxInt32))
	case "memory":
		l.Memory, err = number(m.Value, `a size such as "64MB" or a whole number of bytes`, units.ParseSize, MinMemory,
			func(n int) string { return units.FormatSize(uint64(n)) })
	case "timeout":
		n, err = number(m.Value, `a duration such as "5s" or a whole number of milliseconds`, milliseconds, 1,
			func(int) string { return "1ms" })
		l.Timeout = time.Duration(min(n, math.MaxInt64/uint64(time.Millisecond))) * time.Millisecond
	}
	return err
}

// number reads a JSON number or, if parse is not nil, a JSON string; format formats the minimum for
// messages. A number too large for its type becomes the maximum, which no configuration allows.
func number(raw []byte, want string, parse func(string) (uint64, error), least int, format func(int) string) (uint64, error) {
	var n uint64
	var err error
	switch text, unquoteErr := jsontext.AppendUnquote(nil, raw); {
	case raw[0] == '"' && parse != nil && unquoteErr == nil:
		if n, err = parse(string(text)); err != nil {
			return 0, fmt.Errorf("%s %w", display.Clip(string(raw), 40), err)
		}
	default:
		n, err = strconv.ParseUint(string(raw), 10, 64)
		if err != nil && n != math.MaxUint64 {
			return 0, fmt.Errorf("got %s, want %s", display.Clip(string(raw), 40), want)
		}
	}
	if n < uint64(least) {
		return 0, fmt.Errorf("got %s, want at least %s", display.Clip(string(raw), 40), format(least))
	}
	return n, nil
}

func milliseconds(text string) (uint64, error) {
	d, err := units.ParseDuration(text)
	return uint64(max(0, d.Milliseconds())), err
}

// JSON returns the limits as an object: unchanged if parsed, nil without limits. The caller must
// not change the result.
func (l Limits) JSON() json.RawMessage {
	if l.raw != nil || l.Fuel == 0 && l.Memory == 0 && l.Timeout == 0 && l.Calls == 0 {
		return l.raw
	}
	text, err := json.Marshal(struct {
		Fuel    uint64 `json:"fuel,omitempty"`
		Memory  uint64 `json:"memory,omitempty"`
		Timeout int64  `json:"timeout,omitempty"`
		Calls   int    `json:"calls,omitempty"`
	}{l.Fuel, l.Memory, l.Timeout.Milliseconds(), l.Calls})
	if err != nil { // cannot fail: all members are integers
		panic(err)
	}
	return text
}
