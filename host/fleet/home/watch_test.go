package home

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestAnnouncementsAreCounted checks that what another replica announces is in the budget of all
// messages while it is read, and that one for which there is no memory ends the stream.
func TestAnnouncementsAreCounted(t *testing.T) {
	task := func(bytes int) string {
		return fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tasks\",\"params\":{\"x\":\"%s\"}}\n\n", strings.Repeat("x", bytes))
	}
	b := budget.New(8 << 20) // a message has 1 MB at most
	var told []int
	w := &watched{changed: func(task []byte) { told = append(told, len(task)) }}
	stream := task(1) + task(900_000) + task(2) + task(1_100_000) + task(3)
	w.read(&http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader([]byte(stream))),
	}, readBudget(t.Context(), b, "replica"))
	if len(told) != 3 || told[1] < 900_000 || told[2] > 100 {
		t.Errorf("told of %d tasks: %v", len(told), told)
	}
	if f := b.Figures(); f.Peak < 900_000 {
		t.Errorf("%+v", f)
	}
}
