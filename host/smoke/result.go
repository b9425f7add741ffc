package smoke

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The limits of a report, in bytes.
const (
	maxOutput = 4 << 10 // of an answer
	maxCell   = 200     // of a value in a row
)

// resultOf returns the result of a check, given its answer or an error.
func (c *Check) resultOf(path string, a *answer, err error) report.Result {
	r := c.blankResult(path)
	var failed *failedError
	switch {
	case errors.As(err, &failed):
		r.Status, r.Problems = report.Failed, []report.Problem{{Message: failed.reason, Line: c.Line, Column: c.Column}}
	case err != nil:
		first, rest, _ := strings.Cut(err.Error(), "\n") // rest: the stderr of a server, for example
		r.Status, r.Problems = report.Broken, []report.Problem{{Message: first, Got: rest, Line: c.Line, Column: c.Column}}
		var b *BrokenError
		if errors.As(err, &b) && b.line > 0 {
			r.Problems[0].Line, r.Problems[0].Column = b.line, b.column
		}
	}
	if a == nil {
		return r
	}
	r.Duration = a.took
	if err != nil {
		return r
	}
	r.Logs, r.Output, r.Usage = a.logs(), a.output(), a.usage()
	if r.Problems = c.problems(a); len(r.Problems) > 0 {
		r.Status = report.Failed
	}
	return r
}

// blankResult returns the result of a check that has passed with nothing to report.
func (c *Check) blankResult(path string) report.Result {
	return report.Result{
		Name: c.Name, File: path, Line: c.Line, Column: c.Column, Phase: string(c.Phase), Tags: c.Tags, Status: report.Passed,
		Row: c.from.row.report(),
	}
}

// output returns the answer to a call, for people.
func (a *answer) output() string {
	if a.result == nil {
		return ""
	}
	text := a.text()
	if text == "" {
		text = string(a.value())
	}
	return text
}

// problems compares the answer with the expectations. A basic problem is reported alone,
// since no expectation can be met then.
func (c *Check) problems(a *answer) []report.Problem {
	if p := c.basicProblem(a); p != nil {
		p.Line, p.Column = c.Line, c.Column
		return []report.Problem{*p}
	}
	var problems []report.Problem
	for _, w := range c.wants {
		m := a.missingAnswer(w.key)
		if m == nil {
			m = w.match(a)
		}
		if m != nil {
			p := report.Of("expect."+w.key, m)
			p.Line, p.Column = w.line, w.column
			problems = append(problems, p)
		}
	}
	return problems
}

// basicProblem returns a problem that does not depend on any expectation, or nil.
func (c *Check) basicProblem(a *answer) *report.Problem {
	switch {
	case c.Server != "":
		return nil
	case a.refused != nil && !c.has("error_code", "error"):
		return &report.Problem{Message: a.refusal()}
	case len(a.unmocked) > 0:
		return &report.Problem{Expectation: "mock", Message: unmockedText(a.unmocked)}
	case a.cancelled || c.CancelAfter > 0:
		return nil
	case a.isError() && !c.refused && !c.has("is_error", "error_type", "error"):
		return &report.Problem{Message: "the tool failed", Got: a.text()}
	}
	return nil
}

// missingAnswer returns a mismatch if no answer exists for the expectation.
func (a *answer) missingAnswer(key string) *expect.Mismatch {
	switch {
	case a.handshake != nil || a.result != nil:
		return nil
	case a.refused != nil && key != "error_code" && key != "error" && key != "max_duration":
		return &expect.Mismatch{Message: a.refusal()}
	case a.cancelled && key != "cancelled_within" && key != "progress" && key != "max_duration":
		return &expect.Mismatch{Message: "the call was cancelled, so there is no answer"}
	}
	return nil
}

func (a *answer) refusal() string {
	return fmt.Sprintf("the call was refused: %s (JSON-RPC error %d)", a.refused.Message, a.refused.Code)
}

// plural returns a number and a noun, such as "2 files".
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// masked returns a result without secrets. The shown part of the answer is shortened only
// afterwards, so no part of a secret is left.
func masked(r report.Result, masker *config.Masker) report.Result {
	mask := masker.MaskCut // a Mismatch is shortened already
	r.Name, r.Output = mask(r.Name), display.Clip(mask(r.Output), maxOutput)
	r.Tags = slices.Clone(r.Tags)
	for i, tag := range r.Tags {
		r.Tags[i] = mask(tag)
	}
	r.Row.Cells = slices.Clone(r.Row.Cells)
	for i, cell := range r.Row.Cells {
		r.Row.Cells[i].Value = display.Clip(mask(cell.Value), maxCell)
	}
	logs := make([]string, len(r.Logs))
	for i, line := range r.Logs {
		logs[i] = mask(line)
	}
	r.Logs = logs
	problems := make([]report.Problem, len(r.Problems))
	for i, p := range r.Problems {
		p.Message, p.Path = mask(p.Message), mask(p.Path)
		p.Want, p.Got, p.Diff = mask(p.Want), display.Clip(mask(p.Got), maxOutput), mask(p.Diff)
		problems[i] = p
	}
	r.Problems = problems
	return r
}
