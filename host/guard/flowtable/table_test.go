package flowtable

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var (
	long   = flag.Bool("long", false, "check many more random programs, and the table with other settings")
	update = flag.Bool("update", false, "write testdata/verdicts.golden anew")
)

// caseWorld is one of the worlds of a case.
type caseWorld struct {
	*testCase
	own answers // A or B
}

// answer implements world.
func (w caseWorld) answer(tool string, args map[string]any, n int, s *notes) answer {
	server, _, _ := strings.Cut(tool, ".")
	spec := choose(answerOf(w.own, tool), args, s.last[server], n)
	if spec == nil {
		spec = choose(answerOf(w.Same, tool), args, s.last[server], n)
	}
	if spec == nil {
		if a, ok := s.tool(tool, args); ok {
			return a
		}
	}
	if m, ok := spec.(map[string]any); ok {
		if member, ok := m["$asked"].(string); ok {
			spec = map[string]any{member: string(s.asked)}
		}
		if member, ok := m["$calls"].(string); ok {
			spec = map[string]any{member: s.asks[server]}
		}
	}
	return read(spec)
}

// A method is a column of the table: the product with a configuration, or something to compare
// with.
type method struct {
	name    string
	flow    string // of the product: what testdata/flow.toml becomes
	not     filter // what is no part of the product
	attacks bool   // useful scripts are left out
}

// bench has the rigs of a test, by their configuration.
type bench struct {
	saved map[string]string
	rigs  map[string]*rig
}

func newBench(cases []*testCase) *bench {
	b := &bench{saved: map[string]string{}, rigs: map[string]*rig{}}
	for _, c := range cases {
		maps.Copy(b.saved, c.Saved)
	}
	return b
}

// common are settings of all rigs: calls of a batch reach their servers in order.
const common = "[execution]\nmax_parallel = 1\n"

// both runs a case in its two worlds. flow is the section [flow], with what follows it.
func (b *bench) both(t testing.TB, c *testCase, flow string) (x, y outcome) {
	settings := c.Settings + "\n" + flow
	if !strings.Contains(settings, "[execution]") {
		settings = common + settings
	}
	if flow != "" {
		settings += c.Flow
	}
	r := b.rigs[settings]
	if r == nil {
		r = newRig(t, settings, b.saved)
		b.rigs[settings] = r
	}
	return r.run(t, caseWorld{c, c.A}, c.Before, c.Script, c.Params), r.run(t, caseWorld{c, c.B}, c.Before, c.Script, c.Params)
}

// methods are the columns of the table. With -long, there are more.
func methods(t testing.TB) []method {
	t.Helper()
	standard, err := os.ReadFile("testdata/flow.toml")
	if err != nil {
		t.Fatal(err)
	}
	all := []method{{name: "deny", flow: string(standard)}}
	if *long {
		all = append([]method{
			{name: "session labels", not: sessionLabels},
			{name: "substring taint, 6 characters", not: substringTaint},
		}, all...)
		all = append(all,
			method{name: "deny, with both labels everywhere", flow: bothLabels(string(standard)), attacks: true},
			method{name: "shadow", flow: withAction(string(standard), "shadow"), attacks: true})
	}
	return all
}

func withAction(flow, action string) string {
	return strings.Replace(flow, `"deny"`, `"`+action+`"`, 1)
}

