package compose

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Detail is the amount of detail about a run's calls in the result. Hosts give structuredContent to
// the model, so the default is little.
type Detail int

// The details.
const (
	Short Detail = iota // the first calls with small values, and the number of further calls
	Full                // all calls, with whole values
	None                // nothing
)

// The limits of Short. Sizes are bytes of JSON.
const (
	maxShortValue  = 256     // of params or result of a call
	maxShortValues = 2 << 10 // of all these values together
	maxShortCalls  = 10      // listed calls, including calls of saved tools
	maxShortTools  = 20      // tools for which the other calls are counted
	maxShortName   = 100     // of the name of a server or a tool
	otherTools     = "others"
)

// The limits of values elsewhere: in details of errors, and of all values of Full.
const (
	maxInline    = 16 << 10
	maxInlineSum = 1 << 20
	maxFullSum   = 16 << 20
)

// inliner puts raw values into a result. Too large values are replaced by their size and hash; the
// journal has the complete values.
type inliner struct{ each, all int } // bytes left for a value, and for all values

func newInliner() *inliner { return &inliner{maxInline, maxInlineSum} }

func (in *inliner) value(raw []byte) []byte {
	if len(raw) <= in.each && len(raw) <= in.all {
		in.all -= len(raw)
		return raw
	}
	return placeholder(raw, nil)
}

// placeholder returns the replacement of a value: the size and hash, and descriptions of content
// blocks.
func placeholder(raw []byte, blocks [][]byte) []byte {
	sum := sha256.Sum256(raw)
	var o wire.Object
	o.Bool("truncated", true)
	o.NonZero("size", uint64(len(raw)))
	o.NonEmpty("sha256", hex.EncodeToString(sum[:]))
	if blocks != nil {
		o.Raw("content", describeBlocks(blocks))
	}
	return o.Bytes()
}

// A callList lists the calls of a run for a result.
type callList struct {
	detail Detail
	values inliner
	left   int            // how many more calls may be listed
	more   map[string]int // numbers of unlisted calls, by tool
	tools  []string       // the names in more, in order
}

func newCallList(d Detail) *callList {
	l := &callList{detail: d, values: inliner{maxShortValue, maxShortValues}, left: maxShortCalls, more: map[string]int{}}
	if d == Full {
		l.values, l.left = inliner{maxFullSum, maxFullSum}, int(^uint(0)>>1)
	}
	return l
}

// write writes the list into the structured result of a run.
func (l *callList) write(o *wire.Object, calls []journal.CallRecord) {
	if l.detail == None {
		return
	}
	o.Raw("toolCalls", l.list(calls))
	if len(l.tools) == 0 {
		return
	}
	var more wire.Object
	for _, name := range l.tools {
		more.NonZero(name, uint64(l.more[name]))
	}
	more.NonZero(otherTools, uint64(l.more[otherTools]))
	o.Raw("moreCalls", more.Bytes())
}

// list lists calls, with the calls of saved tools inside them. The calls of a run count before the
// calls inside them.
func (l *callList) list(calls []journal.CallRecord) []byte {
	n := min(len(calls), l.left)
	l.left -= n
	items := make([][]byte, n)
	for i := range items {
		items[i] = l.call(&calls[i])
	}
	l.count(calls[n:])
	return wire.Array(items)
}

func (l *callList) call(c *journal.CallRecord) []byte {
	var o wire.Object
	o.Text("server", l.name(c.Server))
	o.Text("tool", l.name(c.Tool))
	o.Raw("params", l.value(c.Request.Arguments))
	switch e := c.Answer.Err; {
	case !c.Done:
		o.Raw("error", callError(abi.ErrCancelled, NoAnswer))
	case e != nil:
		o.Raw("error", callError(e.Type, l.message(e.Message)))
	default:
		o.Raw("result", l.value(c.Answer.Value))
	}
	if c.Undo {
		o.Bool("undo", true)
	}
	if c.Answer.Run != nil {
		o.Raw("toolCalls", l.list(c.Answer.Run.Calls))
	}
	return o.Bytes()
}

// count counts unlisted calls.
func (l *callList) count(calls []journal.CallRecord) {
	for i := range calls {
		c := &calls[i]
		name := l.name(c.Server) + "." + l.name(c.Tool)
		if _, known := l.more[name]; !known && len(l.tools) == maxShortTools {
			name = otherTools
		} else if !known {
			l.tools = append(l.tools, name)
		}
		l.more[name]++
		if c.Answer.Run != nil {
			l.count(c.Answer.Run.Calls)
		}
	}
}

// value returns a value of a call. Content blocks with data are described, because models
// would read the data as text.
func (l *callList) value(raw []byte) []byte {
	if l.detail == Short {
		if blocks, rich := blocksWithin(raw); rich {
			return placeholder(raw, blocks)
		}
	}
	return l.values.value(raw)
}

// name returns the shortened name of a server or tool. Scripts can invent names.
func (l *callList) name(text string) string {
	if l.detail == Full {
		return text
	}
	return display.ClipSize(text, maxShortName)
}

func (l *callList) message(text string) string {
	if l.detail == Full {
		return text
	}
	most := min(maxShortValue, l.values.all)
	l.values.all -= min(most, len(text))
	return display.ClipSize(text, most)
}

func callError(class abi.ErrorType, message string) []byte {
	var o wire.Object
	o.NonEmpty("type", string(class))
	o.Text("message", message)
	return o.Bytes()
}

// The limits of the log in a result, in bytes: in structuredContent, and in the text of an error or
// next to content blocks.
const (
	maxShownLog = 8 << 10
	maxLogText  = 2 << 10
)

// shownLog returns a log of at most about most bytes: a quarter of most for the beginning, then a
// note of the entries left out, then the end. No entry takes more than an eighth.
func shownLog(logs []journal.Entry, most int) []string {
	cut := func(e journal.Entry) string { return cutMiddle(e.Text, most/8) }
	size := func(e journal.Entry) int { return len(wire.Quote(cut(e))) + 1 }
	total := 0
	for _, e := range logs {
		if total += size(e); total > most {
			break
		}
	}
	var shown []string
	if total <= most {
		for _, e := range logs {
			shown = append(shown, cut(e))
		}
		return shown
	}
	head, room := 0, most/4
	for ; size(logs[head]) <= room; head++ {
		room -= size(logs[head])
		shown = append(shown, cut(logs[head]))
	}
	tail := len(logs)
	for room = most - most/4; tail > head && size(logs[tail-1]) <= room; tail-- {
		room -= size(logs[tail-1])
	}
	left := 0
	for _, e := range logs[head:tail] {
		left += len(e.Text)
	}
	shown = append(shown, fmt.Sprintf("... (%d entries of %d bytes are left out here; the journal has them: show_run) ...", tail-head, left))
	for _, e := range logs[tail:] {
		shown = append(shown, cut(e))
	}
	return shown
}

// cutMiddle returns about n bytes of text: the beginning and the end.
func cutMiddle(text string, n int) string {
	if len(text) <= n {
		return text
	}
	head, tail := n/2, len(text)-n/2
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	return text[:head] + "... (" + strconv.Itoa(tail-head) + " bytes are left out here) ..." + text[tail:]
}
