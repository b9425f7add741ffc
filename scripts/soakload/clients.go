package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
)

// crowd has all clients of a load.
type crowd struct {
	s    *soak
	part uint64
	no   uint64
	all  sync.WaitGroup
}

func newCrowd(s *soak, part uint64) *crowd { return &crowd{s: s, part: part} }

// run starts and stops clients until ctx ends, and waits for the last ones.
func (c *crowd) run(ctx context.Context) {
	for range 5 {
		c.client(ctx, "good", c.s.behave)
	}
	rude := c.s.rude()
	for _, kind := range slices.Sorted(maps.Keys(rude)) {
		c.client(ctx, kind, rude[kind])
	}
	modern := c.s.modern()
	for _, kind := range slices.Sorted(maps.Keys(modern)) {
		c.client(ctx, kind, modern[kind])
	}
	c.client(ctx, "stdio", c.s.overStdio)
	c.client(ctx, modernKind+" stdio", c.s.overStdio)
	for _, o := range origins {
		if !o.calm && !o.own && o.name != "lazy" {
			c.client(ctx, "crash", func(ctx context.Context, _ string, rnd *rand.Rand) { c.s.crash(ctx, o, rnd) })
		}
	}
	c.all.Wait()
}

// client runs clients of a kind, one after the other.
func (c *crowd) client(ctx context.Context, kind string, live life) {
	c.no++
	rnd := rand.New(rand.NewPCG(c.s.seed, c.part<<32|c.no))
	c.all.Go(func() {
		for ctx.Err() == nil {
			live(ctx, kind, rnd)
			pause(ctx, time.Duration(rnd.IntN(100))*time.Millisecond)
		}
	})
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// open opens a session over HTTP. The result is nil if the proxy had no room for another session,
// which is not a failure.
func (s *soak) open(kind string, rnd *rand.Rand) *session {
	c, err := s.dialHTTP(context.Background(), kind, rnd)
	if err == nil {
		return c
	}
	c.account()
	var status *mcptest.StatusError
	if errors.As(err, &status) && status.Code == http.StatusServiceUnavailable && status.Header.Get("Retry-After") != "" {
		s.tally.fault("client: over the cap (503)")
		return nil
	}
	s.tally.fail("%s could not begin: %v", c.name(), err)
	return nil
}

// behave is the life of a client without mistakes that asks servers for faults.
func (s *soak) behave(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	c.converse(ctx, all, 20+rnd.IntN(60))
	c.close()
}

// The names of servers, by the requests that clients may make.
var (
	all   = names(func(origin) bool { return true })
	small = []string{"calm", "calmweb", "wild", "newweb"}
)

func names(want func(origin) bool) (names []string) {
	for _, o := range origins {
		if want(o) {
			names = append(names, o.name)
		}
	}
	return names
}

func find(name string) origin {
	for _, o := range origins {
		if o.name == name {
			return o
		}
	}
	panic("no server " + name)
}

// converse makes requests to servers, the given number of times and a few at once,
// and waits for all answers.
func (c *session) converse(ctx context.Context, servers []string, times int) {
	var turns sync.WaitGroup
	slots := make(chan struct{}, 1+c.rnd.IntN(8))
	for range times {
		if ctx.Err() != nil {
			break
		}
		act := c.choose(servers)
		slots <- struct{}{}
		turns.Go(func() {
			act()
			<-slots
		})
		if c.rnd.IntN(4) == 0 {
			pause(ctx, time.Duration(c.rnd.IntN(30))*time.Millisecond)
		}
	}
	turns.Wait()
}

// choose chooses a request. All random choices are made here, so that they do not depend on the
// order of goroutines.
func (c *session) choose(servers []string) func() {
	server := servers[c.rnd.IntN(len(servers))]
	o := find(server)
	if o.own && c.rnd.IntN(3) > 0 { // a process each
		o = find("calm")
	}
	size, times := c.rnd.IntN(2000), 1+c.rnd.IntN(30)
	switch n := c.rnd.IntN(100); {
	case n < 35:
		if n == 0 {
			size = 1 << 20
		}
		return func() { c.echo(o, size) }
	case n < 47:
		return func() { c.counted(o, times) }
	case n < 57:
		return func() { c.cancelled(o, times) }
	case n < 66:
		return func() { c.composite(o) }
	case n < 70:
		if c.modern {
			return func() { c.asksModern(o, times%3 == 0) }
		}
		return func() { c.asks(o) }
	case n < 75:
		return func() { c.notified(o) }
	case n < 85:
		return func() { c.looks(o, times) }
	case o.calm:
		return func() { c.echo(o, size) }
	default:
		f := faults[c.rnd.IntN(len(faults))]
		return func() { c.faulty(o, f) }
	}
}

// judge checks an answer: calm servers never fail, and a marked result must carry
// the client's mark.
func (c *session) judge(o origin, r request, marked bool) outcome {
	got := c.answered(r)
	switch {
	case got.err != nil:
	case o.calm && !got.ok():
		c.s.tally.fail("%s: %s failed: %s", c.name(), r.label, clip(string(got.raw)))
	case got.ok() && marked && !bytes.Contains(got.result, []byte(c.mark)):
		c.s.tally.fail("%s: %s: the result belongs to another call: %s", c.name(), r.label, clip(string(got.raw)))
	}
	return got
}

// echo makes a server return the arguments. The question of a shared server for another call of the
// client can come as the result, which the client then answers.
func (c *session) echo(o origin, size int) outcome {
	text := c.mark + strings.Repeat("x", size)
	tool, arguments := o.name+"__echo", fmt.Sprintf(`{"x":%q}`, text)
	r := c.call(tool, arguments, size%2 == 0)
	got := c.judge(o, r, true)
	for range maxRounds {
		params, asked := c.again(tool, arguments, got)
		if !asked {
			break
		}
		got = c.judge(o, c.start(r.label, "tools/call", params, ""), true)
	}
	if got.ok() && !bytes.Contains(got.result, []byte(text)) {
		c.s.tally.fail("%s: %s: %d bytes came back changed: %s", c.name(), clip(r.label), size, clip(string(got.raw)))
	}
	return got
}

// counted makes a server report progress.
func (c *session) counted(o origin, times int) {
	c.judge(o, c.call(o.name+"__count", fmt.Sprintf(`{"times":%d}`, times), true), false)
}

// cancelled cancels a call after some milliseconds.
func (c *session) cancelled(o origin, ms int) {
	r := c.call(o.name+"__wait", fmt.Sprintf(`{"x":%q}`, c.mark), ms%2 == 0)
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case a := <-r.done: // the server ended in the meantime
		c.s.tally.check(a.Err == nil, "%s: %s: %v", c.name(), r.label, a.Err)
		return
	}
	c.cancel(r)
	if got := c.wait(r); got.err != nil && !errors.Is(got.err, mcptest.ErrCancelled) && !c.modern {
		c.s.tally.fail("%s: %s: %v", c.name(), r.label, got.err)
	}
}

