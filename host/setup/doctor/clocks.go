package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// clockSkew is the tolerated difference of clocks. Most servers accept tokens with as much.
const clockSkew = time.Minute

// clocks compares the local clock with the clocks of servers over HTTP. The local clock is right if
// it agrees with any of them.
func (e *examination) clocks() {
	var wrong []string
	for _, u := range e.enabled() {
		switch o := e.Observed[u.Name]; {
		case !o.Dated:
		case o.Ahead.Abs() <= clockSkew:
			return
		case o.Ahead > 0:
			wrong = append(wrong, fmt.Sprintf("%s ahead of %s", units.FormatDuration(o.Ahead.Round(time.Second)), u.Name))
		default:
			wrong = append(wrong, fmt.Sprintf("%s behind %s", units.FormatDuration(-o.Ahead.Round(time.Second)), u.Name))
		}
	}
	if len(wrong) > 0 {
		e.find(idClockWrong, "", "set the clock (timedatectl set-ntp true, or the settings of the system), unless that of the server is wrong",
			"the clock of this machine is %s", strings.Join(wrong, ", "))
	}
}
