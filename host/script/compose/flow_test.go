package compose

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// flowCase is a script with the expected outcome.
type flowCase struct {
	name, code string
	saved      map[string]string
	denied     bool
	fails      bool     // by itself, with a withheld compensation
	sent       []string // calls of chat.post
	only       []string // public sinks, in place of the rig's sinks
	// public reports a result without labels.
	public bool
}

func TestFlow(t *testing.T) {
	for _, tt := range []flowCase{
		{name: "the answer itself", code: "m = mail.list()\nchat.post({'text': m[0].body})", denied: true},
		{name: "a branch", code: "m = mail.list()\nif 's3cr3t' in m[0].body:\n  chat.post({'text': 'yes'})\nelse:\n  chat.post({'text': 'no'})", denied: true},
		{name: "how many", code: "for m in mail.list():\n  chat.post({'text': 'one'})\nchat.post({'text': 'end'})", denied: true},
		{name: "which tool", code: "m = mail.list()\nif m[0].id == 7:\n  chat.other({})\nelse:\n  chat.post({})", denied: true},
		{name: "_meta", code: "m = mail.list()\nchat.post({}, meta={'a.example/x': m[0].body})", denied: true},
		{name: "timeout", code: "m = mail.list()\nchat.post({}, timeout=m[0].id)", denied: true},
		{name: "the order of members", code: "m = mail.list()\nd = {'a': 1, 'b': 1}\nif m[0].id == 7:\n  d = {'b': 1, 'a': 1}\nchat.post(d)", denied: true},
		{name: "the order of members deep inside", code: "m = mail.list()\nd = {'a': 1, 'b': 1}\nif m[0].id == 7:\n  d = {'b': 1, 'a': 1}\nchat.post({'x': [{'y': d}]})", denied: true},
		{name: "the order of members of _meta", code: "m = mail.list()\nd = {'a.example/a': 1, 'a.example/b': 1}\nif m[0].id == 7:\n  d = {'a.example/b': 1, 'a.example/a': 1}\nchat.post({}, meta=d)", denied: true},
		{name: "the order of members of what a read gets", code: "m = mail.list()\nd = {'a': 1, 'b': 1}\nif m[0].id == 7:\n  d = {'b': 1, 'a': 1}\nchat.post({'text': str(desk.lookup(d))})", denied: true},
		{name: "how a number is written", code: "m = mail.list()\nchat.post({'n': 1 if m[0].id == 7 else 1.0})", denied: true},
		{name: "how a number is written that a read gets", code: "m = mail.list()\nchat.post({'text': str(desk.lookup({'n': 1 if m[0].id == 7 else 1.0}))})", denied: true},
		{name: "the sign of zero", code: "m = mail.list()\nchat.post({'n': -0.0 if m[0].id == 7 else 0.0})", denied: true},
		{name: "in which form the answer of a sink is wanted", code: "m = mail.list()\nif m[0].id == 7:\n  a = chat.post.raw({})\nelse:\n  a = chat.post({})\nchat.post({'text': str(a)})", denied: true},
		{name: "the second call", code: "m = mail.list()\nchat.post({'text': 'first'})\nchat.post({'text': m[0].body})", denied: true, sent: []string{`{"text":"first"}`}},
		{name: "after a caught error", code: "m = mail.list()\ntry:\n  chat.post({'text': m[0].body})\nexcept Exception as e:\n  chat.post({'text': 'caught'})", denied: true},
		{name: "when a sink's server is asked", code: "e = mail.list()[0].id == 7\nn = chat.count({}).n\nif e:\n  n = chat.count({}).n\nchat.post({'text': 'a'})\nif not e:\n  n = chat.count({}).n\nchat.post({'n': n})", denied: true, sent: []string{`{"text":"a"}`}},
		{name: "in parallel with a sink", code: "m = mail.list()\nparallel([lambda: chat.post({'text': 'a'}), lambda: chat.post({'text': m[0].body})])", denied: true},
		{name: "through a saved tool", code: "m = mail.list()\ntools.send({'text': m[0].body})", saved: map[string]string{"send": "return chat.post({'text': params.text})"}, denied: true},
		{name: "which saved tool", code: "m = mail.list()\nif m[0].id == 7:\n  tools.one({})\nelse:\n  tools.two({})",
			saved: map[string]string{"one": "return chat.post({'text': 'x'})", "two": "return chat.post({'text': 'y'})"}, denied: true},
		{name: "read by a saved tool", code: "b = tools.get({})\nchat.post({'text': b})", saved: map[string]string{"get": "return mail.list()[0].body"}, denied: true},
		{name: "read in parallel", code: "a = parallel([lambda: tools.get({}), lambda: tools.get({})])\nchat.post({'text': a[1]})", saved: map[string]string{"get": "return mail.list()[0].body"}, denied: true},
		{name: "through an unlabelled store", code: "m = mail.list()\nnotes.set({'v': m[0].body})\nchat.post({'text': notes.get({}).note})", denied: true},
		{name: "through whether it was written", code: "m = mail.list()\nif m[0].id == 7:\n  notes.set({'v': 1})\nchat.post({'text': notes.get({}).note})", denied: true},
		{name: "through a read that the shadow does not make", code: "m = mail.list()\nx = desk.lookup({'id': m[0].id})\nchat.post({'text': 'done'})", denied: true},
		{name: "through a counter of reads", code: "m = mail.list()\nif m[0].id == 7:\n  desk.lookup({'id': 1})\nchat.post({'n': desk.quota({}).used})", denied: true},
		{name: "through a counter of reads in parallel", code: "m = mail.list()\nask = [lambda: desk.quota({})]\nif m[0].id == 7:\n  ask.append(lambda: desk.lookup({'id': 1}))\nchat.post({'n': parallel(ask)[0].used})", denied: true},
		{name: "through a counter of reads of a saved tool", code: "m = mail.list()\nif m[0].id == 7:\n  tools.look({})\nchat.post({'n': desk.quota({}).used})", saved: map[string]string{"look": "return desk.lookup({'id': 1})"}, denied: true},
		{name: "through which of two reads was first", code: "m = mail.list()\nif m[0].id == 7:\n  desk.quota({})\n  desk.lookup({'id': 1})\nelse:\n  desk.lookup({'id': 1})\n  desk.quota({})\nchat.post({'n': desk.quota({}).used})", denied: true},
		{name: "through a counter of reads in the answer of a sink", code: "m = mail.list()\nif m[0].id == 7:\n  chat.peek({})\na = chat.post({'text': 'x'})\nchat.post({'text': str(a)})", denied: true, sent: []string{`{"text":"x"}`}},
		{name: "through the answer of a sink", code: "m = mail.list()\nchat.draft({'v': m[0].body})\na = chat.post({'text': 'x'})\nchat.post({'text': str(a)})",
			only: []string{"chat.post"}, denied: true, sent: []string{`{"text":"x"}`}},
		{name: "through the answer of a sink, by whether", code: "m = mail.list()\nif m[0].id == 7:\n  chat.draft({'v': 1})\na = chat.post({'text': 'x'})\nchat.post({'text': str(a)})",
			only: []string{"chat.post"}, denied: true, sent: []string{`{"text":"x"}`}},
		{name: "through the order of reads in a child", code: "b = parallel([lambda: tools.put({}), lambda: notes.get({})])\nchat.post({'text': notes.get({}).note})",
			saved: map[string]string{"put": "m = mail.list()\nif m[0].id == 7:\n  notes.set({'v': 2})\nreturn 1"}, denied: true},

		{name: "after a shadow could not go on, by a compensation", code: "undo(chat.post, {'text': 'back'})\nx = tools.get({})\ny = notes.get({})\nchat.post({'text': 'end'})",
			saved: map[string]string{"get": "m = mail.list()\nif m[0].id == 7:\n  fail('x')\nreturn 1"}, fails: true},
		{name: "what the shadow wrote, too", code: "m = mail.list()\nnotes.set({'v': m[0].id})\nn = notes.get({})\nchat.post({'text': 'x'})\nreturn m", sent: []string{`{"text":"x"}`}},
		{name: "a sink of a server that both wrote to", code: "m = mail.list()\nchat.draft({'v': m[0].id})\na = chat.post({'text': 'x'})\nchat.post({'text': 'y'})\nreturn m",
			only: []string{"chat.post"}, sent: []string{`{"text":"x"}`, `{"text":"y"}`}},

		{name: "a constant", code: "m = mail.list()\nchat.post({'text': 'ready'})\nreturn len(m)", sent: []string{`{"text":"ready"}`}},
		{name: "a public result", code: "m = mail.list()\nchat.post({'text': 'ready'})\nprint('sent')\nreturn 'ok'", sent: []string{`{"text":"ready"}`}, public: true},
		{name: "a result with a figure", code: "m = mail.list()\nchat.post({'text': 'ready'})\nreturn len(m[0].body)", sent: []string{`{"text":"ready"}`}},
		{name: "a log with the answer", code: "m = mail.list()\nchat.post({'text': 'ready'})\nprint(m)\nreturn 'ok'", sent: []string{`{"text":"ready"}`}},
		{name: "before the answer", code: "chat.post({'text': 'first'})\nm = mail.list()\nreturn m", sent: []string{`{"text":"first"}`}},
		{name: "the answer of a sink", code: "m = mail.list()\na = chat.post({'text': 'x'})\nchat.post({'text': str(a.n)})", sent: []string{`{"text":"x"}`, `{"text":"1"}`}, public: true},
		{name: "a sink's server is asked in between", code: "m = mail.list()\na = chat.count({}).n\nchat.post({'n': a})\nb = chat.count({}).n\nchat.post({'n': b})\nreturn m", sent: []string{`{"n":0}`, `{"n":1}`}},
		{name: "an unlabelled read", code: "a = desk.lookup({'id': 3})\nm = mail.list()\nb = desk.lookup({'id': 4})\nchat.post({'a': a.found.id, 'b': b.found.id})\nreturn m", sent: []string{`{"a":3,"b":4}`}},
		{name: "a counter of reads that do not depend on the answer", code: "m = mail.list()\nfor i in range(3):\n  desk.lookup({'id': i})\nchat.post({'n': desk.quota({}).used})\nparallel([lambda: desk.lookup({'id': 1}), lambda: desk.lookup({'id': 1})])\nchat.post({'n': desk.quota({}).used})\nreturn m", sent: []string{`{"n":3}`, `{"n":5}`}},
		{name: "reads that depend on the answer, and another server", code: "m = mail.list()\nif m[0].id == 7:\n  desk.lookup({'id': 1})\nchat.post({'n': chat.count({}).n})\nreturn m", sent: []string{`{"n":0}`}},
		{name: "a loop that only reads", code: "n = 0\nfor m in mail.list():\n  n = n + len(m.body)\nchat.post({'text': 'done'})\nreturn 'ok'", sent: []string{`{"text":"done"}`}, public: true},
		{name: "a saved tool with a constant", code: "for m in mail.list():\n  tools.note({})\ntools.send({'text': 'x'})\nreturn 'ok'",
			saved: map[string]string{"send": "return chat.post({'text': params.text}).n >= 0", "note": "return 1"}, sent: []string{`{"text":"x"}`}, public: true},
		{name: "time and chance in a saved tool", code: "m = mail.list()\ntools.send({})\nreturn 'ok'",
			saved: map[string]string{"send": "import random, time\nreturn chat.post({'r': random.randint(1, 1000000), 'now': time.time()}).n >= 0"}, sent: []string{"*"}, public: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newFlowRig(t, func(r *flowRig, _ *Options) {
				if r.settings.Public = []string{"chat.post", "chat.other", "chat.draft"}; tt.only != nil {
					r.settings.Public = tt.only
				}
			})
			for name, code := range tt.saved {
				r.save(name, code)
			}
			run := r.run(t, tt.code)
			if tt.denied {
				run.denied()
				if !r.session.flagged {
					t.Error("the session is not flagged")
				}
			} else if tt.fails {
				run.labelled("tool")
			} else {
				run.passed()
			}
			if sent := run.sent("chat.post"); !slices.Equal(sent, tt.sent) && !(slices.Equal(tt.sent, []string{"*"}) && len(sent) == 1) {
				t.Errorf("sent %q, want %q", sent, tt.sent)
			}
			if !tt.denied && run.labels.Has(flow.Private) == tt.public {
				t.Errorf("the result has the labels %q: %s", run.labels, run.reply.Result)
			}
			if tt.public && strings.Contains(string(run.reply.Result), secret) {
				t.Errorf("a public result has the secret: %s", run.reply.Result)
			}
		})
	}
}

