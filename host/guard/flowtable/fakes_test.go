package flowtable

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// A toolFile is a tool in testdata/servers.toml.
type toolFile struct {
	Reads       bool
	Schema      *bool // nil is true
	Answer      any
	Annotations map[string]any
}

// servers are the fake servers, by name, and their tools.
var servers = sync.OnceValue(func() map[string]map[string]toolFile {
	var all map[string]map[string]toolFile
	if _, err := toml.DecodeFile("testdata/servers.toml", &all); err != nil {
		panic(err)
	}
	for _, tools := range all {
		for name, tool := range tools {
			tool.Answer = plain(tool.Answer)
			tools[name] = tool
		}
	}
	return all
})

// patterns is the section [flow] of testdata/flow.toml.
var patterns = sync.OnceValue(func() (file struct {
	Flow struct {
		Private, Untrusted, Public, Critical []string
		Action                               string
	}
}) {
	if _, err := toml.DecodeFile("testdata/flow.toml", &file); err != nil {
		panic(err)
	}
	return file
})

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// labelsOf returns the labels of an answer, as bits. spec is the answer, for its _meta.
func labelsOf(name string, spec any) (bits int) {
	flow := patterns().Flow
	for label, all := range [labels][]string{flow.Private, flow.Untrusted} {
		if matches(all, name) {
			bits |= 1 << label
		}
	}
	ifc, _ := read(spec).meta["ifc"].(map[string]any)
	if ifc["confidentiality"] == "private" {
		bits |= 1 << private
	}
	if ifc["integrity"] == "untrusted" {
		bits |= 1 << untrusted
	}
	return bits
}

// sinksOf returns the labels for which a tool is a sink, as bits.
func sinksOf(name string) (bits int) {
	flow := patterns().Flow
	for label, all := range [labels][]string{flow.Public, flow.Critical} {
		if matches(all, name) {
			bits |= 1 << label
		}
	}
	return bits
}

// An event is a call as its server has seen it, or the answer to one.
type event struct {
	tool     string // with its server
	call     string // what a sink sees; "" for an answer
	answer   string // the result, for people
	texts    []string
	sinks    int // for a call: labels for which it is a sink, as bits
	labelled int // for an answer: its labels, as bits
}

// A world answers calls. seen has all events before the call, n counts the calls of the tool.
type world interface {
	answer(tool string, args map[string]any, n int, notes *notes) answer
}

// fakes are the servers of one Host. The world is another one for each run.
type fakes struct {
	mu     sync.Mutex
	world  world
	notes  *notes
	counts map[string]int
	events []event
	called *sync.Cond // when there is a call, or time is up
}

func newFakes() *fakes {
	f := &fakes{}
	f.called = sync.NewCond(&f.mu)
	return f
}

// start begins a run in a world, and end returns what has happened in it.
func (f *fakes) start(w world) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world, f.notes, f.counts, f.events = w, &notes{values: map[string]any{}, told: map[string]uint64{}, asks: map[string]int{}, last: map[string]map[string]any{}}, map[string]int{}, nil
}

func (f *fakes) end() []event {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.world = nil
	return f.events
}

// maxHold is how long an answer with "$until" waits for a call that does not come.
const maxHold = 2 * time.Second

func (f *fakes) call(cancelled <-chan struct{}, tool string, params []byte) wire.Reply {
	var p struct {
		Arguments map[string]any
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "%v", err).Raw()}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.world == nil { // a health check, or a call of a run that has ended
		return wire.Reply{Error: wire.Errorf(wire.CodeInternal, "no run").Raw()}
	}
	f.counts[tool]++
	f.notes.asked, _ = wire.Get(params, "arguments")
	own, _, _ := strings.Cut(tool, ".")
	f.notes.asks[own]++
	f.events = append(f.events, event{tool: tool, sinks: sinksOf(tool), call: shown(tool, params), texts: textsIn(p.Arguments)})
	f.called.Broadcast()
	a := f.world.answer(tool, p.Arguments, f.counts[tool], f.notes)
	f.notes.tell(tool, p.Arguments)
	if a.hangs { // what the script is told then counts as an answer
		f.events = append(f.events, event{tool: tool, labelled: labelsOf(tool, nil)})
		f.mu.Unlock()
		<-cancelled
		f.mu.Lock()
		return wire.Reply{} // the run may have ended: when a call is given up is no event
	}
	if a.until != "" {
		f.await(a.until)
	}
	server, name, _ := strings.Cut(tool, ".")
	a.complete(servers()[server][name].Answer)
	e := event{tool: tool, labelled: labelsOf(tool, map[string]any{"$meta": a.meta})}
	e.texts = append(textsIn(a.value), a.fails)
	reply := a.reply()
	e.answer = string(reply.Result) + string(reply.Error)
	f.events = append(f.events, e)
	return reply
}

