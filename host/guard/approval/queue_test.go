package approval

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// TestHold holds calls until a person decides, until the time for a decision is over, and until the
// calls are cancelled.
func TestHold(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	d.settings.By = ByQueue
	e, done := d.held(t.Context(), asking(nil, `{"password":"hunter2secret","n":1,"t":"<a&b>"}`))
	if l := d.list(); !l[0].Waits || e.State != Open || !isID(e.ID) || string(e.Question.Arguments) != `{"password":"****","n":1,"t":"<a&b>"}` {
		t.Errorf("held %+v", l)
	}
	d.decide(e.ID, Verdict{Allow: true})
	if err := d.ends(done); err != nil || len(d.list()) != 0 {
		t.Errorf("allowed: %v, left %+v", err, d.list())
	}

	e, done = d.held(t.Context(), asking(nil, `{}`))
	d.decide(e.ID, Verdict{Note: "too late\ntoday"})
	if err := d.ends(done); err == nil || !strings.Contains(err.Error(), "denied by user x at the terminal (rule `production is asked for`): `too late\\u000atoday`") {
		t.Errorf("denied: %v", err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancelled := &wire.CancelledError{}
	e, done = d.held(ctx, asking(nil, `{}`))
	cancel(cancelled)
	if err := d.ends(done); !errors.Is(err, cancelled) || len(d.list()) != 0 {
		t.Errorf("cancelled: %v, left %+v", err, d.list())
	}
	if _, err := d.queue.Decide(t.Context(), e.ID, Verdict{Allow: true, By: "x"}, HowQueue, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("decided about a cancelled call: %v", err)
	}

	d.settings.Timeout = 10 * time.Millisecond
	if made, err := d.approve(asking(nil, `{}`)); err == nil || made.How != HowUnanswered || !strings.Contains(err.Error(), "no person has decided about approval ") {
		t.Errorf("nobody: %+v, %v", made, err)
	}
	if len(d.list()) != 0 {
		t.Errorf("left %+v", d.list())
	}
}

// TestAnswered checks calls that are answered at once, and made again: a permission is for
// one call, and a refusal for all of them.
func TestAnswered(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	d.settings.By, d.settings.Wait = ByQueue, Answer
	waits := func(a policy.Caller, arguments string) string {
		t.Helper()
		ask := asking(nil, arguments)
		ask.Request.Caller = a
		made, err := d.approve(ask)
		var waiting *WaitingError
		if !errors.As(err, &waiting) || made.ID != waiting.ID || !strings.Contains(err.Error(), "waiting for approval "+made.ID) {
			t.Fatalf("%+v, %v", made, err)
		}
		return made.ID
	}
	self := policy.Caller{Client: "ci", Token: true, Session: "s1", Principal: "p1"}
	other := policy.Caller{Client: "laptop", Token: true, Session: "s2", Principal: "p2"}
	id := waits(self, `{"n":1}`)
	if again := waits(self, `{"n":1}`); again != id {
		t.Errorf("two approvals for one call: %s, %s", id, again)
	}
	d.decide(id, Verdict{Allow: true})
	if waits(self, `{"n":2}`) == id || waits(other, `{"n":1}`) == id {
		t.Error("an approval was used for another call")
	}
	call := asking(nil, `{"n":1}`)
	call.Request.Caller = self
	if made, err := d.approve(call); err != nil || made.ID != id || made.How != HowQueue || made.By != "user x at the terminal" {
		t.Errorf("%+v, %v", made, err)
	}
	id = waits(self, `{"n":1}`) // the permission was for one call
	d.decide(id, Verdict{})
	for range 2 {
		var denied *DeniedError
		if _, err := d.approve(call); !errors.As(err, &denied) {
			t.Errorf("%v", err)
		}
	}
}

// TestRestart checks that what was asked survives the process, and that a decision counts for
// the call that is made again, in another process.
func TestRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := newDesk(t, dir)
	before.settings.By = ByQueue
	ctx, crash := context.WithCancel(t.Context())
	e, done := before.held(ctx, asking(nil, `{"n":1}`))
	// The remains of a killed process: the entry, and the file of its holder, which no process keeps
	// locked.
	left, err := os.ReadFile(fileOf(dir, documents.Queue, e.ID))
	if err != nil {
		t.Fatal(err)
	}
	crash()
	before.ends(done)
	before.queue.Close()
	if err := os.WriteFile(fileOf(dir, documents.Queue, e.ID), left, 0o600); err != nil {
		t.Fatal(err)
	}

	after := newDesk(t, dir)
	after.settings.By = ByQueue
	if l := after.list(); len(l) != 1 || l[0].ID != e.ID || l[0].Waits {
		t.Fatalf("after the restart: %+v", l)
	}
	same, again := after.held(t.Context(), asking(nil, `{"n":1}`))
	if l := after.list(); same.ID != e.ID || len(l) != 1 || !l[0].Waits {
		t.Fatalf("the call does not wait for the same approval: %+v", l)
	}
	after.decide(e.ID, Verdict{Allow: true})
	if err := after.ends(again); err != nil {
		t.Error(err)
	}

	// If it is decided while no process runs, the next call is let through, once.
	if err := os.WriteFile(fileOf(dir, documents.Queue, e.ID), left, 0o600); err != nil {
		t.Fatal(err)
	}
	after.decide(e.ID, Verdict{Allow: true})
	if made, err := after.approve(asking(nil, `{"n":1}`)); err != nil || made.ID != e.ID {
		t.Errorf("%+v, %v", made, err)
	}
	if len(after.list()) != 0 {
		t.Errorf("left %+v", after.list())
	}
}

// TestParallel makes the same call several times at the same time, by two queues of one
// folder. Each has an approval of its own.
func TestParallel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	desks := []*desk{newDesk(t, dir), newDesk(t, dir)}
	for _, d := range desks {
		d.settings.By = ByQueue
	}
	var all []Entry
	var ends []<-chan error
	for i := range 4 {
		e, done := desks[i%2].held(t.Context(), asking(nil, `{}`))
		all, ends = append(all, e), append(ends, done)
	}
	if l := desks[0].list(); len(l) != 4 {
		t.Fatalf("%+v", l)
	}
	for i, e := range all {
		desks[(i+1)%2].decide(e.ID, Verdict{Allow: i%2 == 0})
	}
	for i, done := range ends {
		if err := desks[0].ends(done); (err == nil) != (i%2 == 0) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestRace lets several decide about one entry, and several calls use one permission, by two
// queues of one folder: one of them does.
func TestRace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	race(t, []*desk{newDesk(t, dir), newDesk(t, dir)})
}

func race(t *testing.T, desks []*desk) {
	for _, d := range desks {
		d.settings.By, d.settings.Wait, d.settings.MaxWaiting = ByQueue, Answer, 20
	}
	made, err := desks[0].approve(asking(nil, `{}`))
	if err == nil {
		t.Fatal("let through")
	}
	var mu sync.Mutex
	var decided []bool
	var each sync.WaitGroup
	for i := range 6 {
		each.Go(func() {
			allow := i%2 == 0
			_, err := desks[i%2].queue.Decide(t.Context(), made.ID, Verdict{Allow: allow, By: fmt.Sprint(i)}, HowQueue, 0)
			var before *DecidedError
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				decided = append(decided, allow)
			} else if !errors.As(err, &before) {
				t.Error(err)
			}
		})
	}
	each.Wait()
	if len(decided) != 1 {
		t.Fatalf("%d have decided", len(decided))
	}
	if !decided[0] {
		return
	}
	passed := 0
	for i := range 6 {
		each.Go(func() {
			_, err := desks[i%2].Approve(t.Context(), asking(nil, `{}`))
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				passed++
			}
		})
	}
	each.Wait()
	if passed != 1 {
		t.Errorf("%d calls have passed by one permission", passed)
	}
}

