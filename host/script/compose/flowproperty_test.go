package compose

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
)

var long = flag.Bool("long", false, "run many random scripts in TestFlowProperty")

// randomScript writes scripts that read, write, branch, catch and send, in all ways known to the
// rules.
type randomScript struct {
	*rand.Rand
	b     strings.Builder
	vars  int
	calls int // of saved tools, so that scripts end
}

func (g *randomScript) line(depth int, format string, args ...any) {
	g.b.WriteString(strings.Repeat("  ", depth) + fmt.Sprintf(format, args...) + "\n")
}

// value writes an expression, of which the value is a text or a number.
func (g *randomScript) value() string {
	if g.vars > 0 && g.IntN(4) > 0 {
		return fmt.Sprintf("v%d", g.IntN(g.vars))
	}
	return []string{"'x'", "1", "7", "'hello'", "str(2)"}[g.IntN(5)]
}

// object writes an object. The order of the members, and the form of a number, can depend on a
// value.
func (g *randomScript) object(member string) string {
	a := fmt.Sprintf("'%s': %s", member, g.value())
	switch g.IntN(4) {
	case 0:
		return fmt.Sprintf("{%s, 'k': 1} if str(%s) > 'p' else {'k': 1, %s}", a, g.value(), a)
	case 1:
		return fmt.Sprintf("{%s, 'k': 1 if str(%s) > 'p' else 1.0}", a, g.value())
	}
	return "{" + a + "}"
}

func (g *randomScript) set(depth int, format string, args ...any) {
	g.line(depth, "v%d = %s", g.IntN(3), fmt.Sprintf(format, args...))
}

func (g *randomScript) block(depth, n int) {
	g.line(depth, "pass")
	for range n {
		g.statement(depth)
	}
}

func (g *randomScript) statement(depth int) {
	deep := depth >= 3
	switch n := g.IntN(20); {
	case n < 3:
		g.set(depth, "mail.list()[0].body")
	case n == 3:
		g.set(depth, "len(mail.list())")
	case n == 4:
		g.set(depth, "mail.list()[0].id")
	case n < 8:
		g.line(depth, "chat.post(%s)", g.object("text"))
	case n == 8:
		g.set(depth, "str((chat.post.raw if str(%s) > 'p' else chat.post)(%s))", g.value(), g.object("text"))
	case n == 9:
		g.line(depth, "notes.set({'v': %s})", g.value())
	case n == 10:
		g.set(depth, "notes.get({}).note")
	case n == 11 && g.IntN(2) == 0:
		g.set(depth, "[desk.quota({}), chat.peek({})][%d]", g.IntN(2))
		g.set(depth, "desk.quota({}).used")
	case n == 11:
		g.set(depth, "str(desk.lookup(%s))", g.object("id"))
	case n == 12:
		g.line(depth, "chat.draft(%s)", g.object("v"))
	case n == 13:
		g.line(depth, "undo(chat.post, %s)", g.object("text"))
	case n == 14 && g.calls < 4:
		g.calls++
		g.set(depth, "str(tools.%s({'x': %s}))", []string{"one", "two"}[g.IntN(2)], g.value())
	case n == 15 && g.calls < 3:
		g.calls += 2
		g.line(depth, "parallel([lambda: tools.one({'x': 1}), lambda: chat.post({'text': 'p'}), lambda: tools.two({'x': %s})])", g.value())
	case n == 16 && !deep:
		g.line(depth, "try:")
		g.block(depth+1, 1+g.IntN(2))
		g.line(depth, "except Exception as e:")
		g.block(depth+1, g.IntN(2))
	case n == 17 && !deep:
		g.line(depth, "for x in mail.list():")
		g.block(depth+1, 1+g.IntN(2))
	case !deep:
		g.line(depth, "if %s == %s:", g.value(), g.value())
		g.block(depth+1, 1+g.IntN(2))
		g.line(depth, "else:")
		g.block(depth+1, g.IntN(2))
	default:
		g.set(depth, "str(%s) + 'y'", g.value())
	}
}

