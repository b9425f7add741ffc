package tools

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// maxPatternSize is the largest number of instructions of a regular expression with expanded
	// repetitions.
	maxPatternSize = 20_000
	// maxPatternsSize is the same for all regular expressions of a schema.
	maxPatternsSize = 200_000
	// maxUnicodeClasses is the largest number of classes in a regular expression that are slow to
	// parse.
	maxUnicodeClasses = 32

	runeCost        = 32 // matching a character of a text
	instructionCost = 8  // additionally for each instruction of the pattern
)

// pattern is a compiled regular expression. A match can be stopped.
type pattern struct {
	*regexp.Regexp
	size int64
}

// patternSchema is an entry of "patternProperties".
type patternSchema struct {
	*pattern
	schema *jsonschema.Schema
}

// match reports whether the pattern matches a text. In Go, matching takes time proportional
// to the product of both lengths.
func (p *pattern) match(m *meter, text string) bool {
	perRune := runeCost + instructionCost*p.size
	if int64(len(text)) <= workSlice/perRune {
		m.take(int64(len(text)+1) * perRune)
		return p.MatchString(text)
	}
	return p.MatchReader(&meteredText{m, text, perRune})
}

// meteredText is a text for which each character costs work.
type meteredText struct {
	meter *meter
	rest  string
	cost  int64
}

func (t *meteredText) ReadRune() (rune, int, error) {
	t.meter.take(t.cost) // may panic; the regexp package has no state that a panic could damage
	if t.rest == "" {
		return 0, 0, io.EOF
	}
	r, n := utf8.DecodeRuneInString(t.rest)
	t.rest = t.rest[n:]
	return r, n, nil
}

// patterns compiles the patterns of one schema. Some are requested more than once.
type patterns struct {
	meter  *meter
	byText map[string]*pattern
	size   int64
}

// compile implements jsonschema.RegexpEngine.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if known := p.byText[text]; known != nil {
		return known, nil
	}
	p.meter.take(patternCost(text))
	tree, err := parsePattern(text)
	if err != nil {
		return nil, err
	}
	size := patternSize(tree)
	if p.size += size; p.size > maxPatternsSize {
		return nil, fmt.Errorf("the patterns of the schema have more than %d parts in all (write fewer, or fewer repetitions)", maxPatternsSize)
	}
	p.meter.take(size * 1000)
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p.byText[text] = &pattern{re, size}
	return p.byText[text], nil
}

// patternCost returns the work of parsing a pattern accepted by parsePattern.
func patternCost(text string) int64 {
	if len(text) > MaxPatternBytes {
		return 0
	}
	return int64(len(text))*500 + int64(unicodeClasses(text))*500_000
}

// parsePattern parses a pattern within the limits.
func parsePattern(text string) (*syntax.Regexp, error) {
	if len(text) > MaxPatternBytes {
		return nil, fmt.Errorf("it is %d bytes long (at most %d)", len(text), MaxPatternBytes)
	}
	if unicodeClasses(text) > maxUnicodeClasses {
		return nil, fmt.Errorf(`it has too many classes of Unicode (at most %d of \p and \P)`, maxUnicodeClasses)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	var bad *syntax.Error
	switch {
	case errors.As(err, &bad):
		return nil, &syntax.Error{Code: bad.Code, Expr: display.Clip(bad.Expr, 200)}
	case err != nil:
		return nil, err
	case patternSize(tree) > maxPatternSize:
		return nil, fmt.Errorf("it has more than %d parts (write fewer repetitions)", maxPatternSize)
	}
	return tree, nil
}

// unicodeClasses counts the slow parts of a possible pattern: classes with a Unicode name and, if
// case is ignored, ranges that may span alphabets, which count as eight.
func unicodeClasses(text string) int {
	n := strings.Count(text, `\p`) + strings.Count(text, `\P`)
	if !ignoresCase(text) {
		return n
	}
	for i := range len(text) - 1 {
		if text[i] == '-' && (text[i+1] == '\\' || text[i+1] >= utf8.RuneSelf) {
			n += 8
		}
	}
	return n
}

// ignoresCase reports whether a pattern may have the flag i.
func ignoresCase(text string) bool {
	for {
		_, rest, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		flags := strings.TrimLeft(rest, "imsU-")
		if strings.Contains(rest[:len(rest)-len(flags)], "i") {
			return true
		}
		text = rest
	}
}

// patternSize returns the maximum number of instructions of a pattern with expanded repetitions. A
// larger result than maxPatternSize is not exact.
func patternSize(re *syntax.Regexp) int64 {
	n := int64(1)
	switch re.Op {
	case syntax.OpLiteral:
		n = int64(len(re.Rune))
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		n = 2
	case syntax.OpConcat, syntax.OpAlternate:
		n = int64(len(re.Sub))
	}
	below := int64(0)
	for _, sub := range re.Sub {
		below = min(below+patternSize(sub), maxPatternSize+1)
	}
	if re.Op == syntax.OpRepeat {
		times := int64(max(re.Min+1, re.Max, 1))
		return min(times*(below+2), maxPatternSize+1)
	}
	return min(n+below, maxPatternSize+1)
}