// TestRememberInQueue remembers decisions about values and shapes. They settle other calls
// that wait, too.
func TestRememberInQueue(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	d.settings.By = ByQueue
	first, one := d.held(t.Context(), asking(nil, `{"repo":"a","how":"squash","n":[1,2],"force":false}`))
	_, two := d.held(t.Context(), asking(nil, `{"repo":"b","how":"squash","n":[3],"force":false}`))
	other, three := d.held(t.Context(), asking(nil, `{"repo":"a","how":"rebase","n":[1],"force":false}`))
	d.decide(first.ID, Verdict{Allow: true, Remember: ForShape})
	for _, done := range []<-chan error{one, two} {
		if err := d.ends(done); err != nil {
			t.Error(err)
		}
	}
	if l := d.list(); len(l) != 1 || l[0].ID != other.ID {
		t.Errorf("left %+v", l)
	}
	d.decide(other.ID, Verdict{Remember: ForValue})
	if d.ends(three) == nil {
		t.Error("let through")
	}
	for arguments, how := range map[string]string{
		`{"repo":"zzz","how":"squash","n":[7,8,9],"force":false}`: "",
		`{"repo":"a","how":"rebase","n":[1],"force":false}`:       "was not approved: denied by user x at the terminal before",
	} {
		made, err := d.approve(asking(nil, arguments))
		if made.How != HowRemembered || !made.Remembered || (err == nil) != (how == "") || err != nil && !strings.Contains(err.Error(), how) {
			t.Errorf("%s: %+v, %v", arguments, made, err)
		}
	}
	d.settings.Wait = Answer
	d.settings.MaxWaiting = 100
	for _, arguments := range []string{
		`{"repo":"a","how":"rebase","n":[1],"force":true}`, `{"repo":"a","how":"squash","n":[1],"force":true}`,
		`{"repo":"a","how":"squash","n":["1"],"force":false}`, `{"repo":"a","how":"squash","n":[],"force":false}`,
		`{"repo":"a","how":"squash","n":[1,null],"force":false}`, `{"repo":["a"],"how":"squash","n":[1],"force":false}`,
		`{"repo":"a","how":"squash","n":[1],"force":false,"more":1}`, `{"repo":"a","how":"squash","force":false}`,
	} {
		var waiting *WaitingError
		if made, err := d.approve(asking(nil, arguments)); !errors.As(err, &waiting) {
			t.Errorf("%s has that shape: %+v, %v", arguments, made, err)
		}
	}
}