// composite calls the tool that prepare saved, or runs a script.
func (c *session) composite(o origin) {
	if o.calm {
		c.judge(o, c.call(compositeTool, fmt.Sprintf(`{"mark":%q}`, c.mark), true), true)
		return
	}
	code := fmt.Sprintf("a = calm.instead({'text': %q})\nb = %s.instead({'text': %q})\nreturn [a, b]", c.mark, o.name, c.mark)
	c.judge(o, c.call("eval_starlark", fmt.Sprintf(`{"code":%s}`, wire.Quote(code)), true), true)
}

// asks makes a server send a request to the client. If sessions share the server, the proxy may
// refuse the request.
func (c *session) asks(o origin) {
	got := c.judge(o, c.call(o.name+"__ask", fmt.Sprintf(`{"method":"roots/list","params":{"x":%q}}`, c.mark), false), false)
	if (o.own || o.exact()) && got.ok() && !bytes.Contains(got.result, []byte(c.mark)) {
		c.s.tally.fail("%s: asked through %s, and the answer was not its: %s", c.name(), o.name, clip(string(got.raw)))
	}
}

// notified makes a server send a log message with the client's mark.
func (c *session) notified(o origin) {
	c.judge(o, c.call(o.name+"__notify", fmt.Sprintf(
		`{"method":"notifications/message","params":{"level":"error","data":%q}}`, c.mark), false), false)
}

