package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Text returns a plan for readers, with the whole content of its JSON. The text is safe to show in
// a terminal.
func (f *File) Text() string {
	p := &f.Plan
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s of %s: %s\n", p.ID, name(p), summary(p))
	field := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-8s %s\n", name, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "\n           "))
	}
	field("digest", "%s", f.Digest)
	field("made", "%s, good until %s", stamp(p.Created), stamp(p.Expires))
	if p.After != "" {
		field("after", "plan %s", p.After)
	}
	field("tool", "%s, digest %s", name(p), p.ToolDigest)
	if p.Code != "" {
		field("code", "%s", display.Text(p.Code))
	}
	field("params", "%s", shown(p.Params))
	if p.Meta != nil {
		field("meta", "%s", shown(p.Meta))
	}
	writeSteps(&b, p)
	switch {
	case p.Open != nil:
		b.WriteString("\nleft open: " + p.Open.text())
	case p.Result != nil:
		b.WriteString("\nresult: " + shown(p.Result) + "\n")
	}
	b.WriteString("\nbound to\n")
	for _, u := range p.Permissions {
		fmt.Fprintf(&b, "  %s, digest %s\n", display.Line(u.Tool, maxShown), u.Digest)
	}
	if p.Reads != nil || p.Writes != nil {
		fmt.Fprintf(&b, "  reads = %q, writes = %q\n", p.Reads, p.Writes)
	}
	fmt.Fprintf(&b, "  limits: %s\n", p.Limits.text())
	fmt.Fprintf(&b, "  clock %d, seed %d, guest %s, format %d\n", p.Now, p.Seed, p.Guest, p.Version)
	return b.String()
}

// name returns the name of the tool of a plan, to show.
func name(p *Plan) string { return display.Line(p.Name(), maxShown) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// summary counts the steps of a plan.
func summary(p *Plan) string {
	reads, undos := 0, 0
	for i := range p.Steps {
		switch p.Steps[i].Do {
		case Read:
			reads++
		case Undo:
			undos++
		}
	}
	text := fmt.Sprintf("%s, %s", count(p.Count(), "write"), count(reads, "read"))
	if undos > 0 {
		text += fmt.Sprintf(", %s if it fails", count(undos, "compensation"))
	}
	if p.Open != nil {
		text += ", and more that is not known yet"
	}
	return text
}

func count(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func writeSteps(b *strings.Builder, p *Plan) {
	if len(p.Before) > 0 {
		b.WriteString("\ndone by the plans before\n")
		for i := range p.Before {
			b.WriteString(p.Before[i].text(p))
		}
	}
	b.WriteString("\nsteps\n")
	for i := range p.Steps {
		b.WriteString(p.Steps[i].text(p))
	}
	if len(p.Steps) == 0 {
		b.WriteString("  none\n")
	}
}

// text returns a step for readers, in lines.
func (s *Step) text(p *Plan) string {
	var b strings.Builder
	head := string(s.Do)
	switch s.Do {
	case Write:
		head = fmt.Sprintf("WRITE %d", s.Write)
	case Undo:
		head = "if it fails"
	case Commit:
		return "  commit: what is done so far is not undone any more\n"
	}
	fmt.Fprintf(&b, "  %s: %s", head, display.Line(s.name(), maxShown))
	if s.Raw {
		b.WriteString(" (whole result)")
	}
	if s.Script != cmp.Or(p.Tool, compose.EvalName) {
		fmt.Fprintf(&b, ", by %s", display.Line(s.Script, maxShown))
	}
	b.WriteString("\n")
	line := func(text string) { b.WriteString("      " + strings.ReplaceAll(text, "\n", "\n      ") + "\n") }
	line(shown(s.Arguments))
	if s.Meta != nil {
		line("meta " + shown(s.Meta))
	}
	if s.Answer != "" {
		line("answer " + s.Answer)
	}
	if s.Policy != "" {
		line("policy: " + display.Text(s.Policy))
	}
	return b.String()
}

func (o *Open) text() string {
	text := strings.ReplaceAll(display.Text(o.Reason), "\n", "\n      ") + "\n" // no line of the reason looks like a step
	if o.Line > 0 {
		text += fmt.Sprintf("  at line %d of %s: %s\n", o.Line, display.Line(o.Script, maxShown), display.Line(o.Source, maxShown))
	}
	return text
}

func (l *Limits) text() string {
	return fmt.Sprintf("%s, %s of memory, %d fuel, %d calls, arguments %s, answer %s, result %s, logs %s", display.Line(l.Timeout, maxShown),
		units.FormatSize(l.Memory), l.Fuel, l.Calls, size(l.Arguments), size(l.Answer), size(l.Result), size(l.Logs))
}

func size(n int) string { return units.FormatSize(uint64(max(0, n))) }

// shownWidth is how long JSON on a line may be.
const shownWidth = 100

// reference finds references in JSON that has been checked (badRefs). The pattern cannot match in a
// string, where a quote has a backslash before it.
var reference = lazyregexp.New(`\{\s*"\$withheld":\s*([0-9]+)\s*\}`)

// shown returns JSON of a plan for readers. A reference has no quotes, so no text can look like a
// reference.
func shown(raw []byte) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return display.Text(string(raw))
	}
	if b.Len() > shownWidth {
		b.Reset()
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return display.Text(string(raw))
		}
	}
	return reference.ReplaceAllString(display.Text(b.String()), "<the answer of write $1>")
}

// Text returns the outcome of the writes of a plan, a line for each.
func (o *Outcome) Text() string { return MadeText(o.Made) }

// MadeText returns the outcome of writes for readers, a line for each.
func MadeText(all []Made) string {
	var b strings.Builder
	for _, m := range all {
		fmt.Fprintf(&b, "  write %d, %s: %s", m.Write, display.Line(m.Call, maxShown), m.State)
		if m.Message != "" {
			fmt.Fprintf(&b, " (%s)", display.Line(m.Message, maxShown))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Text returns the outcome of a plan for readers, with advice for an unknown outcome.
func (a *Aftermath) Text() string {
	var b strings.Builder
	b.WriteString(MadeText(a.Made))
	unknown := false
	for _, m := range a.Made {
		unknown = unknown || m.State == IsUnknown || m.State == Failed
	}
	if !a.Ended {
		fmt.Fprintf(&b, "\nrun %s has not ended: it goes on, or its process was stopped. What was made stays made.\n", a.Run)
	}
	for i, u := range a.Left {
		if i == 0 {
			b.WriteString("These compensations were not made:\n")
		}
		fmt.Fprintf(&b, "  %s %s\n", display.Line(u.name(), maxShown), shown(u.Arguments))
	}
	if !a.Ended || unknown {
		if a.Ended {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "Look at the servers, and at mcp-metatool runs show %s, before you make a new plan.\n", a.Run)
	}
	return b.String()
}
