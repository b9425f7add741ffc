package host

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// typedServer is an upstream that decodes messages as Go servers do, with encoding/json
// into structs, which ignores the case of names. Its tools are get, the hidden
// delete_all, hang, and tell, which returns the progress token of the call that hangs.
// All its clients share its tasks.
type typedServer struct {
	out   io.Writer
	ran   []string // tools, in order
	token json.RawMessage
}

type typedMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name   string           `json:"name"`
		TaskID string           `json:"taskId"`
		Task   *json.RawMessage `json:"task"`
		Meta   struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	} `json:"params"`
}

func (s *typedServer) serve(in io.Reader) {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var m typedMessage
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID != nil {
			if result := s.answer(&m); result != "" {
				fmt.Fprintf(s.out, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n", m.ID, result)
			}
		}
	}
}

func (s *typedServer) answer(m *typedMessage) string {
	if m.Params.Meta.ProgressToken != nil && m.Params.Name != "hang" {
		fmt.Fprintf(s.out, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1,\"message\":\"from another\"}}\n", m.Params.Meta.ProgressToken)
	}
	switch m.Method {
	case "initialize":
		return `{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"typed","version":"1"}}`
	case "tools/list":
		return `{"tools":[{"name":"get","inputSchema":{"type":"object"}},{"name":"delete_all","inputSchema":{"type":"object"}},` +
			`{"name":"tell","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},` +
			// An item that a client in Go could mistake for get.
			`{"name":"other","Name":"typed__get","inputSchema":{"type":"object"}}]}`
	case "tasks/get":
		return fmt.Sprintf(`{"taskId":%q,"status":"working"}`, m.Params.TaskID)
	case "tools/call":
	default:
		return `{}`
	}
	s.ran = append(s.ran, m.Params.Name)
	switch {
	case m.Params.Name == "hang":
		s.token = m.Params.Meta.ProgressToken
		return ""
	case m.Params.Task != nil:
		return fmt.Sprintf(`{"task":{"taskId":"task-%d","status":"working"}}`, len(s.ran))
	case m.Params.Name == "tell":
		return fmt.Sprintf(`{"content":[],"structuredContent":{"token":%s,"ran":%q}}`, s.token, strings.Join(s.ran, " "))
	}
	return `{"content":[]}`
}

// TestNamesInOtherCase sends messages that a server that ignores the case of names
// understands in another way than we do: it would run a hidden tool, or act on the task
// or the call of another session.
func TestNamesInOtherCase(t *testing.T) {
	t.Parallel()
	up := upstreamOf("typed", "typed")
	up.Hide = []string{"delete_all"}
	h, _ := startHost(t, testConfig(t, up))
	victim, attacker := dial(t, h), dial(t, h)
	if list := attacker.request("1", "tools/list", `{}`); strings.Contains(list, "delete_all") || strings.Contains(list, "typed__other") {
		t.Errorf("listed: %s", list)
	}
	task := attacker.request("2", "tools/call", `{"name":"typed__get","task":{}}`)
	mine, _ := wire.GetString([]byte(task), "result", "task", "taskId")
	task = victim.request("2", "tools/call", `{"name":"typed__get","task":{}}`)
	theirs, _ := wire.GetString([]byte(task), "result", "task", "taskId")
	if mine == "" || theirs == "" {
		t.Fatalf("no tasks: %s", task)
	}
	progress := victim.request("3", "tools/call", `{"name":"typed__get","_meta":{"progressToken":"v"}}`)
	if !strings.Contains(progress, `"progressToken":"v"`) {
		t.Fatalf("no progress: %s", progress)
	}
	victim.hear()
	victim.say(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"typed__hang","_meta":{"progressToken":"v"}}}`)
	victim.request("5", "ping", `{}`)
	// The worst case: the server gives the victim's token away.
	token, ok := wire.Get([]byte(attacker.call("typed__tell", `{}`)), "structuredContent", "token")
	if !ok || len(token) < 30 {
		t.Errorf("the token of a call is %s: short enough to be guessed", token)
	}
	for _, tt := range []struct{ method, params string }{
		{"tools/call", `{"name":"typed__get","Name":"delete_all"}`},
		{"tools/call", `{"name":"typed__get","NAME":"delete_all"}`},
		{"tools/call", `{"name":"typed__get","\u004eame":"delete_all"}`},
		{"tools/call", `{"Name":"delete_all","name":"typed__get"}`},
		{"tools/call", `{"name":"typed__get","name":"delete_all"}`},
		{"tasks/get", `{"taskId":"` + mine + `","TaskId":"` + theirs + `"}`},
		{"tasks/get", `{"taskId":"` + mine + `","tasKId":"` + theirs + `"}`},
		{"tasks/get", `{"taskId":"` + mine + `","ta\u017fkId":"` + theirs + `"}`},
		{"tasks/get", `{"taskId":"` + theirs + `","taskId":"` + mine + `"}`},
		{"tools/call", `{"name":"typed__get","_META":{"progressToken":` + string(token) + `}}`},
		{"tools/call", `{"name":"typed__get","_meta":{"ProgressToken":` + string(token) + `}}`},
		{"tools/call", `{"name":"typed__get","_meta":{"progressToKen":` + string(token) + `}}`},
		{"tools/call", `{"name":"typed__get","_meta":{"progre\u017fsToken":` + string(token) + `}}`},
	} {
		got := attacker.request("9", tt.method, tt.params)
		if code, _ := wire.Get([]byte(got), "error", "code"); string(code) != "-32602" {
			t.Errorf("%s %s: %s", tt.method, tt.params, got)
		}
	}
	for _, name := range []string{"ProgressToken", "progress_token", "progreſsToken"} {
		got := attacker.call("eval_starlark", `{"code":"return typed.get({}, meta={params.name: params.token})","params":{"name":"`+name+`","token":`+string(token)+`}}`)
		if !strings.Contains(got, `"type":"validation"`) || !strings.Contains(got, `\"progressToken\"`) {
			t.Errorf("meta with %s: %s", name, got)
		}
	}
	if got := attacker.call("typed__tell", `{}`); !strings.Contains(got, `"get get get hang tell tell"`) {
		t.Errorf("what ran: %s", got)
	}
	if got := victim.request("6", "ping", `{}`); !strings.Contains(got, `"id":6`) {
		t.Errorf("the victim heard %s", got)
	}
}
