package testenv

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// Deadline returns how long a test waits for what must happen: d on an ordinary machine, and in
// proportion longer on a slow or busy one, at most twenty times. d should be half a minute or
// more: then the machine may become busy later too. In a bubble of synctest, where no time passes
// while code runs, it returns d.
func Deadline(d time.Duration) time.Duration {
	if time.Now().Year() < 2020 { // the clock of a bubble begins with the year 2000
		return d
	}
	return time.Duration(float64(d) * watchdog.Slowness())
}

// Quiet returns d, and marks a time that is meant to run out: that of a wait in which nothing may
// happen, or of a call whose end by its deadline is what the test is about. A slow machine makes
// it longer, and cannot make the test fail. Tests use it for all that is shorter than half a
// minute (TestDeadlines in host).
func Quiet(d time.Duration) time.Duration { return d }
