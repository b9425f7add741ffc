package approval

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "8") // parallel tests wait most of the time
	goleak.VerifyTestMain(m)
}

// anySession is nil: tests call only the methods that client defines.
type anySession = route.Session

// client is the origin of a call, whose client can be asked by a form. It answers the
// questions with what it says.
type client struct {
	anySession
	says         func(ctx context.Context, params []byte) (wire.Reply, error)
	capabilities string

	mu    sync.Mutex
	asked []string // the messages
}

func (c *client) Client() []byte { return []byte(`{"capabilities":` + c.capabilities + `}`) }

func (c *client) Ask(ctx context.Context, call wire.Call) (wire.Reply, error) {
	message, _ := wire.GetString(call.Params, "message")
	c.mu.Lock()
	c.asked = append(c.asked, message)
	c.mu.Unlock()
	if !call.Own {
		panic("an approval looks like the question of a server")
	}
	return c.says(ctx, call.Params)
}

func (c *client) times() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

// answering returns a client that answers each question in the same way.
func answering(result string) *client {
	return &client{capabilities: `{"elicitation":{}}`, says: func(context.Context, []byte) (wire.Reply, error) {
		return wire.Reply{Result: []byte(result)}, nil
	}}
}

// desk is an Approver with its queue.
type desk struct {
	*Approver
	t        *testing.T
	queue    *Queue
	settings Settings
}

func testSettings() Settings {
	return Settings{By: ByEither, Wait: Hold, Timeout: time.Minute, Remember: time.Hour, MaxWaiting: 4}
}

// newDesk returns a desk with a queue in a folder.
func newDesk(t *testing.T, dir string) *desk {
	t.Helper()
	return newDeskOf(t, OpenQueue(dir, slog.New(slog.DiscardHandler)))
}

// newDeskOf returns a desk with a queue.
func newDeskOf(t *testing.T, queue *Queue) *desk {
	t.Helper()
	d := &desk{t: t, queue: queue, settings: testSettings()}
	t.Cleanup(d.queue.Close)
	d.Approver = New(Options{
		Queue: d.queue, Settings: func() Settings { return d.settings }, Log: slog.New(slog.DiscardHandler),
		Redact: func(raw []byte) []byte { return []byte(strings.ReplaceAll(string(raw), "hunter2secret", "****")) },
	})
	return d
}

// asking returns a call of a tool with arguments.
func asking(o route.Origin, arguments string) route.Asking {
	return route.Asking{
		Origin: o,
		Request: policy.Request{
			Kind: policy.KindTool, Server: "github", Name: "merge", Arguments: []byte(arguments),
			Definition: []byte(`{"name":"merge","inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"n":{"type":"array","items":{"type":"integer"}},"how":{"enum":["squash","rebase"]}}}}`),
			Caller:     policy.Caller{Client: "host", Session: "s1"},
		},
		Decision: policy.Decision{Action: policy.Ask, Rule: "production is asked for", Reason: "changes production"},
	}
}

// approve makes a call.
func (d *desk) approve(a route.Asking) (policy.Approval, error) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	return d.Approve(ctx, a)
}

// held makes a call that waits in the queue, and returns its entry, and the channel of what
// becomes of it.
func (d *desk) held(ctx context.Context, a route.Asking) (Entry, <-chan error) {
	d.t.Helper()
	heard, also := make(chan string, 1), a.Progress
	a.Progress = func(message string) {
		if also != nil {
			also(message)
		}
		select {
		case heard <- message:
		default:
		}
	}
	done := make(chan error, 1)
	go func() {
		_, err := d.Approve(ctx, a)
		done <- err
	}()
	select {
	case err := <-done:
		d.t.Fatalf("not held: %v", err)
	case message := <-heard:
		id := strings.Fields(strings.TrimPrefix(message, "waiting for approval "))[0]
		e, err := d.queue.Find(d.t.Context(), id)
		if err != nil {
			d.t.Fatalf("%s: %v", message, err)
		}
		return e, done
	case <-time.After(time.Minute):
		d.t.Fatal("nothing waits")
	}
	return Entry{}, nil
}

