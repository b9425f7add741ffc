// Package tomldoc decodes foreign TOML in bounded time and memory ([Decode]), and changes TOML
// texts ([Set], [Remove], [Append]) without touching other bytes: comments, order, blank lines,
// quoting.
//
// The TOML library stores the whole path of each key, and recurses into nested values: some
// kilobytes of brackets or dots take gigabytes, or crash the process. So each text is scanned once
// before decoding ([Check]). A test keeps product code from calling the library in any other way.
//
// The result of each change is decoded and compared with the decoded original after the same
// change. So a text is changed as intended, or not at all.
package tomldoc

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// MaxDepth is the maximum nesting of a text: the parts of a table's name, of the keys in the table
// and in inline tables, and the arrays around them. Normal texts have less than ten.
const MaxDepth = 100

// maxCost limits the memory used by the library for a text, in bytes, approximately.
const maxCost = 256 << 20

// Error says why a text is not decoded.
type Error struct {
	// Offset is the position in bytes; Line and Column are the line and the column in
	// bytes, from 1.
	Offset, Line, Column int
	// Deep means a text nested too deep; otherwise the text has too many keys and values.
	Deep bool
}

func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Message())
}

// Message returns the error without the position.
func (e *Error) Message() string {
	if e.Deep {
		return fmt.Sprintf("is nested deeper than %d levels", MaxDepth)
	}
	return "has too many keys and values, or too long keys"
}

// Decode is toml.Decode for texts accepted by [Check]. The error may be an *[Error].
func Decode(text string, into any) (toml.MetaData, error) {
	if err := Check(text); err != nil {
		return toml.MetaData{}, err
	}
	return toml.Decode(text, into)
}

// The memory used by the library, in bytes: for each key, each part of a key's path, and each value
// in an array.
const (
	costOfKey  = 256
	costOfPart = 48
	costOfItem = 64
)

// Check scans a text once and returns an *[Error] if the text is nested too deep or would take too
// much memory. Malformed TOML is checked up to the fault, where the library stops too.
func Check(text string) error {
	g := &guard{text: text, levels: []level{{table: true}}, maxDepth: MaxDepth, maxCost: maxCost}
	if g.run() {
		return nil
	}
	before := text[:min(g.pos, len(text))]
	return &Error{
		Offset: len(before), Line: 1 + strings.Count(before, "\n"),
		Column: len(before) - strings.LastIndexByte(before, '\n'), Deep: g.deep,
	}
}

// level is an open array or inline table, or the text itself.
type level struct {
	table bool // a table; otherwise an array
	value bool // in a table: a key and = were read
	parts int  // parts of the key
	from  int  // position of the key
	bytes int  // bytes in the key
}

// guard scans a text.
type guard struct {
	text              string
	pos               int
	levels            []level
	maxDepth, maxCost int

	header      bool // within [ ] or [[ ]]
	headerFrom  int
	headerParts int // parts of the name of the current table
	headerBytes int

	depth   int // of all levels and the header together
	path    int // bytes of all their keys
	cost    int
	deepest int
	deep    bool
}

// run reports whether the text may be decoded. If not, pos is the position of the error.
func (g *guard) run() bool {
	for g.pos < len(g.text) {
		switch c := g.text[g.pos]; c {
		case '#':
			end := strings.IndexByte(g.text[g.pos:], '\n')
			if end < 0 {
				return true
			}
			g.pos += end
			continue
		case '"', '\'':
			end := endOfString(g.text[g.pos:])
			if end < 0 {
				return true // the library will report the error
			}
			g.pos += end
			continue
		default:
			g.readByte(c)
		}
		g.deepest = max(g.deepest, g.depth)
		if g.deep = g.depth > g.maxDepth; g.deep || g.cost > g.maxCost {
			return false
		}
		g.pos++
	}
	return true
}

func (g *guard) readByte(c byte) {
	top := &g.levels[len(g.levels)-1]
	switch {
	case g.header:
		g.inHeader(c)
	case c == '[' && len(g.levels) == 1 && !top.value && top.parts == 0:
		g.depth -= g.headerParts
		g.path -= g.headerBytes
		g.header, g.headerFrom, g.headerParts, g.headerBytes = true, g.pos, 1, 0
		g.depth++
	case c == '[' || c == '{':
		g.openLevel(c == '{')
	case c == ']' || c == '}':
		g.closeLevel()
	case c == ',':
		g.cost += costOfItem
		g.next()
	case c == '\n' && len(g.levels) == 1:
		g.next()
	case c == '.' && top.table && !top.value:
		g.part()
	case c == '=' && top.table && !top.value:
		g.part()
		top.value = true
		top.bytes = g.pos - top.from
		g.path += top.bytes
		g.cost += costOfKey + g.depth*costOfPart + g.path
	}
}

// inHeader reads a byte in the name of a table.
func (g *guard) inHeader(c byte) {
	switch c {
	case '.':
		g.headerParts++
		g.depth++
	case '\n':
		g.header = false
		g.headerBytes = g.pos - g.headerFrom
		g.path += g.headerBytes
		g.cost += costOfKey + g.depth*costOfPart + g.path
		g.levels[0].from = g.pos + 1
	}
}

// part counts a part of the current key.
func (g *guard) part() {
	g.levels[len(g.levels)-1].parts++
	g.depth++
}

func (g *guard) openLevel(table bool) {
	g.levels = append(g.levels, level{table: table, from: g.pos + 1})
	g.cost += costOfItem
	if !table {
		g.depth++
	}
	if len(g.levels) > 2*g.maxDepth { // tables without keys, to be safe
		g.depth = g.maxDepth + 1
	}
}

func (g *guard) closeLevel() {
	if len(g.levels) == 1 {
		return // the library will report the error
	}
	g.next()
	if !g.levels[len(g.levels)-1].table {
		g.depth--
	}
	g.levels = g.levels[:len(g.levels)-1]
}

// next ends a key and the value.
func (g *guard) next() {
	top := &g.levels[len(g.levels)-1]
	g.depth -= top.parts
	g.path -= top.bytes
	top.parts, top.bytes, top.value, top.from = 0, 0, false, g.pos+1
}

// endOfString returns the length of the TOML string at the beginning of a text, -1 without an end.
func endOfString(text string) int {
	mark := text[:1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(text, triple) {
		mark = triple
	}
	for i := len(mark); i < len(text); i++ {
		switch {
		case text[i] == '\\' && mark[0] == '"':
			i++
		case text[i] == '\n' && len(mark) == 1:
			return -1
		case strings.HasPrefix(text[i:], mark):
			i += len(mark)
			// Up to two further quotes belong to the string.
			for more := 0; len(mark) == 3 && more < 2 && i < len(text) && text[i] == mark[0]; more++ {
				i++
			}
			return i
		}
	}
	return -1
}
