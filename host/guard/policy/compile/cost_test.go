package compile

import (
	"fmt"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// listOf returns a JSON array of n equal items.
func listOf(n int, item string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
}

// TestCostsFollowTheWork checks that a condition which looks at much, in whatever way, fails
// by its cost. Each took seconds with the costs of the library.
func TestCostsFollowTheWork(t *testing.T) {
	text := `"` + strings.Repeat("a", 300_000) + `"`
	list := listOf(12_000, "1")
	other := list[:len(list)-2] + "2]"
	items := listOf(1900, "1")
	const costly = "it costs more than 1000000"
	for _, test := range []struct{ when, x, y, why string }{
		{`args.i.exists(i, args.x == args.y)`, list, other, costly},
		{`args.i.exists(i, args.x != args.y)`, "[" + list + "]", "[" + list + "]", costly},
		{`args.i.exists(i, args.x in [args.y])`, list, other, costly},
		{`args.i.exists(i, {"k": [args.x]} in [{"k": [args.y]}])`, list, other, costly},
		{`args.i.map(i, args.x) == args.i.map(i, args.y)`, list, list, costly},
		{`args.i.exists(i, {"a": args.x} == {"a": args.y})`, list, other, costly},
		{`args.i.exists(i, "%s".format([args.x]) == "")`, list, list, costly},
		{`args.i.exists(i, (args.x + args.y).size() == 3)`, text, text, costly},
		{`args.i.exists(i, args.x.size() == 3)`, text, text, costly},
		{`args.i.exists(i, string(args.x) == "")`, text, text, costly},
		{`args.i.exists(i, timestamp(args.x) == timestamp(args.y))`, text, text, costly},
		{`args.i.exists(i, args.x < args.y)`, text, text, costly},
		{`args.x.matches("^(a?){30}b$")`, text, text, costly},
		{`args.i.exists(i, args.x.matches("a{1,5}b"))`, text[:100_000] + `"`, text, costly},
		// What is looked at once may be large.
		{`args.x == args.y`, list, list, ""},
		{`"b" in args.x || args.x.size() == 12000`, list, list, ""},
		{`args.i.all(i, i in [1, 2, 3]) && !(args.x in args.i)`, list, list, ""},
		{`args.x.matches("^a+$")`, text, text, ""},
		{`args.x.contains("aab") || args.x.startsWith(args.y)`, text, text, ""},
		{`args.i.filter(i, i == 1).size() == 1900 / 2 || args.x == args.y`, text, text, ""},
	} {
		arguments := fmt.Sprintf(`{"i":%s,"x":%s,"y":%s}`, items, test.x, test.y)
		if strings.Contains(test.when, "map") || strings.Contains(test.when, "filter") {
			arguments = fmt.Sprintf(`{"i":%s,"x":%s,"y":%s}`, listOf(950, "1"), test.x, test.y)
		}
		d, _ := compile(t, policy.Allow, policy.Rule{Name: "x", When: test.when, Action: policy.Allow}).Explain(tool("a", "b", arguments))
		if d.Allowed() != (test.why == "") || !strings.HasSuffix(d.Reason, test.why) {
			t.Errorf("%s: %s %s, want %s", test.when, d.Action, d.Reason, test.why)
		}
	}
}

// TestPatternsOfConditions checks that regular expressions may have repetitions, and are in
// quotes and bounded.
func TestPatternsOfConditions(t *testing.T) {
	p := compile(t, policy.Allow, policy.Rule{Name: "x", When: `args.x.matches("^[0-9]{4}( [0-9]{4}){3}$") || matches(args.x, "b{2,}")`, Action: policy.Deny})
	for x, denied := range map[string]bool{"1234 1234 1234 1234": true, "1234": false, "abb": true} {
		if d, _ := p.Explain(tool("a", "b", `{"x":"`+x+`"}`)); d.Allowed() == denied {
			t.Errorf("%s: %s", x, d.Action)
		}
	}
	for when, want := range map[string]string{
		`args.x.matches(args.y)`:                  "19: the pattern of matches() must be a text in quotes",
		`args.x.matches("(a{30}){30}{30}")`:       "15: invalid matches argument",
		`args.x.matches("(a{30}){20}")`:           "", // with all its repetitions
		`args.x.matches("(a{40}){25}")`:           "15: the regular expression is too large",
		`matches("x", "(" + args.x)`:              "17: the pattern of matches() must be",
		`args.x.exists(i, i.matches("(?P<n>a)"))`: "",
	} {
		got := ""
		if _, errs := Rules(policy.Allow, policy.Rule{Name: "x", When: when, Action: policy.Deny}); len(errs) > 0 {
			got = fmt.Sprintf("%d: %s", errs[0].Offset, errs[0].Text)
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
}

// TestSearching checks that our indexOf and lastIndexOf do the same as those of the library.
func TestSearching(t *testing.T) {
	vars := []cel.EnvOption{cel.Variable("s", cel.StringType), cel.Variable("p", cel.StringType), cel.Variable("o", cel.IntType), ext.Strings(ext.StringsVersion(5))}
	library, err := cel.NewEnv(vars...)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := cel.NewEnv(append(vars, searching()...)...)
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{"", "a", "ä", "aä", "äaäaäa", "aaaa", "hello mellow", "日本語日本", "x😀y😀"}
	parts := []string{"", "a", "ä", "aa", "äa", "ello", "語日", "😀", "zz", "aaaaaaaaa"}
	for _, call := range []string{"s.indexOf(p)", "s.indexOf(p, o)", "s.lastIndexOf(p)", "s.lastIndexOf(p, o)"} {
		var programs []cel.Program
		for _, env := range []*cel.Env{library, ours} {
			checked, issues := env.Compile(call)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			program, err := env.Program(checked)
			if err != nil {
				t.Fatal(err)
			}
			programs = append(programs, program)
		}
		for _, s := range texts {
			for _, p := range parts {
				for o := -1; o < 14; o++ {
					values := map[string]any{"s": s, "p": p, "o": o}
					want, _, wrong := programs[0].Eval(values)
					got, _, err := programs[1].Eval(values)
					if (err == nil) != (wrong == nil) || err == nil && got.Value() != want.Value() {
						t.Errorf("%s of %q, %q, %d: %v %v, want %v %v", call, s, p, o, got, err, want, wrong)
					}
				}
			}
		}
	}
}