// looks reads lists and items.
func (c *session) looks(o origin, n int) {
	asks := []struct{ method, params string }{
		{"tools/list", ""}, {"resources/list", "{}"}, {"prompts/list", "{}"}, {"resources/templates/list", "{}"}, {"ping", ""},
		{"prompts/get", fmt.Sprintf(`{"name":"%s__greet","arguments":{"who":%q}}`, o.name, c.mark)},
		{"resources/read", fmt.Sprintf(`{"uri":"raw://text","_meta":{"x":%q}}`, c.mark)},
		{"tools/call", `{"name":"no_such_tool","arguments":{}}`},
		{"tools/call", `{"name":"health_check","arguments":{}}`},
	}
	a := asks[n%len(asks)]
	c.answered(c.start(a.method+" "+clip(a.params), a.method, a.params, ""))
}

// faults are faults that do not end a server.
var faults = []mcptest.Fault{
	{Kind: mcptest.Hang}, {Kind: mcptest.Slow, Size: 30, Pause: 2}, {Kind: mcptest.HalfLine},
	{Kind: mcptest.Garbage, Count: 50}, {Kind: mcptest.Flood, Count: 1000, Size: 300}, {Kind: mcptest.HugeLine, Size: 2_000_000},
	{Kind: mcptest.WrongID}, {Kind: mcptest.OnlyWrongID}, {Kind: mcptest.Duplicate, Count: 3}, {Kind: mcptest.AfterCancel},
}

// faulty makes a server answer with a fault.
func (c *session) faulty(o origin, f mcptest.Fault) {
	if f.Kind == mcptest.HalfLine && o.transport != "stdio" {
		f.Kind = mcptest.Garbage // HTTP has no lines
	}
	c.s.tally.fault("server: " + f.Kind)
	arguments := fmt.Sprintf(`{"kind":%q,"count":%d,"size":%d,"pause":%d,"x":%q}`, f.Kind, f.Count, f.Size, f.Pause, c.mark)
	r := c.call(o.name+"__fault", arguments, f.Count%2 == 0)
	if f.Kind == mcptest.AfterCancel {
		pause(context.Background(), 20*time.Millisecond)
		c.cancel(r)
		c.wait(r)
		return
	}
	c.judge(o, r, true)
}

// compositeTool is the name of the tool that prepare saves.
const compositeTool = "soak_mix"

// prepare saves a composite tool and starts the idle servers.
func (s *soak) prepare(ctx context.Context) error {
	c, err := s.dialHTTP(ctx, "first", rand.New(rand.NewPCG(s.seed, 0)))
	if err != nil {
		return err
	}
	defer c.close()
	code := "a = calm.instead({'text': params['mark']})\nb = calmweb.instead({'text': params['mark']})\nreturn [a, b]"
	got := c.answered(c.call("save_tool", fmt.Sprintf(
		`{"name":%q,"description":"two calls","code":%s,"inputSchema":{"type":"object"}}`, compositeTool, wire.Quote(code)), false))
	if !got.ok() {
		return fmt.Errorf("save_tool: %s", got.raw)
	}
	for _, o := range origins {
		for deadline := time.Now().Add(time.Minute); !c.echo(origin{name: o.name}, 0).ok(); {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not answer", o.name)
			}
			pause(ctx, 100*time.Millisecond)
		}
	}
	return ctx.Err()
}

