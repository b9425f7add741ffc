package report

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// maxMarkdown bounds a step summary in bytes. GitHub accepts 1 MiB for a step and shows
// nothing of a longer one.
const maxMarkdown = 900 << 10

// marks are the states in the table of the summary.
var marks = map[Status]string{Passed: "✅ passed", Failed: "❌ failed", Skipped: "➖ skipped", Broken: "❌ broken"}

// markdown returns the step summary: a table of all checks, then the details of those that
// did not pass. It says so if something does not fit.
func markdown(files []File, s Summary) string {
	m := document{}
	m.add(fmt.Sprintf("### Smoke checks: %s\n\n", text(s.String())))
	m.add("| check | file | result | time |\n| --- | --- | --- | --: |\n")
	for _, f := range files {
		if f.Err != nil {
			m.add(fmt.Sprintf("| | %s | ❌ could not be run | |\n", text(f.Path)))
		}
		for _, r := range f.Results {
			m.add(fmt.Sprintf("| %s | %s | %s | %s |\n", text(r.Name), text(r.File), marks[r.Status], clock(r.Duration)))
		}
	}
	for _, f := range files {
		if f.Err != nil {
			m.details(f.Path, []string{display.Escape(f.Err.Error())})
		}
		for _, r := range f.Results {
			if r.Status == Failed || r.Status == Broken {
				m.details(r.Name, detailsOf(r, false))
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

func (m *document) end() string {
	if m.full {
		m.b.WriteString("\nMore did not fit here: see the log.\n")
	}
	return m.b.String()
}

// text escapes everything that has a meaning in Markdown or HTML.
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
