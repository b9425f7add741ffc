package health

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Outcome is the outcome of a check.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped" // asleep or disabled, and not checked
)

// Bounds of texts in reports, in characters: servers write them.
const (
	maxText    = 2 << 10
	maxExcerpt = 200
)

// Report is the result of checking an upstream. Latencies are in milliseconds.
type Report struct {
	Server string        `json:"server"`
	State  servers.State `json:"state"` // a state of package upstream, Asleep or Disabled
	Since  *time.Time    `json:"since,omitempty"`
	Check  Outcome       `json:"check"`
	// Method is the method of the request: tools/list, or ping for a server without
	// tools; "" if no request was made.
	Method  string  `json:"method,omitempty"`
	Latency float64 `json:"latency,omitempty"` // of the response
	// Error says why the check failed.
	Error string       `json:"error,omitempty"`
	Probe *ProbeReport `json:"probe,omitempty"`
	// LastError is the last error of the upstream, which may have recovered since.
	LastError string `json:"lastError,omitempty"`
	// Details are further lines of LastError, for example the stderr tail of the server, for the
	// operator.
	Details []string `json:"details,omitempty"`
	// SlowedSince is the time since which the upstream is read slowly, because the upstream sends
	// more than requested.
	SlowedSince *time.Time `json:"slowedSince,omitempty"`
	// Pins lists the differences from the pinned state, a line each, at most maxPins.
	Pins []string `json:"pins,omitempty"`
	// Items lists the server's items that strict clients refuse, a line each. Clients get the items
	// without the wrong members, or not at all.
	Items     []string   `json:"items,omitempty"`
	Restarts  int        `json:"restarts"`
	RestartAt *time.Time `json:"restartAt,omitempty"` // time of the next start
}

// ProbeReport is the result of a probe.
type ProbeReport struct {
	Tool    string  `json:"tool"`
	Check   Outcome `json:"check"`
	Latency float64 `json:"latency,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Healthy reports whether no check failed.
func Healthy(reports []Report) bool {
	for _, r := range reports {
		if r.Check == Failed {
			return false
		}
	}
	return true
}

// addStatus copies the status of an upstream into a report.
func (c Checker) addStatus(r *Report, st servers.Status) {
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

// LastError returns the last error of an upstream on a single line, without the upstream's name and
// without the server's own output. The line can contain secrets.
func LastError(st servers.Status) string {
	first, _ := lastError(st)
	return display.OneLine(strings.TrimSuffix(first, "; its last lines on stderr:")) // they are left out
}

// lastError returns the first line of the last error, without the name of the upstream,
// and the rest.
func lastError(st servers.Status) (first, rest string) {
	first, rest, _ = strings.Cut(st.Err, "\n")
	return strings.TrimPrefix(first, fmt.Sprintf("upstream %q: ", st.Name)), strings.TrimSpace(rest)
}

// setOutcome sets the outcome of a check. err is the error of list.
func (c Checker) setOutcome(r *Report, err error) {
	r.Check = OK
	if err != nil {
		r.Check, r.Error = Failed, c.text(reason(err))
	} else if r.Probe != nil && r.Probe.Check == Failed {
		r.Check, r.Error = Failed, fmt.Sprintf("probe %s: %s", r.Probe.Tool, r.Probe.Error)
	}
}

// Columns are the column titles for Cells.
var Columns = []string{"SERVER", "STATE", "CHECK", "LATENCY", "PROBE", "RESTARTS", "ERROR"}

// Cells returns the report as a row of a table, as printable text without line breaks.
// A cell can be empty.
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
		wrong = "earlier: " + r.LastError
	}
	if len(r.Pins) > 0 {
		wrong = strings.TrimPrefix(fmt.Sprintf("%s; not as pinned: %d", wrong, len(r.Pins)), "; ")
	}
	if len(r.Items) > 0 {
		wrong = strings.TrimPrefix(fmt.Sprintf("%s; odd items: %d", wrong, len(r.Items)), "; ")
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
		cells[i] = display.OneLine(cell)
	}
	return cells
}

// Table returns the reports as a text table.
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

// duration formats a number of milliseconds for people, "" for 0.
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

// text prepares text from a server for a report. text masks secrets before shortening, so that no
// part of a secret remains.
func (c Checker) text(text string) string { return display.Clip(c.masked(text), maxText) }

// excerpt returns the beginning of text from a server, masked and on a single line.
func (c Checker) excerpt(text string) string { return display.Line(c.masked(text), maxExcerpt) }

func (c Checker) masked(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	if c.Mask == nil {
		return text
	}
	return c.Mask(text)
}