// TestWaitingIsBounded checks how many calls may wait, in all ways of asking.
func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	for _, wait := range []Wait{Hold, Answer} {
		d := newDesk(t, t.TempDir())
		d.settings.By, d.settings.Wait = ByQueue, wait
		ctx, cancel := context.WithCancel(t.Context())
		var ends []<-chan error
		for i := range d.settings.MaxWaiting {
			if a := asking(nil, fmt.Sprintf(`{"n":%d}`, i)); wait == Hold {
				_, done := d.held(ctx, a)
				ends = append(ends, done)
			} else {
				_, _ = d.approve(a)
			}
		}
		_, err := d.approve(asking(nil, `{}`))
		if err == nil || !strings.Contains(err.Error(), "too many calls wait for approval: 4 of this client (max_waiting in [approval])") {
			t.Errorf("%s: %v", wait, err)
		}
		other := asking(nil, `{}`)
		other.Request.Caller.Session = "s2"
		d.settings.Wait = Answer
		var waiting *WaitingError
		if _, err := d.approve(other); !errors.As(err, &waiting) {
			t.Errorf("%s: another client: %v", wait, err)
		}
		cancel()
		for _, done := range ends {
			d.ends(done)
		}
	}
	d := newDesk(t, t.TempDir())
	d.settings.By = ByClient
	ctx, cancel := context.WithCancel(t.Context())
	entered := make(chan struct{}, d.settings.MaxWaiting)
	c := &client{capabilities: `{"elicitation":{}}`, says: func(ctx context.Context, _ []byte) (wire.Reply, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return wire.Reply{}, context.Cause(ctx)
	}}
	var all sync.WaitGroup
	for range d.settings.MaxWaiting {
		all.Go(func() { _, _ = d.Approve(ctx, asking(c, `{}`)) })
	}
	for range d.settings.MaxWaiting {
		<-entered
	}
	if _, err := d.approve(asking(c, `{}`)); err == nil || !strings.Contains(err.Error(), "too many calls wait") {
		t.Errorf("by the client: %v", err)
	}
	cancel()
	all.Wait()
}

