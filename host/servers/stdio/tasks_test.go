package stdio

import (
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
)

func TestProgressOfTasks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		params string
		result string // of the call
		end    string // what ends the task: a notification, or the method of a request that gets answer
		answer string
		want   []string // the progress that is passed on, of 0 (before the answer), 1 (after it) and 2 (after the end)
	}{
		{"plain call", `{}`, `{"task":{"taskId":"t","status":"working"}}`, "", "", []string{"0"}},
		{"answered without a task", `{"task":{}}`, `{"content":[]}`, "", "", []string{"0"}},
		{"ended at once", `{"task":{}}`, `{"task":{"taskId":"t","status":"completed"}}`, "", "", []string{"0"}},
		{"no id", `{"task":{}}`, `{"task":{"status":"working"}}`, "", "", []string{"0"}},
		{"goes on", `{"task":{"ttl":1}}`, `{"task":{"taskId":"t","status":"working"}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"input_required"}}`, "", []string{"0", "1", "2"}},
		{"another ends", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"u","status":"failed"}}`, "", []string{"0", "1", "2"}},
		{"status notification", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t","status":"failed"}}`, "", []string{"0", "1"}},
		{"tasks/get", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/get", `"result":{"taskId":"t","status":"completed"}`, []string{"0", "1"}},
		{"tasks/get, working", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/get", `"result":{"taskId":"t","status":"working"}`, []string{"0", "1", "2"}},
		{"tasks/get, failing", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/get", `"error":{"taskId":"t","status":"completed"}`, []string{"0", "1", "2"}},
		{"tasks/cancel", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/cancel", `"result":{"taskId":"t","status":"cancelled"}`, []string{"0", "1"}},
		{"tasks/result", `{"task":{}}`, `{"task":{"taskId":"t","status":"working"}}`,
			"tasks/result", `"error":{"code":-32603,"message":"m"}`, []string{"0", "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			ticked := make(chan string, 1)
			c, p := pair(t, link.Options{Handler: link.Callbacks{OnNotification: func(m wire.Inbound) { ticked <- m.Method }}})
			progress := func(n int) {
				p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d}}`, n)
				p.send(`{"jsonrpc":"2.0","method":"tick"}`)
				for <-ticked != "tick" {
				}
			}
			done := call(t.Context(), c, "tools/call", tt.params, func(params []byte) {
				n, _ := wire.Get(params, "progress")
				got = append(got, string(n))
			})
			p.line()
			progress(0)
			p.send(`{"jsonrpc":"2.0","id":1,"result":%s}`, tt.result)
			if a := <-done; a.err != nil {
				t.Fatal(a.err)
			}
			progress(1)
			if tt.answer != "" {
				done := call(t.Context(), c, tt.end, `{"taskId":"t"}`, nil)
				p.line()
				p.send(`{"jsonrpc":"2.0","id":2,%s}`, tt.answer)
				<-done
			} else if tt.end != "" {
				p.send("%s", tt.end)
			}
			progress(2)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
