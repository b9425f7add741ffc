package compose

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/durable"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/stack"
)

// rowNames names the rows of docs/architecture.md by their types.
var rowNames = map[string]string{
	"undoing": "undo", "names": "names", "recordedNames": "recorded names", "record": "record", "flowRow": "flow", "fan": "fan",
	"leftRow": "left", "resumedRow": "resumed", "soundRow": "sound", "permitted": "permissions", "doubtRow": "doubt",
	"timeoutRow": "timeout", "savedRow": "saved", "questionsRow": "questions", "schemaRow": "schema", "planRow": "plan",
	"lateFlow": "late flow", "progressRow": "progress", "upstream": "upstream", "recorded": "recorded answers",
}

// rowsOf returns the names of the rows of a stack, from top to bottom.
func rowsOf(t *testing.T, h stack.Handler) (names []string) {
	t.Helper()
	for {
		v := reflect.Indirect(reflect.ValueOf(h))
		if v.Type() == reflect.TypeFor[stack.Bottom]() {
			return names
		}
		name := rowNames[v.Type().Name()]
		if name == "" {
			t.Fatalf("rowNames lacks the row %v", v.Type())
		}
		names = append(names, name)
		pass := v.FieldByName("Pass")
		if !pass.IsValid() || pass.Field(0).IsNil() {
			return names
		}
		h = pass.Field(0).Interface().(stack.Handler)
	}
}

// column is a kind of run.
type column struct {
	name string
	run  *run
}

// stackColumns are all kinds of runs, with every optional row of the kind.
func stackColumns() []column {
	live := func(edit func(*run)) *run {
		r := &run{Composer: New(Options{}), journal: journal.Open(journal.Begin{}), tree: &tree{}, permitted: &permitted{}}
		edit(r)
		return r
	}
	all := func(r *run) { r.tree.flow, r.tree.questions, r.progress = &shadow.Tree{}, &questions{}, &progress{} }
	return []column{
		{"live", live(all)},
		{"nested", live(func(r *run) { all(r); r.inner, r.outer = true, &run{} })},
		{"answers", live(func(r *run) { all(r); r.resumed = &resumed{rec: &journal.Record{}} })},
		{"durable", live(func(r *run) { all(r); r.tree.log = &durable.Run{} })},
		{"resumed", live(func(r *run) {
			all(r)
			r.tree.log, r.resumed = &durable.Run{}, &resumed{rec: &journal.Record{}, state: &durable.State{}}
		})},
		{"plan", live(func(r *run) { r.tree.flow, r.tree.stage = &shadow.Tree{}, noStage{} })},
		{"dry run", live(func(*run) {})},
		{"replay", live(func(r *run) { r.replay, r.permitted = &ReplayRun{}, nil })},
		{"shadow", live(func(r *run) { r.replay, r.permitted = &ReplayRun{Recording: &shadowRecording{}}, nil })},
	}
}

// noStage is a Stage without callable methods.
type noStage struct{ Stage }

// TestStackOrder checks the order of rows in the stacks of all kinds of runs. Each pair has the
// reason why the first row stands above the second.
func TestStackOrder(t *testing.T) {
	pairs := []struct{ above, below, why string }{
		{"undo", "names", "compensations of the run before have names of their own"},
		{"names", "record", "the record has the real names"},
		{"recorded names", "record", "a replay does not ask the catalog"},
		{"record", "flow", "a denied batch is in the record"},
		{"record", "recorded answers", "a replay has a record of its own"},
		{"flow", "fan", "flow judges the batch before any call is made"},
		{"flow", "resumed", "flow learns repeated answers"},
		{"fan", "resumed", "each call of a batch is answered by itself"},
		{"left", "permissions", "the answer of a compensation that another process makes is not recorded"},
		{"resumed", "sound", "a repeated call has its answer after the end of the context"},
		{"resumed", "permissions", "a repeated call was permitted"},
		{"sound", "permissions", "an unknown tool is unknown, not refused"},
		{"permissions", "doubt", "a person is not asked about a call that is refused"},
		{"doubt", "timeout", "a person's decision does not count against the timeout"},
		{"permissions", "plan", "a plan lists only permitted calls"},
		{"timeout", "saved", "the timeout counts once for the approval and the run of a saved tool"},
		{"saved", "questions", "the caller of a saved tool is busy, not waiting"},
		{"questions", "schema", "a call that checks its arguments is in flight"},
		{"schema", "plan", "arguments are checked and charged once"},
		{"plan", "late flow", "flow decides when a planned call is made"},
		{"late flow", "progress", "a denied call has no progress"},
		{"progress", "upstream", "the server reports progress"},
	}
	held := map[string]bool{}
	for _, c := range stackColumns() {
		c.run.build()
		rows := rowsOf(t, c.run.top)
		for _, p := range pairs {
			above, below := slices.Index(rows, p.above), slices.Index(rows, p.below)
			if above < 0 || below < 0 {
				continue
			}
			held[p.above+p.below] = true
			if above > below {
				t.Errorf("%s: %s stands below %s, but %s", c.name, p.above, p.below, p.why)
			}
		}
	}
	for _, p := range pairs {
		if !held[p.above+p.below] {
			t.Errorf("no stack has both %s and %s", p.above, p.below)
		}
	}
}

// TestStackTable compares the table of rows in docs/architecture.md with the stacks.
func TestStackTable(t *testing.T) {
	columns := stackColumns()
	var head, rule strings.Builder
	var order []string
	has := map[string]map[string]bool{}
	for _, c := range columns {
		c.run.build()
		rows := rowsOf(t, c.run.top)
		fmt.Fprintf(&head, " %s |", c.name)
		rule.WriteString("---|")
		at := 0
		for _, row := range rows {
			if has[row] == nil {
				has[row] = map[string]bool{}
				order = slices.Insert(order, at, row)
			}
			at = slices.Index(order, row) + 1
			has[row][c.name] = true
		}
	}
	table := "| row |" + head.String() + "\n|---|" + rule.String() + "\n"
	for _, row := range order {
		table += "| " + row + " |"
		for _, c := range columns {
			mark := " "
			if has[row][c.name] {
				mark = " x "
			}
			table += mark + "|"
		}
		table += "\n"
	}
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(string(page), "\r\n", "\n"), table) {
		t.Errorf("docs/architecture.md lacks this table:\n%s", table)
	}
}