// TestForged checks that files count only if a process with the key has written them, under
// the name that they have.
func TestForged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := newDesk(t, dir)
	d.settings.By, d.settings.Wait = ByQueue, Answer
	made, _ := d.approve(asking(nil, `{}`))
	path := fileOf(dir, documents.Queue, made.ID)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// A reader of a file cannot try arguments: their digest needs the key of the store.
	otherDir := t.TempDir()
	other := newDesk(t, otherDir)
	other.settings = d.settings
	same, _ := other.approve(asking(nil, `{}`))
	elsewhere, err := os.ReadFile(fileOf(otherDir, documents.Queue, same.ID))
	digests := regexp.MustCompile(`"(?:arguments|shape|digest)":"[0-9a-f]{64}"`)
	mine, theirs := digests.FindAllString(string(good), -1), digests.FindAllString(string(elsewhere), -1)
	if err != nil || len(mine) < 2 || len(mine) != len(theirs) {
		t.Fatalf("digests %q and %q, %v", mine, theirs, err)
	}
	for i := range mine {
		if mine[i] == theirs[i] {
			t.Errorf("two stores with other keys have the same digest: %s", mine[i])
		}
	}
	for name, forged := range map[string]string{
		"changed":   strings.Replace(string(good), `"state":"open"`, `"state":"allowed"`, 1),
		"no code":   strings.Replace(string(good), `"mac":"`, `"mic":"`, 1),
		"not JSON":  "x",
		"truncated": string(good[:len(good)/2]),
	} {
		if forged == string(good) {
			t.Fatalf("%s: nothing was changed in %s", name, good)
		}
		if err := os.WriteFile(path, []byte(forged), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(d.list()) != 0 {
			t.Errorf("%s: listed %+v", name, d.list())
		}
		var waiting *WaitingError
		if _, err := d.approve(asking(nil, `{}`)); !errors.As(err, &waiting) || waiting.ID == made.ID {
			t.Errorf("%s: %v", name, err)
		}
		for _, e := range d.list() {
			os.Remove(fileOf(dir, documents.Queue, e.ID))
		}
	}
	// A copy under another name, and in the other folder, counts neither.
	for _, name := range []string{fileOf(dir, documents.Queue, "22222"), fileOf(dir, documents.Remembered, made.ID)} {
		if err := os.WriteFile(name, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := d.queue.Remembered(t.Context()); err != nil || len(left) != 0 || len(d.list()) != 0 {
		t.Errorf("copies count: %+v, %+v, %v", d.list(), left, err)
	}
	for _, id := range []string{"../xyz", "..", "", "k7m2", "k7m2qq", "K7M2Q", "k7m2\x00"} {
		if _, err := d.queue.Find(t.Context(), id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", id, err)
		}
		if _, err := d.queue.Forget(t.Context(), id); !errors.Is(err, ErrUnknown) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestProgress checks that the caller of a held call hears of it, and nothing more after the
// decision.
func TestProgress(t *testing.T) {
	t.Parallel()
	d := newDesk(t, t.TempDir())
	d.settings.By = ByQueue
	heard := make(chan string, 100)
	a := asking(nil, `{}`)
	a.Progress = func(message string) { heard <- message }
	e, done := d.held(t.Context(), a)
	if text := <-heard; text != "waiting for approval "+e.ID+" of `github.merge`" {
		t.Error(text)
	}
	d.decide(e.ID, Verdict{Allow: true})
	if err := d.ends(done); err != nil {
		t.Error(err)
	}
}

// fileOf returns the path of a document in a folder.
func fileOf(dir, kind, id string) string { return filepath.Join(dir, "approvals", kind, id+".json") }

// TestHeldWhileClockJumps checks that a call which waits goes on waiting when the clock jumps, and
// gets its decision.
func TestHeldWhileClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-10 * time.Hour, -2 * time.Minute, 2 * time.Minute, 10 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			queue := OpenQueue(t.TempDir(), slog.New(slog.DiscardHandler))
			queue.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
			d := newDeskOf(t, queue)
			d.settings.By = ByQueue
			first, done := d.held(t.Context(), asking(nil, `{"n":1}`))
			ahead.Store(int64(jump))
			for n := range 3 { // each of them makes the first one look again
				e, other := d.held(t.Context(), asking(nil, fmt.Sprintf(`{"other":%d}`, n)))
				d.decide(e.ID, Verdict{Allow: true})
				if err := d.ends(other); err != nil {
					t.Error(err)
				}
			}
			d.decide(first.ID, Verdict{Allow: true})
			if err := d.ends(done); err != nil || len(d.list()) != 0 {
				t.Errorf("%v, left %+v", err, d.list())
			}
		})
	}
}
