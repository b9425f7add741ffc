package expect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Calls requires exactly these calls ("server.tool") in this order.
func Calls(want, got []string) *Mismatch {
	at := 0
	for at < len(want) && at < len(got) && want[at] == got[at] {
		at++
	}
	m := &Mismatch{Path: fmt.Sprintf("$[%d]", at)}
	switch {
	case at == len(want) && at == len(got):
		return nil
	case at == len(got):
		m.Message, m.Want = "the call is not made", display.ClipSize(want[at], maxShown)
	case at == len(want):
		m.Message, m.Got = "the call is not expected", display.ClipSize(got[at], maxShown)
	default:
		m.Message, m.Want, m.Got = "another call", display.ClipSize(want[at], maxShown), display.ClipSize(got[at], maxShown)
	}
	if len(want) > 1 || len(got) > 1 {
		m.Diff = diffLines([]byte(strings.Join(want, "\n")), []byte(strings.Join(got, "\n")))
	}
	return m
}

// Names requires that got contains all the wanted names. kind ("tool") is the noun for them.
func Names(kind string, want, got []string) *Mismatch {
	var missing []string
	for _, name := range want {
		if !slices.Contains(got, name) {
			missing = append(missing, name)
		}
	}
	if missing == nil {
		return nil
	}
	m := &Mismatch{
		Message: fmt.Sprintf("there is no %s %q", kind, display.ClipSize(missing[0], maxName)),
		Want:    display.ClipSize(strings.Join(want, ", "), maxShown), Got: display.ClipSize(strings.Join(got, ", "), maxShown),
	}
	if near := nearest.Names(missing[0], got); len(near) > 0 {
		m.Message += fmt.Sprintf(", only %q", display.ClipSize(near[0], maxName))
	}
	if n := len(missing) - 1; n > 0 {
		m.Message += fmt.Sprintf(" (and %d more of those wanted)", n)
	}
	return m
}

// ErrorType compares the error class of a run: "" is success. message is the message of the
// actual error.
func ErrorType(want, got, message string) *Mismatch {
	switch {
	case want == got:
		return nil
	case want == "":
		return &Mismatch{Message: "the run failed", Want: "success", Got: display.ClipSize(got+": "+message, maxShown)}
	case got == "":
		return &Mismatch{Message: "the run did not fail", Want: display.ClipSize(want, maxShown), Got: "success"}
	}
	return &Mismatch{Message: "the run failed in another way", Want: display.ClipSize(want, maxShown), Got: display.ClipSize(got+": "+message, maxShown)}
}

// Fuel requires that at most so many units of fuel were used.
func Fuel(most, got uint64) *Mismatch {
	return ceiling("fuel", most, got, func(n uint64) string { return fmt.Sprintf("%d units", n) })
}

// Memory requires a peak of at most so many bytes.
func Memory(most, got uint64) *Mismatch {
	return ceiling("memory", most, got, units.FormatSize)
}

// Duration requires a duration of at most so long.
func Duration(most, got time.Duration) *Mismatch {
	return ceiling("duration", most, got, units.FormatDuration)
}

func ceiling[N uint64 | time.Duration](quantity string, most, got N, format func(N) string) *Mismatch {
	if got <= most {
		return nil
	}
	return &Mismatch{Message: "more " + quantity + " than allowed", Want: "at most " + format(most), Got: format(got)}
}
