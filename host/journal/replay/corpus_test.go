package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

var long = flag.Bool("long", false, "replay every script of the language's tests, not every 24th")

// TestEveryRunReplaysIdentically records all available scripts, live, and replays each
// record: from memory, from a journal on disk, and from an exported file; without -long in one of
// these ways.
func TestEveryRunReplaysIdentically(t *testing.T) {
	dir := t.TempDir()
	log := journal.OpenLog(dir, journal.LogOptions{Log: quiet()})
	jobs := corpus(t)
	records := make([]journal.Record, len(jobs))
	sandboxtest.Guest(t) // compile it before anything is measured
	begin := time.Now()
	for i, j := range jobs {
		j.open = log.Open
		records[i] = record(t, j)
	}
	live := time.Since(begin)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		name string
		get  func(journal.Record) (journal.Record, error)
		took time.Duration
		runs int
		same int
	}{
		{name: "in memory", get: func(r journal.Record) (journal.Record, error) { return r, nil }},
		{name: "from the journal on disk", get: func(r journal.Record) (journal.Record, error) { return journal.Find(t.Context(), dir, r.ID) }},
		{name: "from an exported file", get: func(r journal.Record) (journal.Record, error) {
			var file bytes.Buffer
			if err := journal.Encode(&file, r); err != nil {
				return r, err
			}
			return journal.Decode(&file)
		}},
	}
	runs := 0 // with those of saved tools
	for w := range ways {
		way := &ways[w]
		for i, j := range jobs {
			if !*long && i%len(ways) != w {
				continue
			}
			rec, err := way.get(records[i])
			if err != nil {
				t.Errorf("%s, %s: %v", j.name, way.name, err)
				continue
			}
			begin := time.Now()
			report := replayed(t, rec, Options{})
			way.took += time.Since(begin)
			if way.runs++; report.Verdict == Identical {
				way.same++
			} else {
				t.Errorf("%s, %s: %s", j.name, way.name, report.Text())
			}
			runs += report.Compared.Runs
		}
	}
	t.Logf("%d jobs, replayed with %d runs, live in %v", len(jobs), runs, live.Round(time.Millisecond))
	for _, way := range ways {
		t.Logf("%s: %d of %d identical, in %v", way.name, way.same, way.runs, way.took.Round(time.Millisecond))
	}
}