// TestFlowUntrusted checks that untrusted answers gate critical sinks, and not public sinks.
func TestFlowUntrusted(t *testing.T) {
	r := newFlowRig(t)
	run := r.run(t, "p = web.fetch({})\nchat.post({'text': p.text})\nreturn p")
	run.passed()
	if run.labels != flow.Of(flow.Untrusted) {
		t.Errorf("labels %s", run.labels)
	}
	r.run(t, "p = web.fetch({})\nif 'page' in p.text:\n  bank.transfer({'to': 'x'})\nreturn 1").denied()
	r.run(t, "p = web.fetch({})\nbank.transfer({'to': 'rent'})\nreturn 1").passed()
	// Both labels are active, and each has a separate gate.
	run = r.run(t, "p = web.fetch({})\nm = mail.list()\nbank.transfer({'to': m[0].body})\nchat.post({'text': p.text})\nreturn [m, p]")
	run.passed()
	if len(run.sent("bank.transfer")) != 1 || len(run.sent("chat.post")) != 1 || run.labels != flow.Of(flow.Private, flow.Untrusted) {
		t.Errorf("%s: %q", run.labels, run.calls)
	}
	r.run(t, "m = mail.list()\np = web.fetch({})\nbank.transfer({'to': p.text})\nreturn 1").denied()
}

