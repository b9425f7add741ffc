package testenv

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// Deadline returns how long a test waits for an event that must happen: d on an ordinary machine,
// and in proportion longer on a slow or busy machine, at most twenty times. d should be half a
// minute or more: then the machine may become busy later too. In a bubble of synctest, where no
// time passes while code runs, Deadline returns d.
func Deadline(d time.Duration) time.Duration {
	if time.Now().Year() < 2020 { // the clock of a bubble begins with the year 2000
		return d
	}
	return time.Duration(float64(d) * watchdog.Slowness())
}

// Quiet returns d, and marks a time meant to run out: the time of a wait in which nothing may
// happen, or of a call with an end by deadline as the subject of the test. A slow machine makes the
// time longer, and cannot make the test fail. Tests use Quiet for all times shorter than half a
// minute (TestDeadlines in host).
func Quiet(d time.Duration) time.Duration { return d }
