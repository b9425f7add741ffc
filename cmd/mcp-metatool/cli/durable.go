package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// OpenDurable is an open run of a durable tool in the output of runs list --open --json.
type OpenDurable struct {
	ID     string    `json:"id"`
	Tool   string    `json:"tool,omitempty"`
	Start  time.Time `json:"start,omitzero"`
	Used   float64   `json:"used"` // milliseconds
	State  string    `json:"state"`
	Calls  int       `json:"calls"`
	Record string    `json:"record,omitempty"` // id of the last record of the run in the journal
	Owners int       `json:"owners"`
	// InDoubt lists the calls that may or may not have been made, if no process is at the run.
	InDoubt []string `json:"inDoubt,omitempty"`
	// Guest is the digest of the guest that the run needs, if this program has another guest.
	Guest string `json:"guest,omitempty"`
	// Silent is the number of seconds since the last sign of life of the process at the run, by the
	// clocks of both machines; 0 if the number is small.
	Silent float64 `json:"silent,omitempty"`
	Client string  `json:"client,omitempty"`
	Token  string  `json:"token,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// The states of open runs.
const (
	runGoesOn     = "running"
	runWaits      = "waiting" // for a process that continues the run
	runCancelled  = "cancelled"
	runUnreadable = "unreadable"
)

func OpenDurableOf(o durable.Open) OpenDurable {
	r := OpenDurable{ID: o.ID, State: runWaits}
	switch {
	case o.Err != nil:
		r.State, r.Error = runUnreadable, o.Err.Error()
		return r
	case o.Cancelled:
		r.State = runCancelled
	case o.Held:
		r.State = runGoesOn
	}
	s := o.State
	rec := &s.Record
	r.Tool, r.Start, r.Used, r.Calls = rec.Definition.Name, rec.Start.UTC(), Milliseconds(s.Used), len(rec.Calls)
	r.Record, r.Owners, r.Client, r.Token = s.LastRecord, s.Owners, rec.Client.Name, s.Token
	if compose.CanContinue(s) != nil {
		r.Guest = rec.Guest
	}
	if silent := time.Since(o.Renewed); o.Held && !o.Renewed.IsZero() && silent > durable.DefaultTTL {
		r.Silent = silent.Round(time.Second).Seconds()
	}
	if !o.Held {
		for _, c := range s.Doubts() {
			r.InDoubt = append(r.InDoubt, c.Server+"."+c.Tool)
		}
	}
	return r
}

// Remark returns the text of the last column.
func (r *OpenDurable) Remark() string {
	switch {
	case r.Error != "":
		return r.Error
	case r.Guest != "":
		return "needs guest " + display.Clip(r.Guest, 12)
	case r.Silent > 0:
		return fmt.Sprintf("its process has said nothing for %v", time.Duration(r.Silent*float64(time.Second)))
	case len(r.InDoubt) > 0:
		return "in doubt: " + strings.Join(r.InDoubt, ", ")
	}
	return ""
}