// TestFlowDenialHidesOtherLabels checks that the text about shadows of a label has no answers with
// the other label.
func TestFlowDenialHidesOtherLabels(t *testing.T) {
	r := newFlowRig(t)
	run := r.run(t, "m = mail.list()\np = web.fetch({})\nbank.transfer({'to': p.text, 'about': m[0].body})\nreturn 1")
	run.denied()
	if run.labels != flow.Of(flow.Private) {
		t.Errorf("labels %s", run.labels)
	}
}

// TestFlowCosts checks that runs have no shadows without labels, or without a possible sink for the
// labels.
func TestFlowCosts(t *testing.T) {
	r := newFlowRig(t)
	r.save("look", "return mail.list()")
	for _, code := range []string{
		"chat.post({'text': 'x'})\nbank.transfer({})\nreturn desk.lookup({'id': 1})", // no label
		"return mail.list()",                           // no sink
		"return tools.look({})",                        // none in a saved tool, either
		"m = mail.list()\nbank.transfer({})\nreturn 1", // another label's
	} {
		r.run(t, code).passed()
	}
	if r.shadows.Load() != 0 {
		t.Errorf("%d shadows", r.shadows.Load())
	}
	r.run(t, "m = mail.list()\nchat.post({})\nchat.post({})\nreturn 1").passed()
	if r.shadows.Load() != flow.NumBlank {
		t.Errorf("%d shadows, want one for each blank", r.shadows.Load())
	}
}