// settle waits until all clients are gone and the number of goroutines is stable,
// and measures.
func (s *soak) settle(ctx context.Context) (m measurement, err error) {
	pids := s.farm.settled(90 * time.Second) // a further process of a server is kept for a minute
	s.tally.check(len(pids) == s.farm.shared(), "%d processes of servers, want %d", len(pids), s.farm.shared())
	last, still := 0, 0
	for end := time.Now().Add(45 * time.Second); time.Now().Before(end); pause(ctx, 200*time.Millisecond) {
		s.farm.closeIdle()
		if m, err = s.host.ask("measure"); err != nil || ctx.Err() != nil {
			return m, err
		}
		if m.Goroutines != last || notReady(m) != "" {
			last, still = m.Goroutines, 0
		}
		if still++; still == 15 {
			return m, nil
		}
	}
	s.tally.check(notReady(m) == "", "not back: %s", notReady(m))
	return m, nil
}

// notReady lists the servers that are not ready.
func notReady(m measurement) string {
	var names []string
	for _, u := range m.Upstreams {
		if u.State != "ready" {
			names = append(names, fmt.Sprintf("%s (%s: %s)", u.Name, u.State, u.Err))
		}
	}
	return strings.Join(names, ", ")
}

// This file has the clients of the stateless era. All of them have the same credentials, so that
// the proxy sees a single principal: messages for a request of one client must not reach another.

// modernKind begins the kind of each of them.
const modernKind = "modern"

// modern returns their lives by kind.
func (s *soak) modern() map[string]life {
	return map[string]life{
		modernKind: s.behave, modernKind + " too": s.behave, modernKind + " listening": s.listens, modernKind + " abandoning": s.abandons,
		modernKind + " stalling": s.stalls, modernKind + " vanishing": s.vanishes, modernKind + " dropping": s.drops,
		modernKind + " cancelling": s.cancels,
	}
}

func isModern(kind string) bool { return strings.HasPrefix(kind, modernKind) }

// asksModern is asks for a client of the stateless era: the question comes as a result, and the
// client repeats the call with an answer, or abandons the call.
func (c *session) asksModern(o origin, abandon bool) {
	arguments := fmt.Sprintf(`{"method":"roots/list","params":{"x":%q}}`, c.mark)
	params := mcptest.ToolParams(o.name+"__ask", arguments, "")
	for range maxRounds {
		got := c.judge(o, c.start("ask "+o.name, "tools/call", params, ""), false)
		next, asked := c.again(o.name+"__ask", arguments, got)
		switch {
		case !asked && o.exact() && got.ok() && !strings.Contains(string(got.result), c.mark):
			c.s.tally.fail("%s: asked through %s, and the answer was not its: %s", c.name(), o.name, clip(string(got.raw)))
			return
		case !asked:
			return
		case abandon:
			c.s.tally.fault("client: abandons a question")
			return
		}
		params = next
	}
	c.s.tally.fail("%s: asked again and again through %s", c.name(), o.name)
}

// maxRounds is how often a client answers questions of a call.
const maxRounds = 10

// again returns the params with which a client of the stateless era repeats a call: with the
// answers to the questions in the result. ok is false for a result without questions.
func (c *session) again(tool, arguments string, got outcome) (params string, ok bool) {
	state, parked := wire.GetString(got.result, "requestState")
	if !parked || !c.modern {
		return "", false
	}
	asked, _ := wire.Get(got.result, "inputRequests")
	requests, _ := wire.Members(asked)
	responses := []byte(`{}`)
	for _, r := range requests {
		var err error
		if responses, err = wire.Set(responses, fmt.Appendf(nil, `{"roots":[],"x":%q}`, c.mark), r.Name); err != nil {
			c.s.tally.fail("%s: a question with a bad name: %s", c.name(), clip(string(got.raw)))
			return "", false
		}
	}
	return fmt.Sprintf(`{"name":%q,"arguments":%s,"inputResponses":%s,"requestState":%q}`, tool, arguments, responses, state), true
}

// abandons is a client that leaves while its calls are parked.
func (s *soak) abandons(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 1 + rnd.IntN(10) {
		c.asksModern(find([]string{"calmweb", "newweb", "calm"}[rnd.IntN(3)]), true)
	}
	c.vanish()
	pause(ctx, time.Second)
}

