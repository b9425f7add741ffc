package builtin

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// TestSaveBeyondTheBudget checks that a script can tell that there is no room for a tool from what
// is wrong with it.
func TestSaveBeyondTheBudget(t *testing.T) {
	err := refusal(&tools.RoomError{Name: "job", Err: errors.New("no memory")})
	var f *compose.Failure
	if !errors.As(err, &f) || f.Type != abi.ErrResource || f.Limit != "total_memory" || f.Setting != "execution.max_total_memory" || f.Message != `tool "job": no memory` {
		t.Errorf("%+v", err)
	}
}

// TestSaveWarns checks the warnings about scripts that are valid but probably wrong.
func TestSaveWarns(t *testing.T) {
	h := newFixture(t)
	h.catalog.SetUpstream("git-hub", wire.Tools, [][]byte{
		[]byte(`{"name":"search","inputSchema":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}`),
	}, nil)
	arguments := func(code string) string {
		return `{"name":"job","description":"d","inputSchema":{"type":"object"},"code":` + string(wire.Quote(code)) + `}`
	}
	reply := h.call("save_tool", arguments("x = 1\nreturn [git_hub.search({'q': 1}), git_hub.find({}), tools.job({})]"))
	got, _ := wire.Get(reply.Result, "structuredContent", "warnings")
	if want := `[{"line":1,"column":1,"message":"x is assigned but never used"},` +
		`{"line":2,"column":9,"message":"git-hub.search: the arguments do not match the tool's inputSchema: /q: got number 1, want string"},` +
		`{"line":2,"column":35,"message":"server \"git-hub\" has no tool \"find\" (it has search)"},` +
		`{"line":2,"column":53,"message":"job calls itself, which saved tools cannot"}]`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if text := textOf(t, reply); !strings.Contains(text, `"message": "x is assigned but never used"`) {
		t.Errorf("the text does not have the warnings: %s", text)
	}
	if _, err := h.store.Get("job"); err != nil {
		t.Errorf("it was not saved: %v", err)
	}
	if got := h.ok("save_tool", arguments("return git_hub.search({'q': params.q})")); strings.Contains(got, "warnings") {
		t.Errorf("got %s", got)
	}
}
