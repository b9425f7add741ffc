package smoke

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// edit puts other text in a place of a file.
type edit struct {
	at   config.Span
	text string
}

// renewed makes edits out of what was not as expected, so that it would have
// been. What cannot be changed stays a problem, which says why.
func (c *checkRun) renewed(problems []report.Problem) (edits []edit, left []report.Problem) {
	for _, p := range problems {
		at := slices.IndexFunc(c.wants, func(w want) bool { return "expect."+w.key == p.What })
		if at < 0 {
			left = append(left, p)
			continue
		}
		e, err := c.renew(c.wants[at])
		if err != nil {
			p.Message += " (--update leaves it: " + err.Error() + ")"
			left = append(left, p)
			continue
		}
		edits = append(edits, e)
	}
	return edits, left
}

// renew makes the edit of one expectation.
func (c *checkRun) renew(w want) (edit, error) {
	written := string(c.of.file.data[w.written.From:w.written.To])
	switch {
	case w.renew == nil:
		return edit{}, cannot("it is for people to say")
	case written == "":
		return edit{}, cannot("it is a table of several lines; write it as expect.%s = …", w.key)
	case strings.Contains(strings.ReplaceAll(written, "$${", ""), "${"):
		return edit{}, cannot("it has a variable in it")
	}
	text, err := w.renew(c.answer)
	if err == nil && c.of.mask(text) != text {
		err = cannot("the answer has a secret in it")
	}
	return edit{w.written, text}, err
}

// apply is data with edits, of which none overlap.
func apply(data []byte, edits []edit) []byte {
	edits = slices.Clone(edits)
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.at.From, b.at.From) })
	var out bytes.Buffer
	from := 0
	for _, e := range edits {
		out.Write(data[from:e.at.From])
		out.WriteString(e.text)
		from = e.at.To
	}
	out.Write(data[from:])
	return out.Bytes()
}

// rewrite writes the file with edits, if it is still what was read and its new
// text can be read.
func (f *fileRun) rewrite(opts LoadOptions, edits []edit) error {
	now, err := config.ReadFile(opts.Load, f.path)
	if err != nil {
		return fmt.Errorf("not updated: %w", err)
	}
	if !bytes.Equal(now, f.file.data) {
		return fmt.Errorf("%s is not updated: %w", f.path, errChanged)
	}
	text := apply(now, edits)
	if _, err := Parse(f.path, text, opts); err != nil {
		return fmt.Errorf("%s is not updated: it could not be read any more: %w", f.path, err)
	}
	if err := (regular.Place{Name: f.path}).Replace(text, 0o644); err != nil {
		return fmt.Errorf("%s is not updated: %w", f.path, err)
	}
	return nil
}