func (d *desk) list() []Listed {
	d.t.Helper()
	list, err := d.queue.List(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

func (d *desk) decide(id string, v Verdict) {
	d.t.Helper()
	if v.By == "" {
		v.By = "user x at the terminal"
	}
	if _, err := d.queue.Decide(d.t.Context(), id, v, HowQueue, time.Hour); err != nil {
		d.t.Fatal(err)
	}
}

// ends returns what has become of a held call.
func (d *desk) ends(done <-chan error) error {
	d.t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		d.t.Fatal("the call still waits")
		return nil
	}
}

// TestAnswers checks what each answer of a client leads to: only a clear permission allows.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer  string
		allowed bool
	}{
		{`{"action":"accept","content":{"decision":"allow once"}}`, true},
		{`{"action":"accept","content":{"decision":"allow and remember"}}`, true},
		{`{"action":"accept","content":{"decision":"deny","note":"not now"}}`, false},
		{`{"action":"decline"}`, false},
		{`{"action":"cancel"}`, false},
		{`{"action":"decline","content":{"decision":"allow once"}}`, false},
		{`{"action":"accept"}`, false},
		{`{"action":"accept","content":{}}`, false},
		{`{"action":"accept","content":{"decision":"allow"}}`, false},
		{`{"action":"accept","content":{"decision":true}}`, false},
		{`{"action":"accept","content":"allow once"}`, false},
		{`{"action":["accept"],"content":{"decision":"allow once"}}`, false},
		{`{}`, false},
	} {
		d := newDesk(t, t.TempDir())
		c := answering(test.answer)
		made, err := d.approve(asking(c, `{"n":1}`))
		var denied *DeniedError
		if test.allowed != (err == nil) || made.Allowed != test.allowed || err != nil && !errors.As(err, &denied) {
			t.Errorf("%s: %+v, %v", test.answer, made, err)
		}
		if made.How != HowClient || made.By != "client `host`" || made.Digest == "" || c.times() != 1 {
			t.Errorf("%s: %+v, asked %d times", test.answer, made, c.times())
		}
		if err != nil && !strings.Contains(err.Error(), "`github.merge` was not approved: denied by client `host` (rule `production is asked for`)") {
			t.Errorf("%s: %v", test.answer, err)
		}
		if strings.Contains(test.answer, "not now") && !strings.HasSuffix(err.Error(), ": `not now`") {
			t.Errorf("the note is missing: %v", err)
		}
	}
}

// TestBinding checks what a remembered approval is bound to: for everything else, the client
// is asked again.
func TestBinding(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(a *route.Asking)
		asked  int
	}{
		"the same":        {func(*route.Asking) {}, 1},
		"order":           {func(a *route.Asking) { a.Request.Arguments = []byte(`{"repo":"a","how":"squash"}`) }, 2},
		"escapes":         {func(a *route.Asking) { a.Request.Arguments = []byte(`{"how":"squash","repo":"\u0061"}`) }, 2},
		"white space":     {func(a *route.Asking) { a.Request.Arguments = []byte(`{"how":"squash", "repo":"a"}`) }, 2},
		"other session":   {func(a *route.Asking) { a.Request.Caller.Session = "s2" }, 1},
		"called by":       {func(a *route.Asking) { a.Request.Caller.Script = "x" }, 1},
		"other arguments": {func(a *route.Asking) { a.Request.Arguments = []byte(`{"how":"squash","repo":"b"}`) }, 2},
		"more arguments":  {func(a *route.Asking) { a.Request.Arguments = []byte(`{"how":"squash","repo":"a","x":null}`) }, 2},
		"none":            {func(a *route.Asking) { a.Request.Arguments = nil }, 2},
		"other tool":      {func(a *route.Asking) { a.Request.Name = "close" }, 2},
		"other server":    {func(a *route.Asking) { a.Request.Server = "gitlab" }, 2},
		"other kind":      {func(a *route.Asking) { a.Request.Kind = policy.KindPrompt }, 2},
		"other rule":      {func(a *route.Asking) { a.Decision.Rule = "another" }, 2},
		"other token":     {func(a *route.Asking) { a.Request.Caller.Client, a.Request.Caller.Token = "host", true }, 2},
		"drift":           {func(a *route.Asking) { a.Request.Definition = []byte(`{"name":"merge","description":"now harmless"}`) }, 2},
		"other version":   {func(a *route.Asking) { a.Request.Version = "other" }, 2}, // of a saved tool: schemas, limits, code
		"other schema": {func(a *route.Asking) {
			a.Request.Definition = []byte(`{"name":"merge","inputSchema":{"type":"object","properties":{"how":{"enum":["squash"]}}}}`)
		}, 2},
		"no definition": {func(a *route.Asking) { a.Request.Definition = nil }, 2},
	} {
		d := newDesk(t, t.TempDir())
		c := answering(`{"action":"accept","content":{"decision":"allow and remember"}}`)
		if _, err := d.approve(asking(c, `{"how":"squash","repo":"a"}`)); err != nil {
			t.Fatal(err)
		}
		again := asking(c, `{"how":"squash","repo":"a"}`)
		test.change(&again)
		made, err := d.approve(again)
		if err != nil || c.times() != test.asked || made.Remembered != (test.asked == 1) {
			t.Errorf("%s: asked %d times, %+v, %v", name, c.times(), made, err)
		}
	}
}

