package health

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// probe makes the call of a probe and checks the result.
func (c Checker) probe(ctx context.Context, up Connection, p *config.Probe, permit wire.Permit) *ProbeReport {
	r := &ProbeReport{Tool: c.text(p.Call), Check: Failed}
	var params wire.Object
	params.Text("name", p.Call)
	params.Raw("arguments", p.Params)
	result, took, err := c.ask(ctx, up, wire.Call{Method: protocol.MethodToolsCall, Params: params.Bytes(), Permit: permit}, p.Timeout)
	if err != nil {
		r.Error = c.text(reason(err))
		return r
	}
	r.Latency = milliseconds(took)
	if r.Error = c.verdict(result, p.Expect); r.Error == "" {
		r.Check = OK
	}
	return r
}

// verdict returns the difference of a tools/call result from the expectation, or "".
func (c Checker) verdict(result []byte, want *config.Expectation) string {
	if !wire.IsObject(result) {
		return "answered without a result"
	}
	text := textOf(result)
	if flag, _ := wire.Get(result, "isError"); string(flag) == "true" {
		return "failed: " + c.excerpt(text)
	}
	if want == nil {
		return ""
	}
	switch {
	case want.Value != nil:
		if got := valueOf(result, text); !contains(got, want.Value) {
			return fmt.Sprintf("answered %s, which does not contain %s", c.excerpt(string(got)), c.excerpt(string(want.Value)))
		}
	case want.Pattern != "":
		pattern, err := regexp.Compile(want.Pattern)
		if err != nil { // the configuration should have refused the pattern
			return c.text(err.Error())
		}
		if !pattern.MatchString(text) {
			return fmt.Sprintf("answered %q, which does not match %s", c.excerpt(text), c.excerpt("/"+want.Pattern+"/"))
		}
	case !strings.Contains(text, want.Text):
		return fmt.Sprintf("answered %q, which does not contain %q", c.excerpt(text), c.excerpt(want.Text))
	}
	return ""
}

// textOf returns the text of a result: the text blocks, separated by newlines, or, without text
// blocks, the JSON of the structured content.
func textOf(result []byte) string {
	content, _ := wire.Get(result, "content")
	blocks, _ := wire.Elements(content) // none if content is not an array
	var texts []string
	for _, block := range blocks {
		if text, ok := wire.GetString(block, "text"); ok {
			texts = append(texts, text)
		}
	}
	if texts == nil {
		structured, _ := wire.Get(result, "structuredContent")
		return string(structured)
	}
	return strings.Join(texts, "\n")
}

// valueOf returns the JSON value of a result: the structured content, or text if text is JSON, or
// text as a JSON string.
func valueOf(result []byte, text string) []byte {
	if v, ok := wire.Get(result, "structuredContent"); ok && string(v) != "null" {
		return v
	}
	if raw := []byte(text); json.Valid(raw) {
		return raw
	}
	return wire.Quote(text)
}

// contains reports whether got contains want. An object contains another object with a subset of
// the members, with contained values. An array contains another array if each item of the other
// array is contained in an item of the array. Other values must be equal; numbers are compared by
// value.
//
// Only want, which is the operator's, is decoded. A hostile server can make got very large.
func contains(got, want []byte) bool {
	w, err := jsonvalue.Decode(want)
	return err == nil && json.Valid(got) && within(got, w)
}

// within is contains for a valid got and a decoded want.
func within(got []byte, want any) bool {
	got = bytes.TrimLeft(got, " \t\r\n")
	switch want := want.(type) {
	case nil:
		return got[0] == 'n'
	case bool:
		return got[0] == 't' && want || got[0] == 'f' && !want
	case string:
		text, ok := wire.Text(got)
		return ok && text == want
	case json.Number:
		return jsontext.Value(got).Kind() == '0' && sameNumber(string(bytes.TrimRight(got, " \t\r\n")), want.String())
	case map[string]any:
		return got[0] == '{' && membersWithin(got, want)
	case []any:
		return got[0] == '[' && itemsWithin(got, want)
	}
	return false
}

func membersWithin(got []byte, want map[string]any) bool {
	var few struct { // without allocation: got may have millions of objects
		names  [8]string
		values [8][]byte
	}
	names, values := few.names[:0], few.values[:]
	for name := range want {
		names = append(names, name)
	}
	if len(want) > len(few.values) {
		values = make([][]byte, len(want))
	}
	values = values[:len(want)]
	if !wire.Pick(got, names, values) { // of equal names the last counts
		return false
	}
	for i, name := range names {
		if values[i] == nil || !within(values[i], want[name]) {
			return false
		}
	}
	return true
}

func itemsWithin(got []byte, want []any) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(got), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return false
	}
	found, missing := make([]bool, len(want)), len(want)
	for missing > 0 && d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return false
		}
		for i, w := range want {
			if !found[i] && within(item, w) {
				found[i] = true
				missing--
			}
		}
	}
	return missing == 0
}

// numberBits is the precision with which numbers are compared: integers of up to 150
// digits are exact.
const numberBits = 512

// sameNumber compares JSON numbers by value. Unlike a big.Rat, a big.Float needs little
// memory for any exponent.
func sameNumber(a, b string) bool {
	if max(len(a), len(b)) > jsonvalue.MaxNumberDigits { // the comparison takes time quadratic in the number of digits
		return a == b
	}
	x, _, errX := big.ParseFloat(a, 10, numberBits, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, numberBits, big.ToNearestEven)
	if errX != nil || errY != nil { // out of range
		return a == b
	}
	return x.Cmp(y) == 0
}
