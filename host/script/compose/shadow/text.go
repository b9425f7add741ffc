package shadow

import (
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Bounds of a text about a shadow, in bytes.
const (
	maxShownArguments = 200
	maxShownError     = 300
	maxShownCalls     = 3
)

// describe returns the current action of the shadow as text. With brief, the text has no values:
// values may contain answers with another label.
func (s *shadow) describe(brief bool) string {
	return "with " + blankText[s.blanks.Blank] + " it " + s.does(brief)
}

var blankText = [...]string{"empty values", "\"0\" and 1", "its own literals", "errors"}

func (s *shadow) does(brief bool) string {
	a := s.now
	switch {
	case a == nil:
		return "does not come here in time (timeout in [flow])"
	case s.why != "":
		return "cannot go on: " + s.why
	case a.ended && a.record.Outcome.Error == "":
		return "ends without a further call to such a sink"
	case a.ended:
		return fails(a.record.Outcome.Error, a.record.Outcome.Message, a.record.Outcome.Failure, brief)
	case a.at.undo && a.at.path == "":
		return fails(a.failed, "", nil, true) + " and undoes what it did"
	}
	text := "calls"
	for i, c := range a.calls {
		if i == maxShownCalls {
			text += fmt.Sprintf(" and %d more", len(a.calls)-i)
			break
		}
		text += " " + display.Clip(c.Server+"."+c.Tool, 100)
		if !brief {
			text += "(" + display.ClipSize(string(c.Arguments), maxShownArguments) + ")"
		}
	}
	return text
}

func fails(class abi.ErrorType, message string, failure []byte, brief bool) string {
	if brief {
		return fmt.Sprintf("fails (%s error)", class)
	}
	text := fmt.Sprintf("fails (%s error: %s", class, display.ClipSize(message, maxShownError))
	if line, ok := wire.Get(failure, "details", "line"); ok {
		text += ", in line " + string(line)
	}
	return text + ")"
}