// corpus returns every 24th script in the tests of the language, or all with -long, those
// in the tests of compose, the examples in the language reference, and those of this package.
func corpus(t *testing.T) []job {
	var all []job
	n := 0
	for _, path := range glob(t, "../../../guest/interp/testdata/*.txtar") {
		files := archive(t, path)
		for _, name := range scripts(files) {
			if n++; !*long && n%24 > 0 {
				continue
			}
			all = append(all, job{name: filepath.Base(path) + "/" + name, def: tools.Definition{Code: files[name+".star"]}, eval: true, params: files[name+".params"]})
		}
	}
	page, err := os.ReadFile("../../../docs/language.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range regexp.MustCompile("(?s)```star\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		all = append(all, job{
			name: fmt.Sprintf("language.md, example %d", i+1), def: tools.Definition{Code: m[1]}, eval: true,
			params: `{"query": "bug", "limit": 2, "tags": ["a", "b"]}`,
		})
	}
	for _, path := range glob(t, "../../script/compose/testdata/*.txtar") {
		files := archive(t, path)
		j := job{name: path, def: definition("job", files["code"]), params: strings.TrimSpace(files["arguments"])}
		if s := strings.TrimSpace(files["input"]); s != "" {
			j.def.InputSchema = json.RawMessage(s)
		}
		if s := strings.TrimSpace(files["output"]); s != "" {
			j.def.OutputSchema = json.RawMessage(s)
		}
		_, j.debug = files["debug"]
		c := cannedAnswers{}
		for line := range strings.Lines(files["upstreams"]) {
			name, answer, _ := strings.Cut(strings.TrimSpace(line), " ")
			c[name] = answer
		}
		j.upstreams, j.catalog = c, c
		all = append(all, j)
	}
	for _, path := range glob(t, "../../../docs/patterns/*.star") {
		code, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, job{name: path, def: tools.Definition{Code: string(code)}, eval: true, servers: serverNames(string(code)),
			params: `{"owner":"o","repo":"r","title":"t","project":"P","query":"q","urls":["a","b"],"n":3,"items":[1,2,3]}`})
	}
	return append(all, worldJobs()...)
}

// serverNames returns the names in a script that may be names of servers.
func serverNames(code string) (names []string) {
	for _, m := range regexp.MustCompile(`\b([a-z]+)[.][a-z_]+\(`).FindAllStringSubmatch(code, -1) {
		if !slices.Contains([]string{"params", "json", "math", "log", "content", "tools"}, m[1]) && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, err)
	}
	return paths
}

func archive(t *testing.T, path string) map[string]string {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	return files
}

func scripts(files map[string]string) (names []string) {
	for name := range files {
		if name, ok := strings.CutSuffix(name, ".star"); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// cannedAnswers are the upstreams of an archive: the answer of each tool. An answer that begins
// with ! is an error.
type cannedAnswers map[string]string

func (cannedAnswers) Ready(context.Context, route.Origin, string) error { return nil }

func (c cannedAnswers) Remembered(string) bool { return false }

func (c cannedAnswers) Disabled() []string { return nil }

func (c cannedAnswers) Resolve(server, tool string, exact bool) (string, string, error) {
	return (&world{}).Resolve("demo", tool, exact)
}

func (c cannedAnswers) Servers() []string {
	names := map[string]bool{}
	for full := range c {
		server, _, _ := strings.Cut(full, ".")
		names[server] = true
	}
	var all []string
	for name := range names {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func (cannedAnswers) InputSchema(string, string) []byte { return nil }

func (c cannedAnswers) CallUpstream(_ context.Context, _ route.Origin, call route.ScriptCall) wire.Reply {
	tool := call.Tool
	for full, answer := range c {
		if strings.HasSuffix(full, "."+tool) {
			if e, isError := strings.CutPrefix(answer, "!"); isError {
				return wire.Reply{Error: []byte(e)}
			}
			return wire.Reply{Result: []byte(answer)}
		}
	}
	return wire.Reply{Error: []byte(`{"code":-32602,"message":"no such tool"}`)}
}

// worldJobs returns runs with all kinds of calls, saved tools, undos, limits, and
// cancellations.
func worldJobs() []job {
	saved := savedTools{}
	for name, code := range map[string]string{
		"inner":    "print('inside', params.get('n'))\nr = demo.echo({'n': params.get('n')})\nundo(other.remove, {'n': params.get('n')})\nreturn r.n",
		"middle":   "return [tools.inner(n=params.n), tools.inner(n=params.n + 1)]",
		"fails":    "demo.echo({'x': 1})\nundo(other.remove, {'n': 7})\nfail('no luck', details={'n': params.get('n')})",
		"broken":   "return demo.broken()",
		"loops":    "print('round')\nwhile True: pass",
		"waits":    "undo(other.remove, {'n': 8})\ndemo.wait()",
		"cancels":  "undo(other.remove, {'n': 9})\ndemo.cancel()",
		"circle":   "return tools.circle()",
		"content":  "return content.image('iVBORw0KGgo=', 'image/png')",
		"computes": "x = 0\nfor i in range(2000): x += i\nreturn x",
		"asks":     "try:\n    return tools.fails(n=1)\nexcept ToolError as e:\n    return [e.message, e.details]",
	} {
		saved[name] = definition(name, code)
	}
	limited := definition("limited", "while True: demo.echo()")
	limited.Limits.Calls = 3
	saved["limited"] = limited
	strict := definition("strict", "return params.n")
	strict.OutputSchema = json.RawMessage(`{"type":"string"}`)
	saved["strict"] = strict

	mk := func(name, code string, change ...func(*job)) job {
		j := job{name: name, def: definition("job", code), params: `{"n":3}`, saved: saved}
		for _, f := range change {
			f(&j)
		}
		return j
	}
	within := func(d time.Duration) func(*job) { return func(j *job) { j.time = d } }
	limits := func(l sandbox.Limits) func(*job) { return func(j *job) { j.limits = l } }
	debug := func(j *job) { j.debug = true }
	all := []job{
		mk("calls", "a = demo.search({})\nprint(a.total_count)\nreturn [a, demo.text(), demo.version(), demo.image(), demo.bad(), demo.big().text[:10], demo['odd-name']({'<&>': 'ü\\u2028'}), demo.search.raw()]"),
		mk("meta", "return [demo.echo({'a': 1}, meta={'x/z': [1]}, timeout=5), tools.inner({'n': 1}, meta={'x/z': 2})]",
			func(j *job) { j.meta = `{"traceparent":"00-1","progressToken":7}` }),
		mk("errors", "r = []\nfor f in [demo.broken, demo.rpc, demo.nosuch, demo.strict]:\n    try: f({'n': 'x'})\n    except Error as e: r.append([e.type, e.message, e.details])\nreturn r"),
		mk("uncaught", "demo.broken()"),
		mk("uncaught rpc", "demo.rpc()", debug),
		mk("hidden", "try: demo.secret()\nexcept Error: pass"),
		mk("retry", "for i in range(5):\n    try:\n        demo.flaky(n=i)\n        return i\n    except ToolError: log.warn('again', i)"),
		mk("parallel", "def f(n):\n    print('start', n)\n    r = [demo.echo(n=n).n, other.x(n=n).arguments.n]\n    print('end', n)\n    return r\nreturn parallel_map(f, range(20), limit=7)"),
		mk("parallel errors", "return [str(x) for x in parallel([demo.echo, demo.broken, lambda: tools.inner(n=1), demo.rpc], errors='collect')]"),
		mk("saved", "return [tools.middle(n=params.n), tools.inner(n=9)]"),
		mk("saved in parallel", "return parallel_map(lambda n: tools.middle(n=n), range(5))"),
		mk("saved raw", "a = tools.inner.raw(n=1)\nb = tools.fails.raw(n=1)\nreturn [a, b, tools.content()]"),
		mk("saved that fails", "return tools.asks()"),
		mk("saved that fails, backtraces", "return tools.asks()", debug),
		mk("saved, uncaught", "tools.fails(n=1)", debug),
		mk("saved that is broken", "tools.broken()"),
		mk("saved, wrong arguments", "tools.inner(n='x')"),
		mk("saved, wrong result", "tools.strict(n=1)"),
		mk("saved that is not there", "tools.nowhere()"),
		mk("a circle", "tools.circle()"),
		mk("a saved tool's limit", "tools.limited()"),
		mk("undo", "for n in [1, 2]:\n    demo.make(n=n)\n    undo(other.remove, {'n': n})\nfail('no')"),
		mk("undo that fails", "undo(demo.broken, n=1)\nundo(demo.rpc, n=2)\nundo(other.remove, n=3)\nundo(demo.wait)\nfail('no')"),
		mk("undo that is wrong", "try: undo(demo.strict, {'n': 'x'})\nexcept Error as e: print(e.message)\nundo(demo.nosuch)"),
		mk("commit", "undo(other.remove, n=1)\ncommit()\nundo(other.remove, n=2)\nfail('no')"),
		mk("undo of saved tools", "tools.inner(n=1)\ntools.middle(n=2)\nfail('no')"),
		mk("progress", "progress(1, 2, 'half')\ndemo.echo()\nprogress(2, 2)"),
		mk("result that is too large", "return 'x' * 5000", limits(sandbox.Limits{Result: 4 << 10})),
		mk("answer that is too large", "demo.big()", limits(sandbox.Limits{Answer: 4 << 10})),
		mk("arguments that are too large", "demo.echo(x='x' * 5000)", limits(sandbox.Limits{Arguments: 4 << 10})),
		mk("too many calls", "undo(other.remove, n=1)\nwhile True: demo.echo()", limits(sandbox.Limits{Calls: 20})),
		mk("too much log", "for i in range(1000): print('line', i)", limits(sandbox.Limits{Logs: 4 << 10})),
		mk("too much memory", "x = ['x' * 1000000]\nwhile True: x.append(x[-1] + 'y')", limits(sandbox.Limits{Memory: 32 << 20})),
		mk("too much fuel", "print('start')\nwhile True: pass", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("too much fuel of a saved tool", "demo.echo()\ntools.loops()", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("too much fuel together", "for i in range(100): tools.computes()", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("too much fuel for checking", "print('start')\ndemo.slow(x='x' * 100000)", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("too much fuel for checking, caught", "try: demo.slow(x='x' * 100000)\nexcept Error: print('caught')\nwhile True: pass", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("too much fuel with checking", "demo.slow(x='x' * 400)\nwhile True: pass", limits(sandbox.Limits{Fuel: 50_000_000})),
		mk("recursion", "def f(n): return f(n + 1)\nf(0)"),
		mk("time over while computing", "print('start')\ndemo.echo(n=1)\nundo(other.remove, n=1)\nwhile True: pass", within(60*time.Millisecond)),
		mk("time over while waiting", "undo(other.remove, n=1)\nprint(demo.echo(n=1))\ndemo.wait()\nprint('not reached')", within(30*time.Millisecond)),
		mk("time over in parallel", "undo(other.remove, n=1)\nparallel([demo.echo, demo.wait, lambda: tools.inner(n=1), demo.wait])", within(30*time.Millisecond)),
		mk("time over below", "undo(other.remove, n=1)\ntools.waits()", within(30*time.Millisecond)),
		mk("time over below while computing", "undo(other.remove, n=1)\ntools.loops()", within(60*time.Millisecond)),
		mk("time over before it began", "return 1", within(time.Nanosecond)),
		mk("time of a call", "try: demo.wait({}, timeout=0.01)\nexcept Error as e: return [e.type, e.message]"),
		mk("time of a saved tool that waits", "undo(other.remove, n=1)\ntry: tools.waits({}, timeout=0.02)\nexcept Error as e: return [e.type, e.message]"),
		mk("time of a saved tool that computes", "tools.loops({}, timeout=0.03)"),
		mk("cancelled while waiting", "undo(other.remove, n=1)\ndemo.echo(n=1)\ndemo.cancel()"),
		mk("cancelled below", "undo(other.remove, n=1)\ntools.inner(n=1)\ntools.cancels()"),
		mk("cancelled in parallel", "undo(other.remove, n=1)\nparallel([lambda: tools.inner(n=4), tools.cancels, tools.waits, demo.wait])"),
		mk("cancelled as the answer came", "undo(other.remove, n=1)\ndemo.cancel_later()\nprint('late')\nwhile True: pass"),
		mk("cancelled while computing", "undo(other.remove, n=1)\nprint('before')\nprogress(1, 2, 'cancel now')\nx = 0\nwhile True: x += 1"),
		mk("wrong arguments", "return params", func(j *job) { j.params = `{"n":"x"}` }),
		mk("coerced arguments", "return params", func(j *job) { j.params = `{"n": "12", "b" : [ 1.50 ]}` }),
		mk("syntax", "x = \n"),
		mk("eval", "return tools.inner(n=params.n)", func(j *job) { j.eval = true }),
		mk("eval, wrong params", "return 1", func(j *job) { j.eval, j.params = true, "[]" }),
		mk("own limits", "while True: pass", func(j *job) {
			j.def.Limits.Fuel, j.limits.Fuel = 20_000_000, 50_000_000
		}),
		mk("own limits like those of all", "while True: pass", func(j *job) {
			j.def.Limits.Fuel, j.limits.Fuel = 20_000_000, 20_000_000
		}),
	}
	return all
}
