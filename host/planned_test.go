package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// plannedConfig is the configuration of tests in which agents plan.
const plannedConfig = `
[upstream.store]
url = "${STORE}"
prefix = ""
[http]
listen = "127.0.0.1:0"
tokens = [{ name = "owner", token = "token-of-owner" }, { name = "other", token = "token-of-other" }]
`

// planner is a client of a store that plans and applies.
type planner struct{ *attempt }

func newPlanner(t *testing.T, s *shop) planner {
	return planner{&attempt{T: t, shop: s, from: s.received.Len(), clients: map[string]*mcptest.Client{}, who: "owner"}}
}

// lines plays lines as TestForbidden does.
func (p planner) lines(text string) {
	p.Helper()
	for line := range strings.Lines(text) {
		if err := p.play(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "$1", p.found)); err != nil {
			p.Fatalf("%s: %v", line, err)
		}
	}
}

// save saves the tool "tidy" with a write in it.
func (p planner) save(code, more string) {
	p.Helper()
	p.lines(fmt.Sprintf(`> tools/call {"name":"save_tool","arguments":{"name":"tidy","description":"d","inputSchema":{"type":"object"},"code":%q%s}}
< (created|updated)`, code, more))
}

// make makes a plan and returns its id.
func (p planner) make(arguments string) string {
	p.Helper()
	p.lines(`> tools/call {"name":"plan_tool","arguments":` + arguments + `}` + "\n" + `< "structuredContent":\{"id":"([0-9a-f-]+)"`)
	return p.found
}

// kept returns a plan of the store.
func (p planner) kept(id string) *plan.File {
	p.Helper()
	f, err := p.host.Plans().Load(p.Context(), id)
	if err != nil {
		p.Fatal(err)
	}
	return f
}

// keep keeps a plan after a change, as if it had been made so.
func (p planner) keep(id string, change func(*plan.Plan)) {
	p.Helper()
	f := p.kept(id)
	change(&f.Plan)
	f.Digest = f.Plan.Digest()
	if err := p.host.Plans().Keep(p.Context(), f); err != nil {
		p.Fatal(err)
	}
}

// edit edits the file of a plan by hand, and corrects its digest if again is set.
func (p planner) edit(id, old, text string, again bool) {
	p.Helper()
	path := filepath.Join(p.host.config().Store.Dir, "plans", "*", id+".json") // in the folder of its owner
	if found, _ := filepath.Glob(path); len(found) == 1 {
		path = found[0]
	}
	raw, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(raw), old) {
		p.Fatalf("%v in\n%s", err, raw)
	}
	edited := strings.Replace(string(raw), old, text, 1)
	if _, err := plan.Parse([]byte(edited)); again && err != nil {
		found := regexp.MustCompile(`its digest is ([0-9a-f]{64})`).FindStringSubmatch(err.Error())
		if found == nil {
			p.Fatal(err)
		}
		edited = strings.Replace(edited, p.kept(id).Digest, found[1], 1)
	}
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		p.Fatal(err)
	}
}

