package timeline

import (
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

func TestViolations(t *testing.T) {
	refused := func(class abi.ErrorType, message string) journal.CallRecord {
		return journal.CallRecord{Seq: 2, Server: "github", Tool: "delete", Answer: journal.Answer{Err: &abi.CallError{Type: class, Message: message}}}
	}
	nested := journal.Record{Done: true, Outcome: journal.Outcome{Error: abi.ErrResource, Message: "out of fuel"}}
	for name, tt := range map[string]struct {
		rec  journal.Record
		want []string
	}{
		"none":      {journal.Record{Calls: []journal.CallRecord{refused(abi.ErrTool, "no")}, Outcome: journal.Outcome{Error: abi.ErrTool}}, nil},
		"limit":     {journal.Record{Outcome: journal.Outcome{Error: abi.ErrTimeout, Message: "30s are over"}}, []string{"timeout: 30s are over"}},
		"same once": {journal.Record{Calls: []journal.CallRecord{refused(abi.ErrPermission, "hidden\x07")}, Outcome: journal.Outcome{Error: abi.ErrPermission, Message: "hidden"}}, []string{"call 2 of github.delete: permission: hidden\uFFFD"}},
		"nested": {journal.Record{Calls: []journal.CallRecord{{Seq: 3, Answer: journal.Answer{Run: &nested, Err: &abi.CallError{Type: abi.ErrResource}}}}},
			[]string{"run of call 3: resource: out of fuel"}},
	} {
		if got := Violations(&tt.rec); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
