package approval

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// The shape of arguments has the names of all members and the types of all values, at every depth.
// Values that choose a tool's action are kept: true, false and null, and all strings and numbers
// except values that the tool's inputSchema proves to be free; see schema.go. Of a free value only
// the type is kept. Of an array, the different shapes of its elements count, but neither their
// order nor their number.

// maxShapeDepth bounds the nesting of arguments whose shape is remembered. The depth of messages is
// bounded elsewhere.
const maxShapeDepth = 1000

// shapeOf returns the shape of canonical arguments as text. definition is the tool's definition;
// nil for none.
func shapeOf(arguments, definition []byte) ([]byte, error) {
	root, ok := wire.Get(definition, "inputSchema")
	w := shapeWriter{r: reader{root: root, left: maxSchemaWork}}
	s := schemas{odd: !ok}
	if ok {
		w.r.add(&s, root, true, 0)
	}
	err := w.write(arguments, &s, 0)
	return w.Bytes(), err
}

// shapeWriter writes a shape.
type shapeWriter struct {
	bytes.Buffer
	r reader
}

func (w *shapeWriter) write(value []byte, s *schemas, depth int) error {
	if depth > maxShapeDepth {
		return fmt.Errorf("nested deeper than %d levels", maxShapeDepth)
	}
	switch k := kindOf(value); {
	case k == object:
		return w.object(value, s, depth)
	case k == array:
		return w.array(value, s, depth)
	case k == text && s.free(k):
		w.WriteString("string")
	case k == number && s.free(k):
		w.WriteString("number")
	default:
		w.Write(value)
	}
	return nil
}

func (w *shapeWriter) object(value []byte, s *schemas, depth int) error {
	members, ok := wire.Members(value)
	if !ok {
		return fmt.Errorf("not an object: %.20q", value)
	}
	w.WriteByte('{')
	for _, m := range members {
		w.Write(wire.Quote(m.Name))
		w.WriteByte(':')
		of := w.r.member(s, m.Name)
		if err := w.write(m.Value, &of, depth+1); err != nil {
			return err
		}
		w.WriteByte(',')
	}
	w.WriteByte('}')
	return nil
}

func (w *shapeWriter) array(value []byte, s *schemas, depth int) error {
	elements, err := wire.Elements(value)
	if err != nil {
		return err
	}
	begin, fixed := w.Len(), s.fixed()
	shapes := make([][]byte, len(elements))
	var of schemas
	for i, e := range elements {
		if i < fixed {
			of = w.r.element(s, i)
		}
		at := w.Len()
		if err := w.write(e, &of, depth+1); err != nil {
			return err
		}
		shapes[i] = bytes.Clone(w.Bytes()[at:])
	}
	w.Truncate(begin)
	slices.SortFunc(shapes, bytes.Compare)
	shapes = slices.CompactFunc(shapes, bytes.Equal)
	w.WriteByte('[')
	for _, s := range shapes {
		w.Write(s)
		w.WriteByte(',')
	}
	w.WriteByte(']')
	return nil
}