// TestFlowBound checks that the number of calls to sinks is limited.
func TestFlowBound(t *testing.T) {
	r := newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.MaxSinkCalls = 3 })
	code := "chat.post({})\nm = mail.list()\nfor i in range(%):\n  chat.post({'i': i})\nreturn 1"
	r.run(t, strings.Replace(code, "%", "3", 1)).passed()
	run := r.run(t, strings.Replace(code, "%", "4", 1))
	run.denied()
	if len(run.sent("chat.post")) != 4 || !strings.Contains(run.message, "max_sink_calls") {
		t.Errorf("%q: %s", run.calls, run.message)
	}
}

// TestFlowBoundOfLabels checks that each label has its own bound, and that calls withheld from the
// run do not count: the number of attempts may depend on answers.
func TestFlowBoundOfLabels(t *testing.T) {
	bound := func(a flow.Action) *flowRig {
		return newFlowRig(t, func(r *flowRig, _ *Options) { r.settings.MaxSinkCalls, r.settings.Action = 3, a })
	}
	const both = "m = mail.list()\np = web.fetch({})\nfor i in range(3):\n  chat.post({'i': i})\n  bank.transfer({'i': i})\n"
	run := bound(flow.Deny).run(t, both+"return 1")
	run.passed()
	if len(run.sent("chat.post")) != 3 || len(run.sent("bank.transfer")) != 3 {
		t.Errorf("sent %q", run.calls)
	}
	for _, more := range []string{"chat.post({'i': 3})", "bank.transfer({'i': 3})"} {
		run = bound(flow.Deny).run(t, both+more)
		run.denied()
		if len(run.sent("chat.post")) != 3 || len(run.sent("bank.transfer")) != 3 || !strings.Contains(run.message, "max_sink_calls") {
			t.Errorf("%s: sent %q: %s", more, run.calls, run.message)
		}
	}

	const alone = "m = mail.list()\nfor i in range(5):\n  if m[0].id == 7:\n    try:\n      tools.send({})\n    except Exception as e:\n      print(e)\n"
	r := bound(flow.Shadow)
	r.save("send", "return chat.post({'text': 'alone'})") // the shadow does not come here
	run = r.run(t, alone+"for i in range(3):\n  chat.post({'i': i})\nreturn 1")
	run.passed()
	if sent := run.sent("chat.post"); !slices.Equal(sent, []string{`{"i":0}`, `{"i":1}`, `{"i":2}`}) {
		t.Errorf("sent %q", sent)
	}
	// The shadow's own calls count, also the calls after the run.
	run = bound(flow.Shadow).run(t, "m = mail.list()\nchat.post({'i': 0})\nif m[0].id != 7:\n  for i in range(9):\n    chat.post({'more': i})\nreturn 1")
	if sent := run.sent("chat.post"); len(sent) != 3 {
		t.Errorf("sent %q", sent)
	}
}

