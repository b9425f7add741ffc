package report

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// maxMarkdown bounds a step summary in bytes. GitHub accepts 1 MiB for a step and shows nothing of
// a longer summary.
const maxMarkdown = 900 << 10

// marks are the states in the table of the summary.
var marks = map[Status]string{Passed: "✅ passed", Failed: "❌ failed", Skipped: "➖ skipped", Broken: "❌ broken"}

// markdown returns the step summary: a table of all checks, then the details of the checks without
// success. Omitted parts are mentioned.
func markdown(files []File, s Summary) string {
	m := document{}
	m.add(fmt.Sprintf("### Smoke checks: %s\n\n", text(s.String())))
	m.add("| check | file | result | time |\n| --- | --- | --- | --: |\n")
	for _, f := range files {
		if f.Err != nil {
			m.add(fmt.Sprintf("| | %s | ❌ could not be run | |\n", text(f.Path)))
		}
		for _, r := range f.Results {
			name, took := text(r.title()), clock(r.Duration)
			if len(r.Tags) > 0 {
				name += " <sub>" + text(strings.Join(r.Tags, ", ")) + "</sub>"
			}
			if r.Attempts > 1 {
				took += fmt.Sprintf(", %d attempts", r.Attempts)
			}
			m.add(fmt.Sprintf("| %s | %s | %s | %s |\n", name, text(r.File), marks[r.Status], took))
		}
	}
	m.notes(s)
	for _, f := range files {
		if f.Err != nil {
			m.details(f.Path, []string{display.Escape(f.Err.Error())})
		}
		for _, r := range f.Results {
			if r.Status == Failed || r.Status == Broken {
				m.details(r.title(), detailsOf(r, false))
			}
		}
	}
	return m.end()
}

// document is Markdown of bounded size.
type document struct {
	b    strings.Builder
	full bool
}

func (m *document) add(s string) {
	if m.full = m.full || m.b.Len()+len(s) > maxMarkdown; !m.full {
		m.b.WriteString(s)
	}
}

func (m *document) details(title string, lines []string) {
	body := strings.Join(lines, "\n")
	fence := "```"
	for strings.Contains(body, fence) {
		fence += "`"
	}
	m.add(fmt.Sprintf("\n<details><summary>%s</summary>\n\n%stext\n%s\n%s\n\n</details>\n", text(title), fence, body, fence))
}

// notes adds a table of the coverage of tools, and the snapshots without a check.
func (m *document) notes(s Summary) {
	if c := s.Coverage; c != nil {
		m.add(fmt.Sprintf("\n#### %s\n\n| server | tools called | not called |\n| --- | --- | --- |\n", text(c.String())))
		for i := range c.Servers {
			names := c.Servers[i].Uncalled()
			if more := len(names) - maxNotes; more > 0 {
				names = append(names[:maxNotes], fmt.Sprintf("%d more", more))
			}
			m.add(fmt.Sprintf("| %s | %s | %s |\n", text(c.Servers[i].Name), text(c.Servers[i].state()), text(strings.Join(names, ", "))))
		}
	}
	if len(s.Stale) > 0 {
		m.details("snapshots without a check", indented(s.Stale))
	}
}

func (m *document) end() string {
	if m.full {
		m.b.WriteString("\nMore did not fit here: see the log.\n")
	}
	return m.b.String()
}

// text escapes all characters with a meaning in Markdown or HTML.
func text(s string) string {
	var b strings.Builder
	for _, r := range display.EscapeLine(s) {
		if r < 0x80 && strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r) {
			fmt.Fprintf(&b, "&#%d;", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