func (g *randomScript) script(params bool, n int) string {
	g.b.Reset()
	g.vars = 3
	for i := range 3 {
		g.line(0, "v%d = %d", i, i)
	}
	if params {
		g.line(0, "v0 = params.x")
	}
	g.block(0, n)
	g.line(0, "return %s", g.value())
	return g.b.String()
}

// worlds differ in nothing but private answers.
var worlds = []string{
	fmt.Sprintf(`[{"id":7,"subject":"hello","body":%q}]`, secret),
	`[{"id":1,"subject":"hello","body":"x"},{"id":8,"subject":"y","body":"hello"}]`,
	`[]`,
	`!no mail`,
}

// TestFlowProperty runs random scripts in worlds that differ in private answers only. The input of
// the public sinks in a world must be the beginning of their input in another world, a session that
// could have sent more must be flagged, and the content called public must be the same.
func TestFlowProperty(t *testing.T) {
	for _, action := range []flow.Action{flow.Deny, flow.Shadow} {
		t.Run(string(action), func(t *testing.T) { testFlowProperty(t, action) })
	}
}

func testFlowProperty(t *testing.T, action flow.Action) {
	seeds, sent, denied, public, unlabelled := 12, 0, 0, 0, 0
	if *long {
		seeds = 1200
	}
	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.Public, r.settings.Action = []string{"chat.post"}, action })
	for seed := range seeds {
		g := &randomScript{Rand: rand.New(rand.NewPCG(uint64(seed), 1))}
		r.save("one", g.script(true, 2))
		r.save("two", g.script(true, 3))
		code := g.script(false, 6)
		var sequences [][]string
		var noticed []bool
		results := map[string]bool{}
		tried := worlds
		if *long { // each program in two, all pairs in turn
			i := seed % len(worlds)
			tried = []string{worlds[i], worlds[(i+1+seed/len(worlds)%(len(worlds)-1))%len(worlds)]}
		}
		for _, mails := range tried {
			r.mails, r.note, r.draft, r.inherited = mails, "", "", map[string]flow.Labels{}
			r.session = flowSession{}
			run := r.run(t, code)
			if run.record.FlowLabels() == nil { // the run has read no answer in which the worlds differ
				unlabelled++
				break
			}
			noticed = append(noticed, r.session.flagged)
			sequences = append(sequences, run.sent("chat.post"))
			sent += len(run.sent("chat.post"))
			if run.class == "permission" {
				denied++
				if strings.Contains(string(run.reply.Result), secret) {
					t.Errorf("seed %d: a denial has the secret: %s", seed, run.reply.Result)
				}
			} else if run.class == "" && !run.labels.Has(flow.Private) && strings.Contains(string(run.reply.Result), `"ifc"`) {
				public++
				results[get(t, run.reply, "structuredContent", "result")] = true
			}
		}
		if len(results) > 1 {
			t.Errorf("seed %d: results that are said to be public: %v\n%s", seed, results, code)
		}
		for i, a := range sequences {
			for _, b := range sequences {
				if action == flow.Deny && len(a) < len(b) && !noticed[i] {
					t.Errorf("seed %d: nobody has noticed that %q was sent, and not %q\n%s\none:\n%s\ntwo:\n%s", seed, a, b, code, r.saved["one"].Code, r.saved["two"].Code)
				}
				if n := min(len(a), len(b)); !slices.Equal(a[:n], b[:n]) {
					t.Fatalf("seed %d: sent %q and %q\n%s\none:\n%s\ntwo:\n%s", seed, a, b, code, r.saved["one"].Code, r.saved["two"].Code)
				}
			}
		}
	}
	t.Logf("%d scripts, %d without labels: %d calls of sinks, %d runs denied, %d with public results", seeds, unlabelled, sent, denied, public)
	if sent < seeds/2 || denied < seeds/4 && action == flow.Deny || public == 0 {
		t.Error("the scripts do not try much")
	}
}
