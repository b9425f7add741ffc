package interp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/abitest"
)

// namingHost withholds the answers of demo. It calls the answer n names[n].
type namingHost struct {
	fakeHost
	marker   string
	numbers  []int
	withheld int
	seen     strings.Builder // what the script has done, in which answers have their numbers
}

func (h *namingHost) name(n int) string { return fmt.Sprint(h.marker, h.numbers[n]) }

// plain returns text of the script in which the answer n is <n>.
func (h *namingHost) plain(text string) string {
	for n := h.withheld; n > 0; n-- {
		text = strings.ReplaceAll(text, fmt.Sprintf("%q", h.name(n)), fmt.Sprintf("<%d>", n))
	}
	return text
}

func (h *namingHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	answers := make([]abi.Answer, len(calls))
	for i, c := range calls {
		fmt.Fprintf(&h.seen, "%s.%s %t %s\n", c.Server, c.Tool, c.Caught, h.plain(string(c.Arguments)))
		switch {
		case c.Server != "demo":
			answers[i] = withTape(abi.Answer{Value: c.Arguments})
		case c.Caught:
			answers[i].Err = &abi.CallError{Type: abi.ErrWithheld, Server: c.Server, Tool: c.Tool, Message: "m"}
		default:
			h.withheld++
			answers[i].Value = fmt.Appendf(nil, "%q", h.name(h.withheld))
		}
	}
	return answers, nil
}

func (h *namingHost) Undo(c abi.ToolCall) (*abi.CallError, error) {
	fmt.Fprintf(&h.seen, "undo %s.%s %s\n", c.Server, c.Tool, h.plain(string(c.Arguments)))
	return nil, nil
}

func (h *namingHost) Commit() { h.seen.WriteString("commit\n") }

// planAs plans a script whose withheld answers have these names, and returns all that it does,
// and whether it ends by looking into one.
func planAs(t *testing.T, code, marker string, numbers []int) (seen string, left bool) {
	t.Helper()
	h := &namingHost{marker: marker, numbers: numbers}
	result, err := Run(abi.Request{
		Op: abi.OpRun, Name: "t", Code: code, Params: []byte(`{}`), Servers: testServers, Now: 1, Seed: 1, Withheld: marker,
	}, h)
	if err != nil && err.Type != abi.ErrWithheld {
		t.Fatalf("%+v\n%s", err, code)
	}
	if err != nil { // its message names the answer by its number, for people
		return fmt.Sprintf("%sends at %+v", h.seen.String(), err.Position), true
	}
	return h.seen.String() + h.plain(string(result)), false
}

// TestNothingDependsOnWithheldAnswers runs scripts twice, in which other text stands for each
// withheld answer: they do the same. -long runs many more.
func TestNothingDependsOnWithheldAnswers(t *testing.T) {
	n, left := 400, 0
	if *long {
		n = 20_000
	}
	numbers, others := make([]int, 2000), make([]int, 2000)
	for i := range numbers {
		numbers[i], others[i] = i, 1_000_000-37*i
	}
	for seed := range n {
		code := abitest.Generated(uint64(seed), "other.echo", "demo.make", "demo.drop")
		a, end := planAs(t, code, marker, numbers)
		b, _ := planAs(t, code, "x-", others)
		if a != b {
			t.Fatalf("seed %d:\n%s\nfirst\n%s\nthen\n%s", seed, code, a, b)
		}
		if end {
			left++
		}
	}
	t.Logf("%d of %d scripts look into an answer", left, n)
	if left < n/10 || left > n*9/10 {
		t.Error("the scripts look into answers too often, or not often enough")
	}
}
