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

// edit replaces a part of a file.
type edit struct {
	at   config.Span
	text string
}

// updates returns the edits that would make the expectations meet the answer. Other problems are
// left, with the reason.
func (c *checkRun) updates(problems []report.Problem) (edits []edit, left []report.Problem) {
	for _, p := range problems {
		at := slices.IndexFunc(c.wants, func(w want) bool { return "expect."+w.key == p.Expectation })
		if at < 0 {
			left = append(left, p)
			continue
		}
		e, err := c.update(c.wants[at])
		if err != nil {
			p.Message += " (--update leaves it: " + err.Error() + ")"
			left = append(left, p)
			continue
		}
		edits = append(edits, e)
	}
	return edits, left
}

// update returns the edit of an expectation.
func (c *checkRun) update(w want) (edit, error) {
	at, err := c.target(w)
	if err != nil {
		return edit{}, err
	}
	text, err := w.update(c.answer)
	if err == nil && c.fileRun.mask(text) != text {
		err = notUpdatable("the answer contains a secret")
	}
	return edit{at, text}, err
}

// target returns the part of the file that an update of an expectation replaces.
func (c *checkRun) target(w want) (config.Span, error) {
	written := string(c.fileRun.file.data[w.written.From:w.written.To])
	switch {
	case w.update == nil:
		return config.Span{}, notUpdatable("it can only be written by hand")
	case written == "":
		return config.Span{}, notUpdatable("it is a table of several lines; write it as expect.%s = …", w.key)
	case c.Row > 0:
		return c.cell(written)
	case strings.Contains(strings.ReplaceAll(written, "$${", ""), "${"):
		return config.Span{}, notUpdatable("it contains a variable")
	case config.HasReferences(written):
		return config.Span{}, notUpdatable("it contains a reference")
	}
	return w.written, nil
}

// cell returns the cell of the check's row for an expectation's reference, if no other key refers
// to the cell.
func (c *checkRun) cell(written string) (config.Span, error) {
	column, whole := config.ReferenceIn(strings.Trim(written, `"'`))
	if !config.HasReferences(written) {
		return config.Span{}, notUpdatable("all rows share it; give the rows a column for it")
	}
	at, inline := c.from.row.cells[column]
	switch {
	case !whole || !c.from.row.has(column):
		return config.Span{}, notUpdatable("it contains a reference")
	case !inline:
		return config.Span{}, notUpdatable("its value is in the file of the rows; change it there")
	case c.uses[column] != 1:
		return config.Span{}, notUpdatable("other keys of the check use {{%s}} too", column)
	case strings.Contains(strings.ReplaceAll(string(c.fileRun.file.data[at.From:at.To]), "$${", ""), "${"):
		return config.Span{}, notUpdatable("its value contains a variable")
	case at.From == at.To:
		return config.Span{}, notUpdatable("its value is a table of several lines")
	}
	return at, nil
}

// apply applies edits to data. The edits must not overlap.
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

// rewrite applies edits to the file, if the file has not changed since the reading and the new text
// can be parsed.
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
		return fmt.Errorf("%s is not updated: its new text cannot be parsed: %w", f.path, err)
	}
	if err := (regular.Place{Name: f.path}).Replace(text, 0o644); err != nil {
		return fmt.Errorf("%s is not updated: %w", f.path, err)
	}
	return nil
}
