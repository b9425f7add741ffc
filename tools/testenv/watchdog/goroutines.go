package watchdog

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

// goroutine is a goroutine in a text of runtime.Stack.
type goroutine struct {
	id     string
	text   string
	frames []string // calls, from the innermost, as "testing.tRunner(0xc000123500, 0x5a1b28)"
}

// goroutines returns all goroutines of this process.
func goroutines() []goroutine {
	text := make([]byte, 64<<10+runtime.NumGoroutine()*2<<10)
	for n := runtime.Stack(text, true); ; n = runtime.Stack(text, true) {
		if n < len(text) || n > 128<<20 {
			return parseStacks(string(text[:n]))
		}
		text = make([]byte, 2*len(text))
	}
}

func parseStacks(text string) []goroutine {
	var all []goroutine
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		head, rest, _ := strings.Cut(block, "\n")
		g := goroutine{text: block}
		g.id, _, _ = strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
		for line := range strings.Lines(rest) {
			if line[0] != '\t' && !strings.HasPrefix(line, "created by ") && !strings.HasPrefix(line, "...") {
				g.frames = append(g.frames, strings.TrimSpace(line))
			}
		}
		all = append(all, g)
	}
	return all
}

// runner returns the index of the frame of the package testing that called a test, a fuzz test or
// an example on this goroutine, or -1.
func (g goroutine) runner() int {
	for i := len(g.frames) - 1; i >= 0; i-- {
		f := g.frames[i]
		last := i == len(g.frames)-1
		if last && (strings.HasPrefix(f, "testing.tRunner(") || strings.HasPrefix(f, "testing.fRunner(")) ||
			strings.HasPrefix(f, "testing.runExample(") {
			return i
		}
	}
	return -1
}

// runsTest reports whether the goroutine runs code of a test, and does not wait for subtests or for
// a turn among parallel tests.
func (g goroutine) runsTest() bool {
	if g.runner() < 0 {
		return false
	}
	for _, f := range g.frames {
		if !strings.HasPrefix(f, "runtime.") {
			return !strings.HasPrefix(f, "testing.") && !strings.HasPrefix(f, "internal/synctest.Run(")
		}
	}
	return false
}

// test returns the name of the goroutine's test, for example TestX/case.
func (g goroutine) test() string {
	i := g.runner()
	if i < 0 {
		return ""
	}
	function, arguments, _ := strings.Cut(g.frames[i], "(")
	if function != "testing.runExample" {
		first, _, _ := strings.Cut(strings.TrimRight(arguments, ")"), ",")
		if name := nameAt(strings.TrimRight(first, "?")); name != "" {
			return name
		}
	}
	if i == 0 {
		return "a test"
	}
	function, _, _ = strings.Cut(path.Base(g.frames[i-1]), "(")
	_, function, _ = strings.Cut(function, ".")
	function, _, _ = strings.Cut(function, ".") // from TestX.func1
	return function
}

// nameAt returns the name of the *testing.T or *testing.F at an address found in a stack: nothing
// else names the running subtest. The result is "" for anything but a name. Only a process about to
// end calls nameAt.
func nameAt(address string) (name string) {
	at, err := strconv.ParseUint(address, 0, 64)
	if err != nil {
		return ""
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	p := uintptr(at)
	name = strings.Clone((*(**testing.T)(unsafe.Pointer(&p))).Name())
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || strings.ContainsAny(name, "\n\x00") {
		return ""
	}
	return name
}

// fold returns the text of goroutines, with only the first of goroutines in the same place.
func fold(all []goroutine) string {
	var b strings.Builder
	same := map[string]int{}
	for _, g := range all {
		same[g.place()]++
	}
	for _, g := range all {
		n := same[g.place()]
		if n == 0 {
			continue
		}
		same[g.place()] = 0
		b.WriteString(g.text)
		if n > 1 {
			fmt.Fprintf(&b, "\n(and %d more goroutines in the same place)", n-1)
		}
		b.WriteString("\n\n")
	}
	return b.String()
}

// place returns the stack without arguments and addresses.
func (g goroutine) place() string {
	var b strings.Builder
	_, rest, _ := strings.Cut(g.text, "\n")
	for line := range strings.Lines(rest) {
		if line[0] == '\t' {
			line, _, _ = strings.Cut(line, " +0x")
			b.WriteString(line)
		}
	}
	return b.String()
}
