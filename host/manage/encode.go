package manage

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// encoder writes JSON with members in the order given; raw values keep theirs,
// and their numbers. The first error stays.
type encoder struct {
	buf bytes.Buffer
	*jsontext.Encoder
	err error
}

func newEncoder() *encoder {
	e := &encoder{}
	e.Encoder = jsontext.NewEncoder(&e.buf, jsontext.PreserveRawStrings(true))
	return e
}

func (e *encoder) token(t jsontext.Token) {
	if e.err == nil {
		e.err = e.WriteToken(t)
	}
}

func (e *encoder) text(name, value string) {
	e.token(jsontext.String(name))
	e.token(jsontext.String(strings.ToValidUTF8(value, "\uFFFD")))
}

func (e *encoder) raw(name string, value []byte) {
	e.token(jsontext.String(name))
	if e.err == nil {
		e.err = e.WriteValue(value)
	}
}

func (e *encoder) members(list []tools.Member) {
	for _, m := range list {
		e.raw(m.Name, m.Value)
	}
}

func (e *encoder) bytes() ([]byte, error) {
	if e.err != nil {
		return nil, fmt.Errorf("encoding saved tools: %w", e.err)
	}
	return bytes.TrimSpace(e.buf.Bytes()), nil
}

// encodeList is {tools, problems}.
func encodeList(defs []tools.Definition, problems []tools.Problem) ([]byte, error) {
	e := newEncoder()
	e.token(jsontext.BeginObject)
	e.token(jsontext.String("tools"))
	e.token(jsontext.BeginArray)
	for _, d := range defs {
		e.token(jsontext.BeginObject)
		e.text("name", d.Name)
		e.text("description", d.Description)
		e.text("created", stamp(d.Metadata.Created))
		e.text("modified", stamp(d.Metadata.Modified))
		e.raw("inputSchema", d.InputSchema)
		e.token(jsontext.EndObject)
	}
	e.token(jsontext.EndArray)
	if len(problems) > 0 {
		e.token(jsontext.String("problems"))
		e.token(jsontext.BeginArray)
		for _, p := range problems {
			e.token(jsontext.BeginObject)
			e.text("name", p.Name)
			e.text("path", p.Path)
			e.text("message", p.Err.Error())
			e.token(jsontext.EndObject)
		}
		e.token(jsontext.EndArray)
	}
	e.token(jsontext.EndObject)
	return e.bytes()
}

// encodeDefinition is a saved tool as its file has it (specification, "Storage
// Format").
func encodeDefinition(d tools.Definition) ([]byte, error) {
	e := newEncoder()
	e.token(jsontext.BeginObject)
	e.text("version", tools.FormatVersion)
	e.text("name", d.Name)
	e.text("description", d.Description)
	e.raw("inputSchema", d.InputSchema)
	if d.OutputSchema != nil {
		e.raw("outputSchema", d.OutputSchema)
	}
	if limits := d.Limits.JSON(); limits != nil {
		e.raw("limits", limits)
	}
	e.text("code", d.Code)
	e.token(jsontext.String("metadata"))
	e.token(jsontext.BeginObject)
	e.text("created", stamp(d.Metadata.Created))
	e.text("modified", stamp(d.Metadata.Modified))
	e.raw("executionCount", strconv.AppendInt(nil, d.Metadata.ExecutionCount, 10))
	if !d.Metadata.LastExecuted.IsZero() {
		e.text("lastExecuted", stamp(d.Metadata.LastExecuted))
	}
	e.members(d.Metadata.Extra)
	e.token(jsontext.EndObject)
	e.members(d.Extra)
	e.token(jsontext.EndObject)
	return e.bytes()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
