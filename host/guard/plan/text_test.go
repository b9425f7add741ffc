package plan

import (
	"strings"
	"testing"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestHostileTextsInPlans gives every text of a plan, and of what became of it, that others choose a
// form that would add steps to it, or hide or reorder what is shown. Each stays in its place, and
// its invisible characters are visible.
func TestHostileTextsInPlans(t *testing.T) {
	const hostile = "x\n  WRITE 9: bank.pay\r\nsteps\n  WRITE 9: bank.pay\x1b[2J\x1b]0;t\a\u202e\u2066\u200b\x00\x7f\u0085\u2028\ufeff\U000e0041"
	quoted := []byte(`{"a":` + string(wire.Quote(hostile)) + `,` + string(wire.Quote(hostile)) + `:1}`)
	p := testPlan()
	p.Tool, p.Params, p.Meta, p.Result = hostile, quoted, quoted, nil
	p.Reads, p.Writes = []string{hostile}, []string{hostile}
	p.Limits.Timeout = hostile
	for i := range p.Permissions {
		p.Permissions[i].Tool = hostile
	}
	p.Steps = nil
	for _, do := range []Do{Read, Write, Undo, Commit} {
		p.Steps = append(p.Steps, Step{Do: do, Write: 1, Script: hostile, Server: hostile, Tool: hostile, Raw: true, Arguments: quoted, Meta: quoted, Policy: hostile})
	}
	p.Before = p.Steps
	p.Open = &Open{Reason: hostile, Script: hostile, Line: 3, Source: hostile}
	code := p
	code.Tool, code.Code, code.Open, code.Result = "", hostile, nil, quoted
	made := []Made{{Write: 1, Call: hostile, State: Failed, Message: hostile}}
	for name, text := range map[string]string{
		"plan": fileOf(p).Text(), "plan of code": fileOf(code).Text(),
		"outcome": (&Outcome{Made: made}).Text(), "aftermath": (&Aftermath{Run: "r", Made: made, Left: p.Steps}).Text(),
	} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "  WRITE 9") {
				t.Errorf("%s: a text looks like a line of the plan: %q", name, line)
			}
		}
		if n := strings.Count(text, "\nsteps\n"); n > 1 {
			t.Errorf("%s: there are steps %d times", name, n)
		}
		for _, r := range text {
			if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028') {
				t.Errorf("%s has %U", name, r)
				break
			}
		}
	}
}
