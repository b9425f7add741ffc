package config

import (
	"fmt"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
)

// limitField is a limit and a pointer to the field that holds its value: a
// *time.Duration, *uint64, *int64 or *int.
type limitField struct {
	*limits.Limit
	field any
}

// limits returns the limits of c with their fields, without those of upstreams, which
// each upstream has.
func (c *Config) limits() []limitField {
	e, h, j := &c.Execution, &c.HTTP, &c.Journal
	return []limitField{
		{limits.StartupWait, &c.StartupWait},
		{limits.InputTime, &c.InputTimeout},
		{limits.Message, &c.MaxMessage},
		{limits.List, &c.MaxList},

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
		{limits.TaskAfter, &e.TaskAfter},
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

// limits returns the limits of an upstream with their fields.
func (u *Upstream) limits() []limitField {
	return []limitField{
		{limits.RequestTime, &u.Timeout},
		{limits.RequestTotalTime, &u.MaxTimeout},
	}
}

// limits returns the limits of a probe with their fields.
func (p *Probe) limits() []limitField {
	return []limitField{{limits.ProbeTime, &p.Timeout}}
}

// value returns the value of the field.
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

// set sets the value of the field.
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

// limits sets the limits of a section to the values in its table.
func (t *table) limits(section string, all []limitField) {
	for _, l := range all {
		if l.Section == section {
			t.limit(l)
		}
	}
}

// limit sets a limit to the value under its key in the table.
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

// LowerToDefaults lowers every limit of a composite call that is above its default. It is
// for files whose author is not trusted. Limits whose default depends on the machine and
// the limit of waiting calls stay as they are, because they bound the process rather than
// one call.
func (e *Execution) LowerToDefaults() {
	c := &Config{Execution: *e}
	for _, l := range c.limits() {
		if l.Section == limits.Time.Section && l.Derived == "" && l.Limit != limits.Queue {
			l.set(min(l.value(), l.Default))
		}
	}
	*e = c.Execution
}