// await waits until a tool has got a call, with f locked.
func (f *fakes) await(tool string) {
	late := false
	timer := time.AfterFunc(testenv.Deadline(maxHold), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		late = true
		f.called.Broadcast()
	})
	defer timer.Stop()
	for f.counts[tool] == 0 && !late {
		f.called.Wait()
	}
}

// shown is a call as its server sees it, byte for byte: what is in _meta counts as well, except
// what we add.
func shown(tool string, params []byte) string {
	args, _ := wire.Get(params, "arguments")
	text := tool + " " + string(args)
	meta, _ := wire.Get(params, "_meta")
	members, _ := wire.Members(meta)
	for _, m := range members {
		if m.Name != "progressToken" && m.Name != "traceparent" && !strings.HasPrefix(m.Name, "io.") {
			text += fmt.Sprintf(" with _meta %q: %s", m.Name, m.Value)
		}
	}
	return text
}

// textsIn returns the texts, keys and numbers in a value.
func textsIn(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, x := range v {
			all = append(all, textsIn(x)...)
		}
	case map[string]any:
		for k, x := range v {
			all = append(append(all, k), textsIn(x)...)
		}
	case []string:
		return v
	case float64, int64, int:
		return []string{fmt.Sprint(v)}
	}
	return all
}

// notes are what servers keep during a run: the values of the server notes, and a digest of what
// each server was told by tools that do not only read.
type notes struct {
	values map[string]any
	next   int
	asked  []byte         // the arguments of the call, as they came
	asks   map[string]int // calls so far, by server
	told   map[string]uint64
	last   map[string]map[string]any // the arguments of the last one
}

// tell adds a call to what its server was told, if it does not only read.
func (s *notes) tell(tool string, args map[string]any) {
	server, name, _ := strings.Cut(tool, ".")
	if servers()[server][name].Reads {
		return
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.told[server], tool, string(s.asked))
	s.told[server], s.last[server] = h.Sum64(), args
}

// notesTool answers for the server notes, unless a case says otherwise.
func (s *notes) tool(name string, args map[string]any) (a answer, ok bool) {
	key := fmt.Sprint(args["key"])
	switch name {
	case "notes.put":
		s.values[key] = args["value"]
		a.value = map[string]any{"ok": true}
	case "notes.get":
		v, ok := s.values[key]
		if !ok {
			a.fails = "no such note: " + key
			return a, true
		}
		a.value = map[string]any{"value": fmt.Sprint(v)}
	case "notes.keys":
		keys := slices.AppendSeq([]string{}, maps.Keys(s.values))
		slices.Sort(keys)
		a.value = map[string]any{"keys": keys}
	case "notes.next":
		s.next++
		a.value = map[string]any{"n": s.next}
	case "notes.delete_note":
		delete(s.values, key)
		a.value = map[string]any{"ok": true}
	default:
		return a, false
	}
	return a, true
}

// definitions are the raw definitions of a server's tools.
func definitions(server string) (all []string) {
	tools := servers()[server]
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		tool := tools[name]
		annotations := map[string]any{"readOnlyHint": tool.Reads}
		maps.Copy(annotations, tool.Annotations)
		def := map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}, "annotations": annotations}
		if tool.Schema == nil || *tool.Schema {
			def["outputSchema"] = schemaOf(tool.Answer)
		}
		all = append(all, string(compact(def)))
	}
	return all
}

// listen starts the servers, and returns their sections of a configuration.
func (f *fakes) listen(t testing.TB) string {
	t.Helper()
	var sections strings.Builder
	for _, name := range slices.Sorted(maps.Keys(servers())) {
		s := mcptest.NewServer(mcptest.ServerOptions{
			Name: name, PageSize: 100, Answers: "json", NoGETStream: true,
			Items: map[wire.Surface][]string{wire.Tools: definitions(name)},
			CallTool: func(cancelled <-chan struct{}, tool string, params []byte) wire.Reply {
				return f.call(cancelled, name+"."+tool, params)
			},
		})
		s.Received.Forget = true
		web := httptest.NewServer(s.HTTP())
		t.Cleanup(func() {
			s.Close()
			web.Close()
		})
		fmt.Fprintf(&sections, "[upstream.%s]\nurl = %q\n", name, web.URL)
	}
	return sections.String()
}
