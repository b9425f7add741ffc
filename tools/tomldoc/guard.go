package tomldoc

import "strings"

// What the library keeps, in bytes: of each key, of each part of its path, and
// of each value in an array.
const (
	costOfKey  = 256
	costOfPart = 48
	costOfItem = 64
)

// Check looks through a text once and returns an *[Error] if it is nested too
// deep or would take too much memory. A text that is no TOML is judged up to
// where that shows, where the library stops too.
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

// level is an array or an inline table that is open, or the text itself.
type level struct {
	table bool // else an array
	value bool // of a table: a key and = were read
	parts int  // of the key
	from  int  // where the key began
	bytes int  // of the key
}

// guard goes through a text.
type guard struct {
	text              string
	pos               int
	levels            []level
	maxDepth, maxCost int

	header      bool // within [ ] or [[ ]]
	headerFrom  int
	headerParts int // of the table whose keys follow
	headerBytes int

	depth   int // of all levels and the header together
	path    int // bytes of all their keys
	cost    int
	deepest int
	deep    bool
}

// run tells whether the text may be decoded; pos is where it may not.
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
				return true // the library will say so
			}
			g.pos += end
			continue
		default:
			g.take(c)
		}
		g.deepest = max(g.deepest, g.depth)
		if g.deep = g.depth > g.maxDepth; g.deep || g.cost > g.maxCost {
			return false
		}
		g.pos++
	}
	return true
}

func (g *guard) take(c byte) {
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
		g.open(c == '{')
	case c == ']' || c == '}':
		g.shut()
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

// inHeader takes what is in the name of a table.
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

// part counts one part of the key that is being read.
func (g *guard) part() {
	g.levels[len(g.levels)-1].parts++
	g.depth++
}

func (g *guard) open(table bool) {
	g.levels = append(g.levels, level{table: table, from: g.pos + 1})
	g.cost += costOfItem
	if !table {
		g.depth++
	}
	if len(g.levels) > 2*g.maxDepth { // tables without keys in each other are none, but who knows
		g.depth = g.maxDepth + 1
	}
}

func (g *guard) shut() {
	if len(g.levels) == 1 {
		return // the library will say so
	}
	g.next()
	if !g.levels[len(g.levels)-1].table {
		g.depth--
	}
	g.levels = g.levels[:len(g.levels)-1]
}

// next ends a key with its value.
func (g *guard) next() {
	top := &g.levels[len(g.levels)-1]
	g.depth -= top.parts
	g.path -= top.bytes
	top.parts, top.bytes, top.value, top.from = 0, 0, false, g.pos+1
}

// endOfString is the length of the TOML string that a text begins with, -1 if it
// does not end.
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
			// Up to two more quotes belong to the string.
			for more := 0; len(mark) == 3 && more < 2 && i < len(text) && text[i] == mark[0]; more++ {
				i++
			}
			return i
		}
	}
	return -1
}
