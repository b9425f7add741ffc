package host

import (
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// TestPlanConversations plays testdata/plans.txtar as TestApprovals does, with a policy that
// asks for calls of up.w. The upstream has also the read r. A name of a conversation begins
// with that of its setup, which is played first. With "queue" in it, approvals are asked for
// in the queue, and with "answered" calls that wait are answered. With "task", the client knows tasks.
func TestPlanConversations(t *testing.T) {
	t.Parallel() // it mostly waits
	archive, err := txtar.ParseFile("testdata/plans.txtar")
	if err != nil {
		t.Fatal(err)
	}
	setups := map[string]string{}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "setup "); ok {
			setups[name] = string(f.Data)
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			dir := ""
			k := newTalk(t, "", "", func(cfg *config.Config) {
				cfg.Policy, dir = askFor(t, "up.w"), cfg.Store.Dir
				cfg.Plan.Expires = time.Hour
				cfg.Approval = config.Approval{By: config.ApprovalByEither, Wait: config.ApprovalHold, Timeout: time.Minute, Remember: time.Hour, MaxWaiting: 9}
				cfg.InputTimeout, cfg.Journal.MaxAge = time.Minute, time.Minute
				if strings.Contains(f.Name, "queue") {
					cfg.Approval.By = config.ApprovalByQueue
				}
				if strings.Contains(f.Name, "answered") {
					cfg.Approval.Wait = config.ApprovalAnswer
				}
				if strings.Contains(f.Name, "task") {
					cfg.Execution.TaskAfter = time.Millisecond
				}
			})
			if strings.Contains(f.Name, "task") {
				k.names["$env"] = taskMeta
			}
			k.names["$fine"] = `{"action":"accept","content":{"decision":"allow once"}}`
			k.names["$code"] = `"x = up.r(n=1)\np = up.w(t=x.t)\nup.w(t='second', of=p)\nreturn {'of': p}"`
			setup, _, _ := strings.Cut(f.Name, ":")
			k.playAsking(dir, setups[setup]+string(f.Data))
		})
	}
}
