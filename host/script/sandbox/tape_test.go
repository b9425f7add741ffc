package sandbox

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/abi/tape"
	"github.com/mcp-metatool/mcp-metatool/guest/interp"
)

// fixedAnswer is a Caller whose tools all give the same answer.
type fixedAnswer struct {
	workloadTools
	value string
}

func (f *fixedAnswer) CallTools(_ context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for i := range answers {
		answers[i].Value = []byte(f.value)
	}
	return answers
}

// TestTapeOfAnswer checks that scripts get the same values in the guest, as tapes if there
// are any, as natively from JSON, and that the fuel is always the same: with room for
// lazy dicts and without, for answers with a tape, without one, and that are not valid.
func TestTapeOfAnswer(t *testing.T) {
	members := make([]string, 100)
	for i := range members {
		members[i] = fmt.Sprintf(`"key%d":[%d,{"a":%d.5,"b":"x%d"}]`, i, i, i, i)
	}
	large := "{" + strings.Join(members, ",") + "}"
	long := "[" + strings.Repeat(large+",", tape.MaxText/len(large)) + large + "]"
	answers := []string{
		`null`, `[true,false]`, `-0`, `[2147483647,2147483648,-2147483648,-2147483649,9007199254740993,99999999999999999999999]`, `[0.1,-0.0,1e300,5e-324]`,
		`{"a":1,"b":{"c":[{"d":2},{"d":3}]},"a":[4]}`, `"\ud83d\ude00\ud83dx\u0000"`, "\"\xff\xc3\\u00a9\"", `{"items":1,"get":{"get":2}}`, `{}`, `[[],{}]`, large, long,
		strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100), `{"a":1`, `1e999`, `x`,
	}
	if _, ok := tape.Encode([]byte(long)); ok || len(long) < tape.MaxText {
		t.Fatal("the long answer has a tape")
	}
	s := realSandbox(t)
	for n, answer := range answers {
		req := trivial.request()
		req.Code = `
try:
    x = s.a()
except Exception as e:
    return str(e)
if type(x) == "list" and len(x) > 10:
    return [len(x), x[3], x[-1].key99]
if type(x) != "dict" or not x:
    return x
first = list(x)[0]
y = [s.a({"n": i})[first] for i in range(3)]
x["new"] = [s.a().get(first) == x[first]]
return [x, y, first in s.a(), str(s.a()), len(s.a())]
`
		want, failure := interp.Run(req, fixedNativeOf(answer))
		if failure != nil {
			t.Fatal(failure)
		}
		var fuel []uint64
		for _, memory := range []uint64{0, 0, 64 << 20} {
			out, err := s.Run(t.Context(), Run{Request: req, Limits: Limits{Memory: memory}, Caller: &fixedAnswer{value: answer}})
			if err != nil || out.Err != nil {
				t.Fatalf("answer %d: %v, %v", n, err, out.Err)
			}
			if string(out.Result) != string(want) {
				t.Errorf("answer %d: got %.300s, natively %.300s", n, out.Result, want)
			}
			fuel = append(fuel, out.Fuel)
		}
		if fuel[0] != fuel[1] {
			t.Errorf("answer %d: fuel %d, then %d", n, fuel[0], fuel[1])
		}
	}
}

// fixedNativeOf returns the same tools for the interpreter without a sandbox.
func fixedNativeOf(value string) interp.Host { return fixedHost{nativeHost{&workloadTools{}}, value} }

type fixedHost struct {
	nativeHost
	value string
}

func (h fixedHost) CallTools(calls []abi.ToolCall) ([]abi.Answer, error) {
	return (&fixedAnswer{value: h.value}).CallTools(context.Background(), calls), nil
}
