package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// keptRig is a client of an upstream of the handshake era, with a budget of 2 MiB for kept
// messages.
func keptRig(t *testing.T) (*rig, *fakeUpstream, *fakeSession, *budget.Budget) {
	g, up, s := bridgedRig(t, optional, takesAll)
	g.router.EndSession(s)
	shared := budget.New(32 << 20)
	g.router.Budget = shared
	g.router.Begin(s)
	return g, up, s, shared
}

// checkRefused checks that some of many messages are kept and counted, the rest is refused with an
// error about memory, and nothing is left at the end.
func checkRefused(t *testing.T, g *rig, s *fakeSession, shared *budget.Budget, end func(), make func(i int) string) {
	t.Helper()
	kept, refused := 0, 0
	for i := range 64 {
		switch got := make(i); {
		case strings.Contains(got, "no memory: the ") && strings.Contains(got, "of this client would be") && strings.Contains(got, "max_total_memory"):
			refused++
		case strings.Contains(got, `"code"`):
			t.Fatalf("%.300s", got)
		default:
			kept++
		}
	}
	if used := shared.Figures().Used; kept == 0 || refused == 0 || used < 1<<20 || used > 2<<20 {
		t.Errorf("%d are kept, %d refused, %d bytes counted", kept, refused, used)
	}
	end()
	for _, task := range slices.Clone(g.router.bridged.order) {
		g.router.bridged.forget(task)
	}
	g.router.EndSession(s)
	synctest.Wait()
	if f := shared.Figures(); f.Used != 0 {
		t.Errorf("at the end: %+v", f)
	}
	g.router.Close()
}

// TestKeptIsCounted checks that memory kept by the router for clients is counted for them.
func TestKeptIsCounted(t *testing.T) {
	large := strings.Repeat("x", 60<<10)
	t.Run("bridged tasks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, up, s, shared := keptRig(t)
			s.params = `{"capabilities":` + takesAll + `,"clientInfo":{"name":"` + large + `"}}`
			checkRefused(t, g, s, shared, func() {}, func(i int) string {
				up.on("tools/call", fmt.Sprintf(`{"task":{"taskId":"own%d","status":"working","createdAt":"c","lastUpdatedAt":"l","ttl":1}}`, i))
				got := g.ask(s, "tools/call", "{"+requests["tools/call"]+"}")
				if task := g.router.bridged.order; len(task) > 0 && task[len(task)-1].client == nil {
					return "no memory: the tasks of this client would be too many (max_total_memory)" // and so the client cannot be asked
				}
				return got
			})
		})
	})
	t.Run("questions of bridged tasks", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, _, s, shared := keptRig(t)
			var tasks []*bridgedTask
			for i := range 4 { // each can ask 32 things
				task, err := g.router.bridged.get(g.router, watchKey{id: fmt.Sprint(i)}, s)
				if err != nil {
					t.Fatal(err)
				}
				tasks = append(tasks, task)
			}
			checkRefused(t, g, s, shared, func() {}, func(i int) string {
				_, err := tasks[i%4].question(wire.Call{Method: protocol.MethodElicit, Params: []byte(`{"message":"` + large + `"}`)})
				return fmt.Sprint(err)
			})
		})
	})
	t.Run("subscriptions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, _, s, shared := keptRig(t)
			checkRefused(t, g, s, shared, func() {}, func(i int) string {
				for j := range 4 {
					if _, err := g.router.addSubscriber(topic{uri: fmt.Sprint(i, j, large[:15<<10])}, s); err != nil {
						return err.Error()
					}
				}
				return ""
			})
		})
	})
	t.Run("answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g, _, s, shared := keptRig(t)
			b := bridge{origin: s, server: "a", budget: shared}
			b.kept = shared.OpenKept(BudgetKey(s), "answers of this client")
			checkRefused(t, g, s, shared, b.end, func(int) string {
				if _, err := b.keep([]byte(large)); err != nil {
					return err.Error()
				}
				return ""
			})
		})
	})
}

// TestForgottenForMemory checks that the ids of tasks and the like kept by a session are counted,
// and the oldest are forgotten if no memory is left for more.
func TestForgottenForMemory(t *testing.T) {
	g, _, s, shared := keptRig(t)
	for i := range 4 * maxEarly {
		status := fmt.Appendf(nil, `{"taskId":"%d","x":"%s"}`, i, strings.Repeat("x", maxEarlyStatus-100))
		g.router.Notified(s, protocol.NotificationTaskStatus, status)
	}
	used := shared.Figures().Used
	var n int
	var oldest, newest bool
	g.router.with(s, func(c *client) {
		n = len(c.early.order)
		_, oldest = c.early.get("0")
		_, newest = c.early.get(fmt.Sprint(4*maxEarly - 1))
	})
	if n < 50 || n >= maxEarly || oldest || !newest || used > 2<<20 || used < int64(n)*(maxEarlyStatus-100) {
		t.Errorf("%d are kept with %d bytes; the oldest: %v, the newest: %v", n, used, oldest, newest)
	}
	g.router.EndSession(s)
	g.router.Close()
	if f := shared.Figures(); f.Used != 0 {
		t.Errorf("at the end: %+v", f)
	}
}

// TestHostBeginsASession checks that memory can be kept for the host, which is no session.
func TestHostBeginsASession(t *testing.T) {
	g, _, _, _ := keptRig(t)
	if _, err := g.router.BeginSession(t.Context(), nil); err != nil || BudgetKey(nil) != nil {
		t.Error(err)
	}
	g.router.Close()
}