// TestPlanDrift checks that a plan is not applied if something is not as it was, that the
// agent is told what, and what to do, and that no call is made.
func TestPlanDrift(t *testing.T) {
	t.Parallel()
	s := newShop(t, []byte(plannedConfig))
	const code = "x = store.read(id='1')\nstore.write(id='2')\nreturn x"
	zeros := strings.Repeat("0", 64)
	for _, c := range []struct {
		what, want string
		change     func(p planner, id string)
	}{
		{"expiry", `expired at .*make a new one; \[plan\] expires`, func(p planner, id string) {
			p.keep(id, func(plan *plan.Plan) {
				plan.Created, plan.Expires = plan.Created.Add(-2*time.Hour), plan.Created.Add(-time.Hour)
			})
		}},
		{"code", `saved tool \\"tidy\\" was changed: its digest is .*make a new plan`, func(p planner, _ string) { p.save("store.write(id='3')", "") }},
		{"removed", `there is no saved tool \\"tidy\\"`, func(p planner, _ string) {
			p.lines(`> tools/call {"name":"delete_saved_tool","arguments":{"name":"tidy"}}`)
		}},
		{"limits of the tool", `saved tool \\"tidy\\" was changed`, func(p planner, _ string) { p.save(code, `,"limits":{"calls":7}`) }},
		{"limits", `the limits were changed: they are .* 77 calls, .* bound to .*make a new plan`, func(p planner, _ string) {
			reload(p, p.host, func(cfg *config.Config) { cfg.Execution.MaxCalls = 77 })
		}},
		{"what a read is", `\[plan\] was changed: reads = \[\\"a.b\\"\].*make a new plan`, func(p planner, _ string) {
			reload(p, p.host, func(cfg *config.Config) { cfg.Plan.Reads = []string{"a.b"} })
		}},
		{"guest", `this program was updated: its guest is .*` + zeros + `.*make a new plan`, func(p planner, id string) {
			p.keep(id, func(plan *plan.Plan) { plan.Guest = zeros })
		}},
		{"definition", `the definition of store.write has changed since plan .*look at it, and make a new plan`, func(p planner, _ string) {
			p.lines(`! replace tools [` + strings.ReplaceAll(strings.Join(storeTools, ","), "Writes an item", "Writes two items") + `]`)
		}},
		{"hint", `store.read has changed|store.read is a write here`, func(p planner, _ string) {
			p.lines(`! replace tools [` + strings.ReplaceAll(strings.Join(storeTools, ","), `"readOnlyHint":true`, `"readOnlyHint":false`) + `]`)
		}},
		{"hidden tool", `the configuration hides it`, func(p planner, _ string) {
			reload(p, p.host, func(cfg *config.Config) { cfg.Upstreams[0].Hide = []string{"write"} })
		}},
		{"parameters in the file", `it was edited: its digest is .*make a new plan`, func(p planner, id string) { p.edit(id, `"params": {}`, `"params": {"a": 1}`, false) }},
		{"a write in the file", `its file was edited`, func(p planner, id string) { p.edit(id, `"id": "2"`, `"id": "3"`, true) }},
		{"a write in the file, with its number", `it was edited`, func(p planner, id string) { p.edit(id, `"id": "2"`, `"id": "3"`, false) }},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPlanner(t, s)
			p.save(code, "")
			id := p.make(`{"name":"tidy"}`)
			before := *s.host.config()
			c.change(p, id)
			p.lines(`> tools/call {"name":"apply_plan","arguments":{"plan":"` + id + `"}}` + "\n" + `< isError":true`)
			if !regexp.MustCompile(c.want).MatchString(p.answer) || !strings.Contains(p.answer, "nothing was done") {
				t.Errorf("%s\nwant %s", p.answer, c.want)
			}
			if claims, err := os.ReadDir(filepath.Join(s.host.config().Store.Dir, "plans", "applied")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it is used up: %v, %v", claims, err)
			}
			p.unseen("write")
			reload(t, s.host, func(cfg *config.Config) { *cfg = before })
			p.lines(`! replace tools [` + strings.Join(storeTools, ",") + `]`)
		})
	}
}

// TestChangeDuringApproval checks that a tool that changes while a person is asked about the
// plan is not run.
func TestChangeDuringApproval(t *testing.T) {
	t.Parallel()
	s := newShop(t, []byte(plannedConfig))
	p := newPlanner(t, s)
	p.save("store.write(id='2')", "")
	f := p.kept(p.make(`{"name":"tidy"}`))
	f.Principal = ""
	if _, err := s.host.Planner().Check(t.Context(), f, nil); err != nil {
		t.Fatal(err)
	}
	p.save("return store.write(id='2')", "")
	_, err := s.host.Planner().Apply(t.Context(), f, plan.ApplyOptions{}, route.Call{})
	if err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("it was applied: %v", err)
	}
	p.unseen("write")
}

// TestOneApplication checks that of agents of two sessions, and a command with the same store,
// one applies a plan.
func TestOneApplication(t *testing.T) {
	t.Parallel()
	s := newShop(t, []byte(plannedConfig))
	p := newPlanner(t, s)
	id := p.make(`{"code":"for i in range(5):\n    store.write(id=str(i))"}`)
	f := p.kept(id)
	var mu sync.Mutex
	applied := 0
	note := func(done bool) {
		mu.Lock()
		defer mu.Unlock()
		if done {
			applied++
		}
	}
	var wg sync.WaitGroup
	for range 2 { // agents
		other := newPlanner(t, s)
		if _, err := other.client(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if err := other.request(`tools/call {"name":"apply_plan","arguments":{"plan":"`+id+`"}}`, false); err != nil {
				t.Error(err)
			}
			note(strings.Contains(other.answer, `"applied":true`))
			if !strings.Contains(other.answer, `"applied":true`) && !strings.Contains(other.answer, "applied before") {
				t.Error(other.answer)
			}
		})
	}
	for range 2 { // commands
		wg.Go(func() {
			_, err := s.host.Planner().Apply(context.Background(), f, plan.ApplyOptions{Approved: true}, route.Call{})
			note(err == nil)
			if used := new(plan.AppliedError); err != nil && !errors.As(err, &used) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var ids string
	for _, e := range s.received.All()[p.from:] {
		if e.Msg.Method == "tools/call" {
			ids += regexp.MustCompile(`"id":"(\d)"`).FindStringSubmatch(string(e.Msg.Params))[1]
		}
	}
	if applied != 1 || ids != "01234" {
		t.Errorf("%d have applied it, with the calls %s", applied, ids)
	}
}
