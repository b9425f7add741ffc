package approval

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// The shape of arguments has the names of all members and the types of all values, at every
// depth. Values that choose what a tool does are kept: true, false and null, and strings and
// numbers for which the tool's inputSchema has an enum or a const. Of other strings and
// numbers only the type is kept. Of an array, the different shapes of its elements count,
// but neither their order nor their number.

// maxShapeDepth bounds how deep arguments may be nested whose shape is remembered. The depth
// of messages is bounded elsewhere.
const maxShapeDepth = 1000

// shapeOf returns the shape of canonical arguments as text. definition is that of the tool;
// nil for none.
func shapeOf(arguments, definition []byte) ([]byte, error) {
	schema, _ := wire.Get(definition, "inputSchema")
	var b bytes.Buffer
	err := writeShape(&b, arguments, schema, 0)
	return b.Bytes(), err
}

func writeShape(b *bytes.Buffer, value, schema []byte, depth int) error {
	if depth > maxShapeDepth {
		return fmt.Errorf("nested deeper than %d levels", maxShapeDepth)
	}
	switch value[0] {
	case '{':
		return objectShape(b, value, schema, depth)
	case '[':
		return arrayShape(b, value, schema, depth)
	case '"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if isChoice(schema) {
			b.Write(value)
		} else if value[0] == '"' {
			b.WriteString("string")
		} else {
			b.WriteString("number")
		}
	default: // true, false, null
		b.Write(value)
	}
	return nil
}

func objectShape(b *bytes.Buffer, value, schema []byte, depth int) error {
	properties, _ := wire.Get(schema, "properties")
	members, ok := wire.Members(value)
	if !ok {
		return fmt.Errorf("not an object: %.20q", value)
	}
	b.WriteByte('{')
	for _, m := range members {
		b.Write(wire.Quote(m.Name))
		b.WriteByte(':')
		of, _ := wire.Get(properties, m.Name)
		if err := writeShape(b, m.Value, of, depth+1); err != nil {
			return err
		}
		b.WriteByte(',')
	}
	b.WriteByte('}')
	return nil
}

func arrayShape(b *bytes.Buffer, value, schema []byte, depth int) error {
	of, _ := wire.Get(schema, "items")
	elements, err := wire.Elements(value)
	if err != nil {
		return err
	}
	shapes := make([][]byte, len(elements))
	for i, e := range elements {
		var one bytes.Buffer
		if err := writeShape(&one, e, of, depth+1); err != nil {
			return err
		}
		shapes[i] = one.Bytes()
	}
	slices.SortFunc(shapes, bytes.Compare)
	shapes = slices.CompactFunc(shapes, bytes.Equal)
	b.WriteByte('[')
	for _, s := range shapes {
		b.Write(s)
		b.WriteByte(',')
	}
	b.WriteByte(']')
	return nil
}

// isChoice reports whether a schema names the values that there can be.
func isChoice(schema []byte) bool {
	if !wire.IsObject(schema) {
		return false
	}
	_, enum := wire.Get(schema, "enum")
	_, constant := wire.Get(schema, "const")
	return enum || constant
}
