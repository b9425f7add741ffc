package config

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Plan says what is a read, and how long plans are good (package plan).
type Plan struct {
	// Reads and Writes are patterns of SERVER.TOOL. They say what a call is before the
	// annotations of its tool do; Writes win.
	Reads, Writes []string
	Expires       time.Duration
}

// The bounds of Plan.Expires.
const (
	DefaultPlanExpires = 24 * time.Hour
	leastPlanExpires   = time.Minute
	mostPlanExpires    = 30 * 24 * time.Hour
)

// decodePlan reads [plan].
func decodePlan(t *table, c *Config) {
	if t == nil {
		return
	}
	c.Plan.Reads = t.strs("reads", t.pattern)
	c.Plan.Writes = t.strs("writes", t.pattern)
	t.duration("expires", &c.Plan.Expires, leastPlanExpires, mostPlanExpires)
	t.close(map[string]string{"read": "reads", "write": "writes", "ttl": "expires", "maxage": "expires", "expiry": "expires"})
}

// plan describes what is a read, if that is configured.
func (d *description) plan(p Plan) {
	if p.Reads == nil && p.Writes == nil && p.Expires == DefaultPlanExpires {
		return
	}
	d.title("plan")
	d.line("expires", units.FormatDuration(p.Expires))
	d.line("reads", d.list("plan.reads", p.Reads, "nothing"))
	d.line("writes", d.list("plan.writes", p.Writes, "nothing"))
}
