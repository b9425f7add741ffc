package ui

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// TestApprovals lists calls that wait, decides about them, and forgets what was remembered;
// each only with the token of the page.
func TestApprovals(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.proxy.cfg.Approval.Remember = time.Hour
	approver := approval.New(approval.Options{
		Queue: b.queue, Redact: func(raw []byte) []byte { return raw }, Log: slog.New(slog.DiscardHandler),
		Settings: func() approval.Settings {
			return approval.Settings{By: approval.ByQueue, Wait: approval.Answer, Timeout: time.Hour, Remember: time.Hour, MaxWaiting: 9}
		},
	})
	call := func(arguments string) (policy.Approval, error) {
		return approver.Approve(t.Context(), route.Asking{
			Request:  policy.Request{Kind: policy.KindTool, Server: "files", Name: "write", Arguments: []byte(arguments), Caller: policy.Caller{Client: attack}},
			Decision: policy.Decision{Action: policy.Ask, Rule: "r", Reason: attack},
		})
	}
	var ids []string
	for _, arguments := range []string{`{"n":12345678901234567890}`, `{"n":2}`} {
		made, err := call(arguments)
		if err == nil {
			t.Fatal("let through")
		}
		ids = append(ids, made.ID)
	}
	var state struct{ Approvals int }
	if b.get("state", &state); state.Approvals != 2 {
		t.Errorf("%+v", state)
	}
	var queue struct {
		Waiting []struct {
			ID, State, Target, Caller, Arguments string
			Waits                                bool
		}
		Remembered  []struct{ ID string }
		RememberFor int64
	}
	b.get("approvals", &queue)
	if len(queue.Waiting) != 2 || queue.Waiting[0].ID != ids[0] || queue.Waiting[0].Target != "files.write" || queue.Waiting[0].State != "open" ||
		!strings.Contains(queue.Waiting[0].Arguments, "12345678901234567890") || queue.RememberFor != 3_600_000 {
		t.Fatalf("%+v", queue)
	}
	for _, refused := range []struct {
		path, body string
		status     int
		headers    []string
	}{
		{ids[0], `{"decision":"allow"}`, 401, []string{"Authorization", ""}},
		{ids[0], `{"decision":"allow"}`, 401, []string{"Authorization", "Bearer x"}},
		{ids[0], `{"decision":"allow"}`, 403, []string{"Origin", "http://evil.example"}},
		{ids[0], `{"decision":"allow"}`, 403, []string{"Sec-Fetch-Site", "cross-site"}},
		{ids[0], `{"decision":"allow"}`, 415, []string{"Content-Type", "text/plain"}},
		{ids[0], `{"decision":"perhaps"}`, 400, nil},
		{ids[0], `{"decision":"allow","remember":"all"}`, 400, nil},
		{ids[0], `{"decision":1}`, 400, nil},
		{"zzzzz", `{"decision":"allow"}`, 404, nil},
		{"..%2Fx", `{"decision":"forget"}`, 404, nil},
	} {
		resp, body := b.ask(http.MethodPost, "/ui/api/approvals/"+refused.path, refused.body, refused.headers...)
		if resp.StatusCode != refused.status {
			t.Errorf("%+v: %s %s", refused, resp.Status, body)
		}
	}
	if b.get("state", &state); state.Approvals != 2 {
		t.Errorf("decided by a request that was refused: %+v", state)
	}
	resp, body := b.ask(http.MethodPost, "/ui/api/approvals/"+ids[0], `{"decision":"allow","remember":"value","note":"fine"}`)
	if resp.StatusCode != 200 || json.Unmarshal([]byte(body), &queue) != nil || len(queue.Remembered) != 1 || queue.Waiting[0].State != "allowed" {
		t.Fatalf("%s %s", resp.Status, body)
	}
	if resp, body := b.ask(http.MethodPost, "/ui/api/approvals/"+ids[0], `{"decision":"deny"}`); resp.StatusCode != 409 || !strings.Contains(body, "was allowed already, by user of the page") {
		t.Errorf("%s %s", resp.Status, body)
	}
	if made, err := call(`{"n":12345678901234567890}`); err != nil || made.By != pageUser {
		t.Errorf("%+v, %v", made, err)
	}
	if resp, body := b.ask(http.MethodPost, "/ui/api/approvals/"+queue.Remembered[0].ID, `{"decision":"forget"}`); resp.StatusCode != 200 || !strings.Contains(body, `"remembered":[]`) {
		t.Errorf("%s %s", resp.Status, body)
	}
	b.ask(http.MethodPost, "/ui/api/approvals/"+ids[1], `{"decision":"deny"}`)
	if made, err := call(`{"n":2}`); err == nil || made.How != approval.HowPage {
		t.Errorf("%+v, %v", made, err)
	}
}
