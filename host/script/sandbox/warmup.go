package sandbox

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// warmup is a script that the embedded guest runs before the snapshot is taken. The script does the
// work that otherwise each run would do first: making tables at first use, filling free lists,
// growing the stack.
type warmup struct {
	code, params string
	// want is the result as JSON or, for a failing script, the type of the error.
	want string
	// typical reports that the script writes to memory like most scripts.
	typical bool
}

// warmups do the work that most scripts do. They run in this order.
var warmups = []warmup{
	{code: warmupLibrary, params: "{}", want: `["xb",2,"2024-01-02",[[1,"a"]],"{\"a\": 1}"]`},
	{code: warmupData, params: warmupParams, want: `[3,"ABC",{"k":[1,2.5,null,true,"é"]},["b","a"],720]`},
	{code: "def f(n):\n    return f(n - 1) + 1 if n else 0\nreturn f(60)", params: "{}", want: "60"},
	{code: "r = []\nfor i in range(5):\n    r.append(s.echo({'n': i, 'items': ['a', {'b': 1.5}]}).n)\nreturn r", params: "{}", want: "[0,1,2,3,4]", typical: true},
	{code: "return s.fail({'x': 1})", params: "{}", want: string(abi.ErrTool)},
	{code: "x = {'a': 1}\nreturn x['b']", params: "{}", want: string(abi.ErrRuntime)},
	{code: "return nope", params: "{}", want: string(abi.ErrValidation)},
	{code: "print('hello', 1)\nreturn params", params: `{"a":[1,2,3]}`, want: `{"a":[1,2,3]}`, typical: true},
	{code: "return 1 + 1", params: "{}", want: "2", typical: true},
}

const warmupParams = `{"n":3,"s":"abc","o":{"k":[1,2.5,null,true,"é"]}}`

const warmupData = `
def fact(n):
    r = 1
    for i in range(1, n + 1):
        r *= i
    return r
d = {"a": 2, "b": 1}
names = sorted(d.keys(), key = lambda k: d[k])
text = json.encode(params.o)
if "x" in text or text.startswith("y"):
    fail("no")
s2 = "%s-%d" % ("a", 1)
parts = [p.strip().upper() for p in "a, b".split(",")]
return [params.n, params.s.upper(), json.decode(text), names, fact(6)]
`

// warmupLibrary imports the modules that scripts import most.
const warmupLibrary = `
import collections, datetime, functools, itertools, json, math, random, re, statistics, time
c = collections.Counter([1, 1])
d = datetime.date(2024, 1, 1) + datetime.timedelta(days=1)
return [re.sub(r"a+", "b", "xaa"), c[1], d.isoformat(), list(zip(itertools.islice(itertools.count(1), 1), ["a"])), json.dumps({"a": 1})]
`

func (w warmup) run() Run {
	return Run{
		Request: abi.Request{Op: abi.OpRun, Name: "tool", Code: w.code, Params: json.RawMessage(w.params), Servers: []string{"s"}},
		Limits:  Limits{Fuel: bootFuel},
		Caller:  warmupCaller{},
	}
}

func (w warmup) check(result []byte, err *abi.Error) error {
	got := string(result)
	if err != nil {
		got = string(err.Type)
	}
	if got != w.want {
		return fmt.Errorf("the script ended with %.200q (%+v), not with %q", got, err, w.want)
	}
	return nil
}

// warmupCaller is the Caller of the warmups. The tools answer with their arguments, and one fails.
type warmupCaller struct{}

func (warmupCaller) CallTools(_ context.Context, calls []abi.ToolCall) []abi.Answer {
	answers := make([]abi.Answer, len(calls))
	for n, c := range calls {
		answers[n] = abi.Answer{Value: c.Arguments}
		if c.Tool == "fail" {
			answers[n] = abi.Answer{Err: &abi.CallError{Type: abi.ErrTool, Server: c.Server, Tool: c.Tool, Message: "it failed", Details: json.RawMessage(`{"code":1}`)}}
		}
	}
	return answers
}

func (warmupCaller) Undo(context.Context, abi.ToolCall) *abi.CallError { return nil }
func (warmupCaller) Commit()                                           {}
func (warmupCaller) Log(abi.LogLevel, string) func()                   { return nil }
func (warmupCaller) Progress(abi.Progress)                             {}
