package config

import (
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/limits"
)

// limitField is a limit and the field that holds its value: a *time.Duration,
// *uint64, *int64 or *int.
type limitField struct {
	*limits.Limit
	field any
}

// limits are the limits of c with their fields, but for those of upstreams, of
// which there are several.
func (c *Config) limits() []limitField {
	e, h, j := &c.Execution, &c.HTTP, &c.Journal
	return []limitField{
		{limits.StartupWait, &c.StartupWait},
		{limits.Message, &c.MaxMessage},

		{limits.Time, &e.Timeout},
		{limits.Memory, &e.MaxMemory},
		{limits.Fuel, &e.MaxFuel},
		{limits.Calls, &e.MaxCalls},
		{limits.Arguments, &e.MaxArguments},
		{limits.Answer, &e.MaxAnswer},
		{limits.Result, &e.MaxResult},
		{limits.Logs, &e.MaxLogs},
		{limits.Parallel, &e.MaxParallel},
		{limits.UndoTime, &e.UndoTimeout},
		{limits.Concurrent, &e.MaxConcurrent},
		{limits.Queue, &e.MaxQueued},
		{limits.TotalMemory, &e.MaxTotalMemory},

		{limits.JournalFile, &j.MaxSize},
		{limits.JournalTotal, &j.MaxTotal},
		{limits.JournalAge, &j.MaxAge},

		{limits.SessionTTL, &h.SessionTTL},
		{limits.UnusedTTL, &h.UnusedTTL},
		{limits.Sessions, &h.MaxSessions},
		{limits.SessionsPerToken, &h.MaxSessionsPerToken},
		{limits.SessionsPerAddress, &h.MaxSessionsPerAddress},
		{limits.InitializeRate, &h.InitializeRate},
		{limits.Connections, &h.MaxConnections},
		{limits.ConnectionsPerAddress, &h.MaxConnectionsPerAddress},
		{limits.ResumeWindow, &h.ResumeWindow},
	}
}

// limits are the limits of an upstream with their fields.
func (u *Upstream) limits() []limitField {
	return []limitField{
		{limits.RequestTime, &u.Timeout},
		{limits.RequestTotalTime, &u.MaxTimeout},
	}
}

// limits are the limits of a probe with their fields.
func (p *Probe) limits() []limitField {
	return []limitField{{limits.ProbeTime, &p.Timeout}}
}

// value is what the field holds.
func (l limitField) value() int64 {
	switch v := l.field.(type) {
	case *time.Duration:
		return int64(*v)
	case *uint64:
		return int64(*v)
	case *int64:
		return *v
	case *int:
		return int64(*v)
	}
	panic(fmt.Sprintf("limit %s: a field of type %T", l.Setting(), l.field))
}

// set changes what the field holds.
func (l limitField) set(value int64) {
	switch v := l.field.(type) {
	case *time.Duration:
		*v = time.Duration(value)
	case *uint64:
		*v = uint64(value)
	case *int64:
		*v = value
	case *int:
		*v = int(value)
	default:
		panic(fmt.Sprintf("limit %s: a field of type %T", l.Setting(), l.field))
	}
}

// setDefaults sets limits to their defaults.
func setDefaults(all []limitField) {
	for _, l := range all {
		l.set(l.Default)
	}
}

// read sets the limits of a section to what its table has.
func (t *table) limits(section string, all []limitField) {
	for _, l := range all {
		if l.Section == section {
			t.limit(l)
		}
	}
}

// limit sets a limit to what the table has under its key.
func (t *table) limit(l limitField) {
	key := t.key(l.Key)
	switch value := l.value(); l.Unit {
	case limits.Duration:
		d := time.Duration(value)
		t.duration(key, &d, time.Duration(l.Least), time.Duration(l.Most))
		l.set(int64(d))
	case limits.Bytes:
		n := uint64(value)
		t.size(key, &n, uint64(l.Least), uint64(l.Most))
		l.set(int64(n))
	default:
		n := uint64(value)
		t.number(key, &n, uint64(l.Least), uint64(l.Most))
		l.set(int64(n))
	}
}

// LowerToDefaults lowers every limit of one call of a composite tool that is
// above its default: for a file whose author is not trusted. Limits whose
// default depends on the machine stay as they are, and so does that on waiting
// calls: they are about the process, not about a call.
func (e *Execution) LowerToDefaults() {
	c := &Config{Execution: *e}
	for _, l := range c.limits() {
		if l.Section == limits.Time.Section && l.Derived == "" && l.Limit != limits.Queue {
			l.set(min(l.value(), l.Default))
		}
	}
	*e = c.Execution
}
