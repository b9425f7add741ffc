package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv/linear"
)

// schemaCatalog has tools with a common inputSchema.
type schemaCatalog struct {
	Catalog
	schema []byte
	asked  func() // is called for each schema; may be nil
}

func (c schemaCatalog) InputSchema(string, string) []byte {
	if c.asked != nil {
		c.asked()
	}
	return c.schema
}

// linted is a sandbox with the calls of found in each script.
func linted(t testing.TB, found abi.Lint) oneOutcome {
	t.Helper()
	result, err := json.Marshal(found)
	if err != nil {
		t.Fatal(err)
	}
	return oneOutcome{outcome: sandbox.Outcome{Result: result}}
}

// called are calls of a tool with arguments shown by the code in part, wholly, and not at all.
func called(tool string) []abi.NamedTool {
	at := func(line int) abi.Position { return abi.Position{Line: line, Column: 1} }
	return []abi.NamedTool{
		{Server: "s", Tool: tool, Position: at(1), Arguments: []byte(`{"x":null,"name":"a"}`), Unknown: []string{"/x"}},
		{Server: "s", Tool: tool, Position: at(2), Arguments: []byte(`{"name":1,"timeout":2}`)},
		{Server: "s", Tool: tool, Position: at(3)},
	}
}

// lintedSchemas make an inputSchema with a hostile value in each place read by Lint.
var lintedSchemas = []string{
	`%s`, `{"type":"object","properties":%s}`, `{"type":"object","required":%s}`, `{"properties":{"name":%s},"required":["name"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"default":%s}},"required":["a"],"additionalProperties":%s}`,
}

// TestLinearLint checks that no inputSchema makes Lint work out of proportion to the schema's size.
func TestLinearLint(t *testing.T) {
	for _, shape := range linear.Shapes {
		t.Run(shape.Name, func(t *testing.T) {
			for _, form := range lintedSchemas {
				var u upstreams
				u.result("s.x", `{"content":[]}`)
				found := abi.Lint{Calls: called("x"), Params: []abi.NamedParam{{Name: "nome"}, {Name: "other"}}}
				c := composer(linted(t, found), &u)
				real := c.cfg.Catalog
				lint := func(raw []byte) {
					c.cfg.Catalog = schemaCatalog{Catalog: real, schema: raw}
					if _, err := c.LintTool(t.Context(), tools.Definition{Name: "job", Code: "x", InputSchema: raw}); err != nil {
						t.Fatal(err)
					}
				}
				linear.Check(t, func(size int) []byte {
					raw := []byte(strings.ReplaceAll(form, "%s", string(shape.Make(size, "name"))))
					lint(raw) // to have the schema compiled before
					return raw
				}, lint)
			}
		})
	}
}

// TestLintIsMetered checks that a hostile schema costs fuel of the account in every use by Lint,
// that the rest is then left out, and that warnings are few.
func TestLintIsMetered(t *testing.T) {
	var names, properties []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf(`"name%d"`, i))
	}
	for i := range 1000 {
		properties = append(properties, fmt.Sprintf(`"name%d":{"description":%q}`, i, strings.Repeat("x", 200)))
	}
	required := `"required":[` + strings.Join(names, ",") + `]`
	known := `"properties":{` + strings.Join(properties, ",") + `}`
	few := abi.Lint{Calls: called("x"), Params: []abi.NamedParam{{Name: "nome"}}}
	many := few
	for range 1000 {
		many.Calls = append(many.Calls, called("x")[0])
		many.Params = append(many.Params, abi.NamedParam{Name: "nome", Position: abi.Position{Line: len(many.Params)}})
	}
	for _, tt := range []struct {
		name   string
		schema string
		own    bool // the schema is the schema of the tool itself
		found  abi.Lint
		fuel   uint64
		want   int    // warnings
		about  string // of a warning about an unchecked part
	}{
		{"required", `{` + required + `}`, false, few, 1_000_000_000, maxWarnings, ""},
		{"required, little fuel", `{` + required + `}`, false, few, 2_000_000, 1, "calls from here on"},
		{"properties, little fuel", `{` + known + `}`, false, few, 2_000_000, 1, "calls from here on"},
		{"many calls", `{` + known + `,"additionalProperties":{}}`, false, many, 100_000_000, 2, "calls from here on"},
		{"own, little fuel", `{` + known + `}`, true, few, 1_000_000, 2, "names of arguments"},
		{"own", `{` + known + `}`, true, many, 1_000_000_000, maxWarnings, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var u upstreams
			u.result("s.x", `{"content":[]}`)
			c := composer(linted(t, tt.found), &u, func(o *Options) {
				o.Catalog = schemaCatalog{Catalog: o.Catalog}
				o.Limits = sandbox.Limits{Fuel: tt.fuel}
			})
			def := tools.Definition{Name: "job", Code: "x"}
			if tt.own {
				def.InputSchema = []byte(tt.schema)
			} else {
				c.cfg.Catalog = schemaCatalog{Catalog: u.catalog(), schema: []byte(tt.schema)}
			}
			found, err := c.LintTool(t.Context(), def)
			if err != nil || len(found) != tt.want {
				t.Errorf("%d warnings, %v, want %d", len(found), err, tt.want)
			}
			about := ""
			for _, w := range found {
				if w.Unchecked {
					about += w.Message
				}
			}
			if tt.about == "" && about != "" || !strings.HasPrefix(about, tt.about) || about != "" && !strings.Contains(about, "units of fuel") {
				t.Errorf("not checked: %q, want %q", about, tt.about)
			}
		})
	}
}