// bothLabels makes each source private and untrusted, and each sink public and critical.
func bothLabels(flow string) string {
	var lines []string
	for _, line := range strings.Split(flow, "\n") {
		key, _, _ := strings.Cut(line, " ")
		f := patterns().Flow
		switch key {
		case "private", "untrusted":
			line = key + " = " + string(compact(slices.Concat(f.Private, f.Untrusted)))
		case "public", "critical":
			line = key + " = " + string(compact(slices.Concat(f.Public, f.Critical)))
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// TestVerdicts makes the table, and compares its verdicts with those of testdata/verdicts.golden.
// It has one case of each kind. With -long, it has all cases and more columns, and its verdicts are in testdata/verdicts-long.golden.
func TestVerdicts(t *testing.T) {
	cases := readCases(t)
	if t.Failed() {
		t.FailNow()
	}
	if !*long {
		seen := map[string]bool{} // one case of each file
		cases = slices.DeleteFunc(cases, func(c *testCase) bool {
			another := seen[c.file]
			seen[c.file] = true
			return another
		})
	}
	methods := methods(t)
	b := newBench(cases)
	var lines bytes.Buffer
	sums := make([]summary, len(methods))
	for _, c := range cases {
		plainA, plainB := b.both(t, c, "")
		c.checkPlain(t, &plainA, &plainB)
		fmt.Fprintf(&lines, "%s: %s: %s\n", strings.TrimSuffix(filepath.Base(c.file), ".toml"), labelNames[c.label()], c.Name)
		for i, m := range methods {
			var v verdict
			switch {
			case m.attacks && !c.attack:
				continue
			case m.not != nil:
				v = m.not.simulate(c, &plainA, &plainB)
			default:
				x, y := b.both(t, c, m.flow)
				v = judge(c, &x, &y, &plainA, &plainB)
				c.checkProduct(t, m, v, &x, &y)
			}
			sums[i].add(c, v)
			fmt.Fprintf(&lines, "    %-9s  %s\n", v, m.name)
		}
	}
	table := tableText(methods, sums)
	t.Log("\n" + table)
	compareGolden(t, table+"\n"+lines.String())
}

// checkPlain checks that a case is what it says to be when nothing keeps it from it.
func (c *testCase) checkPlain(t testing.TB, a, b *outcome) {
	t.Helper()
	v := compare(a.sinks(c.label()), b.sinks(c.label()))
	switch {
	case c.attack && v == blocked:
		t.Errorf("%s: %q is no attack: the sinks get %q in both worlds (%s %s)", c.file, c.Name, a.sinks(c.label()), a.reply, b.reply)
	case !c.attack && (a.failed != "" || b.failed != ""):
		t.Errorf("%s: %q does not work: %s %s", c.file, c.Name, a.reply, b.reply)
	}
}

// checkProduct checks what must hold of the product whatever the verdict is.
func (c *testCase) checkProduct(t testing.TB, m method, v verdict, x, y *outcome) {
	t.Helper()
	switch {
	case v == through:
		t.Errorf("%s: %q: %s with %q:\nA %q\nB %q\n%s\n%s\n%s", c.file, c.Name, v, m.name, x.sinks(c.label()), y.sinks(c.label()), c.Script, x.reply, y.reply)
	case c.attack && strings.HasPrefix(m.name, "deny") && unnoticed(c.label(), x, y):
		t.Errorf("%s: %q: nobody has noticed with %q:\nA %q\nB %q\n%s\n%s\n%s", c.file, c.Name, m.name, x.sinks(c.label()), y.sinks(c.label()), c.Script, x.reply, y.reply)
	case v == disturbed && c.Person == "":
		t.Logf("%s: %q is disturbed by %q:\n%s\n%s\n%s", c.file, c.Name, m.name, c.Script, x.reply, y.reply)
	case v == fine && c.Person != "":
		t.Errorf("%s: %q is not disturbed by %q, but should be: %s", c.file, c.Name, m.name, c.Person)
	}
}

// summary counts verdicts.
type summary struct {
	count           map[verdict]int
	attacks, useful int
}

func (s *summary) add(c *testCase, v verdict) {
	if s.count == nil {
		s.count = map[verdict]int{}
	}
	s.count[v]++
	if c.attack {
		s.attacks++
	} else {
		s.useful++
	}
}

// tableText is the table as Markdown.
func tableText(methods []method, sums []summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d attacks, %d useful scripts\n\n", sums[0].attacks, sums[0].useful)
	b.WriteString("| method | blocked | progress | through | disturbed |\n|---|---|---|---|---|\n")
	for i, m := range methods {
		n, last := sums[i].count, ""
		if !m.attacks {
			last = fmt.Sprint(sums[i].count[disturbed])
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s |\n", m.name, n[blocked], n[progress], n[through], last)
	}
	return b.String()
}

func compareGolden(t *testing.T, text string) {
	t.Helper()
	name := "testdata/verdicts.golden"
	if *long {
		name = "testdata/verdicts-long.golden"
	}
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(text, "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || got[i] != line {
			t.Errorf("%s, line %d: want %q\n(to accept all changes: go test ./host/guard/flowtable -run TestVerdicts -update)\n%s", name, i+1, line, text)
			return
		}
	}
}

// TestDocumented checks that docs/flow.md has the table of testdata/verdicts-long.golden.
func TestDocumented(t *testing.T) {
	golden, err := os.ReadFile("testdata/verdicts-long.golden")
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile("../../../docs/flow.md")
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(golden), "\n\nattacks-")
	if !strings.Contains(string(document), table) {
		t.Errorf("docs/flow.md has another table than testdata/verdicts-long.golden:\n%s", table)
	}
}
