package host

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
)

// askAlways returns a policy that asks for every call of the upstream "up".
func askAlways(t *testing.T) config.Policy { return askFor(t, "up.*") }

// askFor returns a policy that asks for every call of some tools.
func askFor(t *testing.T, tools string) config.Policy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	text := "[[policy.rule]]\nname = \"asks\"\ntools = [\"" + tools + "\"]\naction = \"ask\"\nreason = \"why\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.LoadOptions{Context: t.Context(), Flag: path, Policies: compile.Policy})
	if err != nil {
		t.Fatal(err)
	}
	return cfg.Policy
}

// TestApprovals plays testdata/approvals.txtar as TestConversations does, with a policy that
// asks for every call of the upstream. The name of a conversation that begins with "queue"
// sets by = "queue". In addition to the lines there, "q> VERDICT" decides about the oldest
// call in the queue, when there is one: allow, deny, "allow later" for one that was answered, or
// gone, which waits until there is none. $ask is the beginning of a question, $form its schema and $fine an answer.
func TestApprovals(t *testing.T) {
	t.Parallel() // it mostly waits
	archive, err := txtar.ParseFile("testdata/approvals.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var continued, decided atomic.Int64
	t.Cleanup(func() {
		if continued.Load() == 0 || decided.Load() == 0 {
			t.Errorf("%d runs that go on after a question were verified, and %d journals with decisions", continued.Load(), decided.Load())
		}
	})
	for _, f := range archive.Files {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			dir := ""
			k := newTalk(t, "", "", func(cfg *config.Config) {
				cfg.Policy, dir, cfg.Journal.Sign = askAlways(t), cfg.Store.Dir, config.SignOn
				cfg.Approval = config.Approval{By: config.ApprovalByEither, Wait: config.ApprovalHold, Timeout: time.Minute, Remember: time.Hour, MaxWaiting: 9}
				cfg.InputTimeout, cfg.Journal.MaxAge = time.Minute, time.Minute
				if strings.HasPrefix(f.Name, "queue") {
					cfg.Approval.By, cfg.Execution.TaskAfter = config.ApprovalByQueue, time.Millisecond
				}
			})
			k.names["$ask"] = `{"message":"May this call be made?\n\nTool: ` + "`t` of the server `up`" + `\nCalled by: `
			k.names["$fine"] = `{"action":"accept","content":{"decision":"allow once"}}`
			k.playAsking(dir, string(f.Data))
			n, text := verifyRuns(t, dir)
			continued.Add(int64(n))
			if strings.Contains(text, `"approval":{`) && strings.Contains(text, `"t":"end"`) {
				decided.Add(1)
			}
		})
	}
}

// playAsking is play with lines "q> VERDICT" that decide about calls in the queue of a store;
// see TestApprovals.
func (k *talk) playAsking(dir, text string) {
	queue := approval.OpenQueue(dir, slog.New(slog.DiscardHandler))
	defer queue.Close()
	var lines strings.Builder
	for line := range strings.Lines(text) {
		verdict, ok := strings.CutPrefix(line, "q> ")
		if !ok {
			lines.WriteString(line)
			continue
		}
		k.play(lines.String())
		lines.Reset()
		decideNext(k.t, dir, queue, strings.TrimSpace(verdict))
	}
	k.play(lines.String())
}

// decideNext decides about the oldest open call in a queue, when there is one. dir is the
// folder of the store.
func decideNext(t *testing.T, dir string, queue *approval.Queue, verdict string) {
	t.Helper()
	later, nobodyWaits := strings.CutSuffix(verdict, " later")
	awaitQueue(t, dir, queue, "q> "+verdict, func(list []approval.Listed) bool {
		if verdict == "gone" {
			return len(list) == 0
		}
		for _, e := range list {
			if e.State == approval.Open && e.Waits != nobodyWaits {
				_, err := queue.Decide(t.Context(), e.ID, approval.Verdict{Allow: later == "allow", By: "me"}, approval.HowQueue, 0)
				if err != nil {
					t.Fatal(err)
				}
				return true
			}
		}
		return false
	})
}

// awaitQueue calls found with what is in a queue, now and after each change of its folder,
// until it returns true. dir is the folder of the store, and what is waited for is for errors.
func awaitQueue(t *testing.T, dir string, queue *approval.Queue, what string, found func([]approval.Listed) bool) {
	t.Helper()
	changes, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	folder := filepath.Join(dir, "approvals", "queue")
	if err := errors.Join(os.MkdirAll(folder, 0o700), changes.Add(folder)); err != nil {
		t.Fatal(err)
	}
	for end := time.After(maxWait); ; {
		list, err := queue.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found(list) {
			return
		}
		select {
		case <-changes.Events:
		case <-end:
			t.Fatalf("%s: it does not come to that", what)
		}
	}
}
