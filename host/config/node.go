package config

// kind is the type of a value in a file.
type kind int

const (
	kindTable kind = iota
	kindArray
	kindString
	kindInteger
	kindFloat
	kindBool
	kindNull
	kindTime
)

// node is a value of a configuration file in either format.
type node struct {
	kind kind
	// text is the value of a string; for other scalars, it is what the file contains.
	text string
	// keys are the keys of a table in the order of the file, and fields their values.
	keys   []string
	fields map[string]*node
	// items are the items of an array.
	items []*node
	// pos returns the position of the value's key, or of the value: line and column from
	// 1, or 0 if unknown. It scans the file, so it is only called to report something.
	pos func() (line, column int)
	// inside returns the position of a code point of a string's value, counted from 0. Nil
	// if that is unknown.
	inside func(offset int) (line, column int)
	// written is where the value is in the text. It is empty if that is unknown or if the
	// value is in more than one place.
	written span

	// parts are the parts of a string in which [Section.Fill] has replaced references, and
	// text is all of it; nil: text is as in the file.
	parts []part
	// missing says which value a string needs that is not known. pending is whether that is
	// so for any string in the node.
	missing *Problem
	pending bool
	// filled is whether the node is the value of a reference.
	filled bool
}

// position returns the line and column of the node, zeros if they are unknown.
func (n *node) position() (line, column int) {
	if n.pos == nil {
		return 0, 0
	}
	return n.pos()
}

// lineColumn converts a byte offset to a line and a column in code points, both from 1.
func lineColumn(data []byte, offset int) (line, column int) {
	offset = max(0, min(offset, len(data)))
	line, column = 1, 1
	for _, r := range string(data[:offset]) {
		if r == '\n' {
			line, column = line+1, 1
		} else {
			column++
		}
	}
	return line, column
}

// typeName returns the node's type as messages call it.
func (n *node) typeName(json bool) string {
	switch n.kind {
	case kindTable:
		if json {
			return "an object"
		}
		return "a table"
	case kindArray:
		return "an array"
	case kindString:
		return "a string"
	case kindInteger:
		return "an integer"
	case kindFloat:
		return "a number"
	case kindBool:
		return "a boolean"
	case kindNull:
		return "null"
	default:
		return "a date or time"
	}
}