// TestRememberedForToken checks that a decision for the clients with one token does not count
// for those with another, also if the tokens have no names.
func TestRememberedForToken(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	c := answering(`{"action":"accept","content":{"decision":"allow and remember"}}`)
	for i, caller := range []policy.Caller{
		{Principal: "p1"}, {Principal: "p2"}, {Client: "p1", Token: true, Principal: "p3"}, {}, {Client: "p1", Principal: "p4"},
	} {
		a := asking(c, `{}`)
		a.Request.Caller = caller
		for range 2 {
			if _, err := d.approve(a); err != nil || c.times() != i+1 {
				t.Errorf("%+v: asked %d times, %v", caller, c.times(), err)
			}
		}
	}
}

// TestRememberedEnds checks how a remembered decision ends: by time, by being forgotten, and
// with its rule.
func TestRememberedEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(d *desk, r Remembered) error{
		"clock": func(d *desk, r Remembered) error {
			d.queue.now = func() time.Time { return r.Created.Add(-time.Hour) }
			return nil
		},
		"time":   func(d *desk, r Remembered) error { d.queue.now = func() time.Time { return r.Expires }; return nil },
		"forget": func(d *desk, r Remembered) error { _, err := d.queue.Forget(d.t.Context(), r.ID); return err },
		"rule": func(d *desk, _ Remembered) error {
			return d.queue.KeepRules(d.t.Context(), func(rule string) bool { return rule != "production is asked for" })
		},
	} {
		d := newDesk(t, t.TempDir())
		c := answering(`{"action":"accept","content":{"decision":"allow and remember"}}`)
		if _, err := d.approve(asking(c, `{}`)); err != nil {
			t.Fatal(err)
		}
		list, err := d.queue.Remembered(t.Context())
		if err != nil || len(list) != 1 || !list[0].Allow || list[0].Scope != ForValue || list[0].Expires.Sub(list[0].Created) != time.Hour {
			t.Fatalf("%s: remembered %+v, %v", name, list, err)
		}
		if err := d.queue.KeepRules(t.Context(), func(string) bool { return true }); err != nil {
			t.Error(err)
		}
		if err := end(d, list[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := d.queue.Remembered(t.Context()); err != nil || len(left) != 0 {
			t.Errorf("%s: left %+v, %v", name, left, err)
		}
		if _, err := d.approve(asking(c, `{}`)); err != nil || c.times() != 2 {
			t.Errorf("%s: asked %d times, %v", name, c.times(), err)
		}
	}
}

// TestRememberedOfClients checks that what clients have decided does not count where only the
// user of the queue may decide.
func TestRememberedOfClients(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	c := answering(`{"action":"accept","content":{"decision":"allow and remember"}}`)
	if _, err := d.approve(asking(c, `{}`)); err != nil {
		t.Fatal(err)
	}
	d.settings.By, d.settings.Wait = ByQueue, Answer
	made, err := d.approve(asking(c, `{}`))
	var waiting *WaitingError
	if !errors.As(err, &waiting) {
		t.Fatalf("%+v, %v", made, err)
	}
	d.decide(made.ID, Verdict{Allow: true, Remember: ForValue})
	for _, by := range []By{ByQueue, ByClient} { // the user of the queue decides for all
		d.settings.By = by
		for range 2 {
			if made, err := d.approve(asking(c, `{}`)); err != nil || made.Remembered && made.How != HowRemembered || c.times() != 1 {
				t.Errorf("%s: %+v, %v", by, made, err)
			}
		}
	}
}

// TestShapesOfOurTools checks that the same shape is the same value for built-in tools: their
// arguments are whole scripts and plans.
func TestShapesOfOurTools(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	d.settings.By, d.settings.Wait = ByQueue, Answer
	eval := func(code string) (policy.Approval, error) {
		a := asking(nil, `{"code":"`+code+`"}`)
		a.Request.Server, a.Request.Name = policy.BuiltinTools, "eval_starlark"
		return d.approve(a)
	}
	made, _ := eval("return 1")
	d.decide(made.ID, Verdict{Allow: true, Remember: ForShape})
	for code, allowed := range map[string]bool{"return 1": true, "return 2": false} {
		if _, err := eval(code); (err == nil) != allowed {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// filesIn returns the paths of all files below a folder, sorted.
func filesIn(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestWhoIsAsked checks who decides with each setting, and with clients that cannot be asked.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	refuses := &client{capabilities: `{"elicitation":{"form":{}}}`, says: func(context.Context, []byte) (wire.Reply, error) {
		return wire.Reply{Error: []byte(`{"code":-32601,"message":"no ` + "`" + `such method"}`)}, nil
	}}
	deaf := &client{capabilities: `{"elicitation":{}}`, says: func(context.Context, []byte) (wire.Reply, error) {
		return wire.Reply{}, route.ErrNotListening
	}}
	urls := &client{capabilities: `{"elicitation":{"url":{}}}`}
	plain := &client{capabilities: `{}`}
	for name, test := range map[string]struct {
		by     By
		origin route.Origin
		how    string // of the approval
		text   string // of the error; "" if the call is in the queue
	}{
		"client":                 {ByClient, answering(`{"action":"cancel"}`), HowClient, "denied by client `host`"},
		"client, none":           {ByClient, plain, HowUnanswered, "does not declare elicitation"},
		"client, only pages":     {ByClient, urls, HowUnanswered, "does not declare elicitation"},
		"client, no client":      {ByClient, nil, HowUnanswered, "does not declare elicitation"},
		"client, refuses":        {ByClient, refuses, HowClient, "the client cannot be asked: it answered `no \\u0060such method`"},
		"client, deaf":           {ByClient, deaf, HowClient, "the client is not listening"},
		"either":                 {ByEither, answering(`{"action":"cancel"}`), HowClient, "denied by client `host`"},
		"either, none":           {ByEither, plain, HowQueue, ""},
		"either, refuses":        {ByEither, refuses, HowQueue, ""},
		"either, deaf":           {ByEither, deaf, HowQueue, ""},
		"queue":                  {ByQueue, answering(`{"action":"accept","content":{"decision":"allow once"}}`), HowQueue, ""},
		"queue, without clients": {ByQueue, nil, HowQueue, ""},
	} {
		d := newDesk(t, t.TempDir())
		d.settings.By, d.settings.Wait = test.by, Answer
		made, err := d.approve(asking(test.origin, `{}`))
		var waiting *WaitingError
		switch {
		case made.How != test.how, err == nil, made.Allowed:
			t.Errorf("%s: %+v, %v", name, made, err)
		case test.text == "" && (!errors.As(err, &waiting) || waiting.ID != made.ID || len(d.list()) != 1):
			t.Errorf("%s: %v, queue %+v", name, err, d.list())
		case test.text != "" && (!strings.Contains(err.Error(), test.text) || len(d.list()) != 0):
			t.Errorf("%s: %v, queue %+v", name, err, d.list())
		}
	}
}

// TestPerson checks that the user of a command is asked in place of all others.
func TestPerson(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	var asked Question
	d.opts.Person = func(_ context.Context, q Question) (Verdict, error) {
		asked = q
		return Verdict{Allow: true, By: "me"}, nil
	}
	a := asking(answering(`{}`), `{"password":"hunter2secret"}`)
	if made, err := d.approve(a); err != nil || made.How != HowTerminal || made.By != "me" {
		t.Errorf("%+v, %v", made, err)
	}
	if string(asked.Arguments) != `{"password":"****"}` {
		t.Errorf("asked with %s", asked.Arguments)
	}
	d.opts.Person = func(context.Context, Question) (Verdict, error) { return Verdict{}, errors.New("there is no terminal") }
	var denied *DeniedError
	if _, err := d.approve(a); !errors.As(err, &denied) || !strings.Contains(err.Error(), "there is no terminal") {
		t.Error(err)
	}
}

// TestDuplicateNames checks that no person is asked about arguments that readers understand in
// different ways.
func TestDuplicateNames(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	c := answering(`{"action":"accept","content":{"decision":"allow once"}}`)
	for _, arguments := range []string{`{"a":1,"a":2}`, `{"x":{"a":1,"\u0061":2}}`, "{\"a\":\"\xff\"}"} {
		if _, err := d.approve(asking(c, arguments)); err == nil || c.times() != 0 || !strings.Contains(err.Error(), "cannot be read in one way only") {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}