// TestLintIsBounded checks that literal arguments are checked within the limits of a run against a
// schema that takes minutes.
func TestLintIsBounded(t *testing.T) {
	var u upstreams
	u.result("s.hostile", `{"content":[]}`)
	c := composer(sandboxtest.Guest(t), &u, func(o *Options) {
		o.Catalog = observedCatalog{o.Catalog, nil}
		o.Limits = sandbox.Limits{Fuel: 100_000_000}
	})
	code := "s.hostile(x='" + strings.Repeat("x", 100_000) + "')"
	warnings, err := c.Lint(t.Context(), "job", code)
	if err != nil || len(warnings) != 1 || !warnings[0].Unchecked || !strings.Contains(warnings[0].Message, "more than 100000000 units of fuel") {
		t.Errorf("%d warnings, %v", len(warnings), err)
	}
}

// TestLintStops checks that Lint ends with Lint's context, between two calls.
func TestLintStops(t *testing.T) {
	var u upstreams
	for _, tool := range []string{"a", "b", "c"} {
		u.result("s."+tool, `{"content":[]}`)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	c := composer(linted(t, abi.Lint{Calls: append(called("a"), append(called("b"), called("c")...)...)}), &u)
	c.cfg.Catalog = schemaCatalog{Catalog: c.cfg.Catalog, schema: []byte(`{}`), asked: func() { asked++; cancel() }}
	var f *Failure
	if _, err := c.Lint(ctx, "job", "x"); !errors.As(err, &f) || f.Type != abi.ErrCancelled || asked != 1 {
		t.Errorf("%v after %d schemas", err, asked)
	}
}

// TestLintFollowsFewTools checks that saved tools are analysed once, and few of them, however
// often they are called.
func TestLintFollowsFewTools(t *testing.T) {
	saved, analysed := savedTools{}, 0
	found := abi.Lint{}
	for i := range 3 * maxFollowed {
		name := fmt.Sprintf("t%d", i)
		saved.add(name, name)
		for range 3 {
			found.Calls = append(found.Calls, abi.NamedTool{Server: abi.Composites, Tool: name})
		}
	}
	var u upstreams
	c := composer(counting{linted(t, found), &analysed}, &u, func(o *Options) { o.Saved = saved })
	if warnings, err := c.Lint(t.Context(), "job", "x"); err != nil || len(warnings) > 0 || analysed != 1+maxFollowed {
		t.Errorf("%d scripts were analysed: %v, %v", analysed, warnings, err)
	}
}

// counting counts the runs of a sandbox.
type counting struct {
	oneOutcome
	runs *int
}

func (c counting) Run(ctx context.Context, r sandbox.Run) (sandbox.Outcome, error) {
	*c.runs++
	return c.oneOutcome.Run(ctx, r)
}