// TestFlowMeta checks that servers can give labels, and cannot take them away.
func TestFlowMeta(t *testing.T) {
	r := newFlowRig(t)
	r.meta = map[string]string{
		"desk.lookup": `{"ifc":{"integrity":"untrusted","confidentiality":"private"}}`,
		"mail.list":   `{"ifc":{"integrity":"trusted","confidentiality":"public"}}`,
	}
	r.run(t, "a = desk.lookup({'id': 1})\nchat.post({'text': a.found.id})\nreturn 1").denied()
	r.run(t, "a = desk.lookup({'id': 1})\nbank.transfer({'text': a.found.id})\nreturn 1").denied()
	r.run(t, "m = mail.list()\nchat.post({'text': m[0].body})\nreturn 1").denied()
	for _, said := range []string{`["alice","bob"]`, `"PRIVATE"`, `"low"`, `null`, `{}`} {
		r.meta["desk.lookup"] = `{"ifc":{"confidentiality":` + said + `}}`
		r.run(t, "a = desk.lookup({'id': 1})\nchat.post({'text': a.found.id})\nreturn 1").denied()
	}
	r.meta["desk.lookup"] = `{"ifc":{"integrity":"high","confidentiality":["public"]}}`
	r.run(t, "a = desk.lookup({'id': 1})\nchat.post({'text': a.found.id})\nreturn 1").passed()
}

// TestFlowErrors checks that an error of a source is a labelled answer.
func TestFlowErrors(t *testing.T) {
	r := newFlowRig(t)
	r.mails = "!no mail for " + secret
	r.run(t, "try:\n  m = mail.list()\nexcept Exception as e:\n  chat.post({'text': str(e)})\nreturn 1").denied()
	run := r.run(t, "try:\n  m = mail.list()\nexcept Exception as e:\n  print(1)\nchat.post({'text': 'tried'})\nreturn 1")
	run.passed()
	r.run(t, "mail.list()\nchat.post({})\nreturn 1").labelled("tool")
}

// TestFlowLive checks that messages to clients during a run have the current labels, and that a
// denied run reveals only the denial.
func TestFlowLive(t *testing.T) {
	r := newFlowRig(t)
	r.run(t, "print('before')\nprogress(1, message='begun')\nm = mail.list()\nprint('got ' + m[0].body)\nprogress(2, message=m[0].body)\nchat.post({'text': m[0].body})\nreturn 1").denied()
	told := append(slices.Clone(r.told.told), r.progress...)
	if len(told) < 4 {
		t.Fatalf("told %q", told)
	}
	for _, line := range told {
		if has := strings.Contains(line, `"confidentiality":"private"`); has != (strings.Contains(line, secret) || strings.Contains(line, "mail.list")) {
			t.Errorf("told %s", line)
		}
	}
	if r.session.labels != flow.Of(flow.Private) {
		t.Errorf("the session has the labels %q", r.session.labels)
	}
	r.session.labels = 0
	r.run(t, "m = mail.list()\nchat.post({'text': m[0].body})\nreturn 1").denied()
	for _, line := range r.progress {
		if !strings.Contains(line, "private") {
			t.Errorf("told %s", line)
		}
	}
}

// TestFlowRecorded checks that a result made from the journal, for example the result of a task,
// has the same content as the reply of the run.
func TestFlowRecorded(t *testing.T) {
	for name, code := range map[string]string{
		"denied": "m = mail.list()\nprint(m)\nchat.post({'text': m[0].body})", "public": "m = mail.list()\nchat.post({'text': 'x'})\nreturn 'ok'",
		"private": "return mail.list()", "none": "return 1",
	} {
		r := newFlowRig(t)
		run := r.run(t, code)
		var file bytes.Buffer
		if err := journal.Encode(&file, run.record); err != nil {
			t.Fatal(err)
		}
		read, err := journal.Decode(&file)
		if err != nil {
			t.Fatal(err)
		}
		got := r.composer.recordedResult(&read)
		if (name == "denied" || name == "public") && bytes.Contains(got, []byte(secret)) {
			t.Errorf("%s: %s", name, got)
		}
		for _, path := range [][]string{{"_meta", "ifc"}, {"structuredContent", "logs"}, {"structuredContent", "toolCalls"}, {"structuredContent", "error"}, {"isError"}} {
			a, _ := wire.Get(run.reply.Result, path...)
			if b, _ := wire.Get(got, path...); !bytes.Equal(a, b) {
				t.Errorf("%s: %v is %s in the reply, and %s from the journal", name, path, a, b)
			}
		}
	}
}
