package health

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/upstream"
)

// Outcome is what came of a check.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // it sleeps or is disabled, and was left alone
)

// Bounds of texts in reports, in characters: servers write them.
const (
	maxText    = 2 << 10
	maxExcerpt = 200
)

// Report is what was found out about one upstream. Times without a unit are
// milliseconds.
type Report struct {
	Server string         `json:"server"`
	State  upstream.State `json:"state"` // one of upstream's, or asleep, disabled
	Since  *time.Time     `json:"since,omitempty"`
	Check  Outcome        `json:"check"`
	// Method that was asked: tools/list, or ping of a server without tools; ""
	// if it did not come to that.
	Method  string  `json:"method,omitempty"`
	Latency float64 `json:"latency,omitempty"` // of the answer
	// Error says why the check failed.
	Error string       `json:"error,omitempty"`
	Probe *ProbeReport `json:"probe,omitempty"`
	// LastError is the last one the upstream had, which may be over.
	LastError string `json:"lastError,omitempty"`
	// Details are lines that belong to LastError, such as the last ones of the
	// server on stderr. They are for the operator.
	Details []string `json:"details,omitempty"`
	// SlowedSince is since when the upstream is read slowly, because it sends more
	// than it is asked for.
	SlowedSince *time.Time `json:"slowedSince,omitempty"`
	Restarts    int        `json:"restarts"`
	RestartAt   *time.Time `json:"restartAt,omitempty"` // when it will be started again
}

// ProbeReport is what came of a probe.
type ProbeReport struct {
	Tool    string  `json:"tool"`
	Check   Outcome `json:"check"`
	Latency float64 `json:"latency,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Healthy tells whether no check failed.
func Healthy(reports []Report) bool {
	for _, r := range reports {
		if r.Check == Failed {
			return false
		}
	}
	return true
}

// note takes over what an upstream knows of itself.
func (c Checker) note(r *Report, st upstream.Status) {
	r.State, r.Restarts = st.State, st.Restarts
	if !st.Since.IsZero() {
		since := st.Since.UTC()
		r.Since = &since
	}
	if !st.SlowedSince.IsZero() {
		slowed := st.SlowedSince.UTC()
		r.SlowedSince = &slowed
	}
	if !st.RestartAt.IsZero() {
		at := st.RestartAt.UTC()
		r.RestartAt = &at
	}
	first, rest := lastError(st)
	if rest != "" && c.Details {
		r.Details = strings.Split(c.text(rest), "\n")
	} else {
		first = LastError(st)
	}
	r.LastError = c.text(first)
}

// LastError is the last error of an upstream without its name and without what
// the server has written itself, at most a line. There may be secrets in it.
func LastError(st upstream.Status) string {
	first, _ := lastError(st)
	return oneLine(strings.TrimSuffix(first, "; its last lines on stderr:")) // which are not there
}

// lastError is that with the lines that belong to it.
func lastError(st upstream.Status) (first, rest string) {
	first, rest, _ = strings.Cut(st.Err, "\n")
	return strings.TrimPrefix(first, fmt.Sprintf("upstream %q: ", st.Name)), strings.TrimSpace(rest)
}

// judge sets the outcome; err is that of the listing.
func (c Checker) judge(r *Report, err error) {
	r.Check = OK
	if err != nil {
		r.Check, r.Error = Failed, c.text(reason(err))
	} else if r.Probe != nil && r.Probe.Check == Failed {
		r.Check, r.Error = Failed, fmt.Sprintf("probe %s: %s", r.Probe.Tool, r.Probe.Error)
	}
}

// Columns are the titles of Cells.
var Columns = []string{"SERVER", "STATE", "CHECK", "LATENCY", "PROBE", "RESTARTS", "ERROR"}

// Cells are the report as a row of a table, in printable text without line
// breaks; a cell can be empty.
func (r *Report) Cells() []string {
	probe, latency := "", duration(r.Latency)
	if r.Probe != nil {
		probe = string(r.Probe.Check)
		if r.Probe.Check == OK {
			probe = duration(r.Probe.Latency)
		}
	}
	wrong := r.Error
	if wrong == "" && r.LastError != "" {
		wrong = "before: " + r.LastError
	}
	if r.SlowedSince != nil {
		wrong = strings.TrimPrefix(wrong+"; sends more than it is asked for, and is read slowly", "; ")
	}
	restarts := ""
	if r.Check != Skipped {
		restarts = fmt.Sprint(r.Restarts)
	}
	cells := []string{r.Server, string(r.State), string(r.Check), latency, probe, restarts, wrong}
	for i, cell := range cells {
		cells[i] = oneLine(cell)
	}
	return cells
}

// Table is the reports as text.
func Table(reports []Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(Columns, "\t"))
	for i := range reports {
		cells := reports[i].Cells()
		for j, cell := range cells[:len(cells)-1] {
			if cell == "" {
				cells[j] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // to memory
	return b.String()
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// duration is a number of milliseconds for people, "" for none.
func duration(ms float64) string {
	switch d := time.Duration(ms * float64(time.Millisecond)); {
	case d == 0:
		return ""
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}

// oneLine is text without line breaks and other control characters.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.C, r) {
			return utf8.RuneError
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
}

// text makes what somebody else wrote fit for a report: secrets go before the
// rest is cut, so that no part of one is left over.
func (c Checker) text(text string) string { return cut(c.masked(text), maxText) }

// excerpt is the beginning of such a text, on one line.
func (c Checker) excerpt(text string) string { return cut(oneLine(c.masked(text)), maxExcerpt) }

func (c Checker) masked(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if c.Mask == nil {
		return text
	}
	return c.Mask(text)
}

// cut is the beginning of a text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}