// listens is a client that subscribes to lists and a resource, a few times, and ends the
// subscriptions by closing the stream, or by vanishing.
func (s *soak) listens(ctx context.Context, kind string, rnd *rand.Rand) {
	c := s.open(kind, rnd)
	if c == nil {
		return
	}
	for range 1 + rnd.IntN(4) {
		s.tally.fault("client: ends a subscription")
		acks := c.acks.Load()
		r := c.start("subscriptions/listen", "subscriptions/listen",
			`{"notifications":{"toolsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["raw://text"]}}`, "")
		c.forgets(r)
		if !until(func() bool { return c.acks.Load() > acks }) {
			s.tally.fail("%s: a subscription is not acknowledged", c.name())
		}
		updates := c.updates.Load()
		touched := c.judge(find("calm"), c.call("calm__touch", `{"uri":"raw://text"}`, false), false)
		if touched.ok() && !until(func() bool { return c.updates.Load() > updates }) {
			s.tally.fail("%s: an update does not arrive", c.name())
		}
		pause(ctx, time.Duration(rnd.IntN(1000))*time.Millisecond)
		if rnd.IntN(4) == 0 {
			c.vanish()
			return
		}
		c.Drop(r.id)
	}
	c.close()
}

// until waits until f returns true, and returns false after too long a wait.
func until(f func() bool) bool {
	for end := time.Now().Add(maxWait); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// overStdio is a client of the binary itself, which ends the binary in one of the ways in which
// clients end servers. The binary then has little time to exit.
func (s *soak) overStdio(ctx context.Context, kind string, rnd *rand.Rand) {
	cmd := exec.Command(s.binary, "serve", "--config", s.farm.small)
	in, inErr := cmd.StdinPipe()
	// A plain pipe, not cmd's: Wait would close cmd's pipe before all has been read.
	out, theirs, outErr := os.Pipe()
	if err := firstError(inErr, outErr); err != nil {
		s.tally.fail("%v", err)
		return
	}
	cmd.Stdout = theirs
	err := cmd.Start()
	theirs.Close()
	if err != nil {
		out.Close()
		s.tally.fail("%v", err)
		return
	}
	c := s.newSession(kind, rnd)
	c.Client = mcptest.NewStdio(out, in, c.options())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	if err := c.begin(ctx); err != nil {
		s.tally.check(ctx.Err() != nil, "%s could not begin: %v", c.name(), err)
	} else {
		c.converse(ctx, small, 10+rnd.IntN(40))
		s.endStdio(c, cmd.Process)
	}
	select {
	case <-gone: // how, depends on the end
	case <-time.After(10 * time.Second):
		s.tally.fail("%s: the process did not end", c.name())
		_ = cmd.Process.Kill()
		<-gone
	}
}

// endStdio ends a session with the binary while calls are pending.
func (s *soak) endStdio(c *session, p *os.Process) {
	way := []string{"end of input", "both pipes closed", "SIGTERM", "SIGINT", "SIGKILL", "stops reading"}[c.rnd.IntN(6)]
	s.tally.fault("client: stdio, " + way)
	if way == "end of input" {
		c.close()
		return
	}
	if way == "stops reading" {
		c.Pause()
		for range 5 {
			c.call("calm__burst", `{"count":2000}`, false)
		}
	}
	for range 3 {
		c.call("calm__wait", fmt.Sprintf(`{"x":%q}`, c.mark), true)
	}
	c.leave() // pending requests may be answered or not
	switch way {
	case "SIGTERM":
		_ = p.Signal(syscall.SIGTERM)
	case "SIGINT":
		_ = p.Signal(os.Interrupt)
	case "SIGKILL":
		_ = p.Kill()
	case "stops reading":
		time.Sleep(time.Duration(c.rnd.IntN(500)) * time.Millisecond)
		_ = p.Signal(syscall.SIGTERM)
		time.Sleep(100 * time.Millisecond)
	}
	if way == "SIGTERM" || way == "SIGINT" {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_ = c.Close(ctx)
		cancel()
		c.account()
		return
	}
	c.vanish()
}
