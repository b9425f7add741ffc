package replay

import (
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// AtMost returns the larger of each limit in l and its default. A replay of any record may use
// these limits.
func AtMost(l sandbox.Limits) sandbox.Limits {
	l, usual := l.WithDefaults(), sandbox.Limits{}.WithDefaults()
	l.Memory, l.Fuel = max(l.Memory, usual.Memory), max(l.Fuel, usual.Fuel)
	l.Calls, l.Arguments, l.Answer = max(l.Calls, usual.Calls), max(l.Arguments, usual.Arguments), max(l.Answer, usual.Answer)
	l.Result, l.Logs = max(l.Result, usual.Result), max(l.Logs, usual.Logs)
	return l
}

// begin returns the recorded beginning of a run, with limits of at most s.most. A limit of 0 in
// the record means the default.
func (s *session) begin(b journal.Begin) journal.Begin {
	var lowered []string
	lower := func(name string, n *int, most int) {
		if *n < 0 || *n > most {
			*n = most
			lowered = append(lowered, fmt.Sprintf("%s %d", name, most))
		}
	}
	l := &b.Limits
	if l.Memory > s.most.Memory {
		l.Memory = s.most.Memory
		lowered = append(lowered, "memory "+units.FormatSize(l.Memory))
	}
	if l.Fuel > s.most.Fuel {
		l.Fuel = s.most.Fuel
		lowered = append(lowered, fmt.Sprintf("fuel %d", l.Fuel))
	}
	lower("calls", &l.Calls, s.most.Calls)
	lower("arguments", &l.Arguments, s.most.Arguments)
	lower("answer", &l.Answer, s.most.Answer)
	lower("result", &l.Result, s.most.Result)
	lower("logs", &l.Logs, s.most.Logs)
	for _, what := range lowered {
		if !slices.Contains(s.lowered, what) {
			s.lowered = append(s.lowered, what)
		}
	}
	if b.AgentTools == nil && b.Guest != s.guest {
		// An older guest had these names built in.
		b.AgentTools = builtin.Mentioned(b.Definition.Code)
	}
	return b
}
