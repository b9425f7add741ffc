package timeline

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// isViolation reports whether an error is about an exceeded limit or a refused call.
func isViolation(class abi.ErrorType) bool {
	return class == abi.ErrPermission || class == abi.ErrResource || class == abi.ErrTimeout
}

// Violations returns a line for each exceeded limit and each refused call of a run and of the
// nested runs. The error of a call is not repeated for the run that ended with this error.
func Violations(rec *journal.Record) []string { return violationsOf(rec, "") }

// violationsOf is Violations for a run with the given prefix of call numbers.
func violationsOf(rec *journal.Record, prefix string) []string {
	var lines []string
	for i := range rec.Calls {
		c := &rec.Calls[i]
		number := fmt.Sprintf("%s%d", prefix, c.Seq)
		if c.Answer.Run != nil {
			lines = append(lines, violationsOf(c.Answer.Run, number+".")...)
			continue
		}
		if e := c.Answer.Err; e != nil && isViolation(e.Type) {
			lines = append(lines, display.Line(fmt.Sprintf("call %s of %s.%s: %s: %s", number, c.Server, c.Tool, e.Type, e.Message), 300))
		}
	}
	if isViolation(rec.Outcome.Error) && len(lines) == 0 {
		where := ""
		if prefix != "" {
			where = "run of call " + prefix[:len(prefix)-1] + ": "
		}
		lines = append(lines, display.Line(fmt.Sprintf("%s%s: %s", where, rec.Outcome.Error, rec.Outcome.Message), 300))
	}
	return lines
}
