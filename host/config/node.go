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

// node is a value of a configuration file, whichever its format.
type node struct {
	kind kind
	// text is the value of a string, else how a scalar is written.
	text string
	// keys of a table in the order of the file, and what they hold.
	keys   []string
	fields map[string]*node
	// items of an array.
	items []*node
	// pos tells where the value's key (or the value) is: line and column from
	// 1, 0 when unknown. Asked for only when there is something to report,
	// since finding out costs a pass over the file.
	pos func() (line, column int)
	// written is where the value is in the text, empty when it is in no one
	// place or that is not known.
	written span
}

// position is where the node is, zeroes when that is not known.
func (n *node) position() (line, column int) {
	if n.pos == nil {
		return 0, 0
	}
	return n.pos()
}

// lineColumn turns a byte offset into a line and a column in code points, both
// from 1.
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

// typeName is what a person calls the node's type.
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
