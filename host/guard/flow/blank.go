package flow

import (
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Blank is a way of blanking labelled answers. A shadow has the same Blank for its whole run.
type Blank int

// The blanks. Four shadows with different blanks are better than four equal shadows: where a shadow
// fails, for example at the first element of an empty list, another shadow can go on.
const (
	Empty    Blank = iota // empty lists and texts, 0, false
	One                   // an element, "0", 1, true
	Literal               // three elements, texts with all literals of the script, 10^6, false
	Fail                  // every labelled answer is an error
	NumBlank = 4
)

// String returns the name of the blank.
func (b Blank) String() string {
	return [NumBlank]string{"empty", "one", "literals", "fail"}[b]
}

// Blanks makes values in place of answers.
type Blanks struct {
	Blank
	Literals string // see the function Literals
}

// Value returns the raw value of a shape, a raw JSON Schema. A missing, unreadable or very large
// shape gives a text, like the answers of most tools without a schema. The value has no part of any
// answer.
func (b Blanks) Value(shape []byte) []byte {
	schema, err := jsonvalue.Options{Values: maxSchemaValues}.Decode(shape)
	if err != nil {
		return wire.Quote(b.text())
	}
	m := maker{blanks: b, root: schema.Value, nodes: maxNodes, bytes: maxBytes}
	return wire.Marshal(m.value(schema.Value, 0))
}

// Result returns a raw CallToolResult with a value, for a script that asks for the whole result.
func (b Blanks) Result(value []byte, structured, failed bool) []byte {
	text := value
	if value[0] != '"' {
		text = wire.Quote(string(value))
	}
	var block wire.Object
	block.Text("type", "text")
	block.Raw("text", text)
	var o wire.Object
	o.Raw("content", wire.Array([][]byte{block.Bytes()}))
	if structured {
		o.Raw("structuredContent", value)
	}
	o.Bool("isError", failed)
	return o.Bytes()
}

func (b Blanks) text() string {
	switch b.Blank {
	case One:
		return "0"
	case Literal:
		return b.Literals
	}
	return ""
}

func (b Blanks) number() int {
	switch b.Blank {
	case One:
		return 1
	case Literal:
		return 1_000_000
	}
	return 0
}

// elements returns how many elements lists have.
func (b Blanks) elements() int {
	switch b.Blank {
	case One:
		return 1
	case Literal:
		return 3
	}
	return 0
}
