package flow

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func TestBlanks(t *testing.T) {
	const text = `{"type":"string"}`
	for _, tt := range []struct {
		name, shape string
		want        [NumBlank]string // empty, one, literals, fail
	}{
		{"nothing", ``, [NumBlank]string{`""`, `"0"`, `"L"`, `""`}},
		{"not JSON", `{`, [NumBlank]string{`""`, `"0"`, `"L"`, `""`}},
		{"scalars", `{"properties":{"s":` + text + `,"i":{"type":"integer"},"f":{"type":"number"},"b":{"type":"boolean"},"n":{"type":"null"}}}`, [NumBlank]string{
			`{"b":false,"f":0,"i":0,"n":null,"s":""}`, `{"b":true,"f":1,"i":1,"n":null,"s":"0"}`, `{"b":false,"f":1000000,"i":1000000,"n":null,"s":"L"}`, `{"b":false,"f":0,"i":0,"n":null,"s":""}`}},
		{"list", `{"type":"array","items":` + text + `}`, [NumBlank]string{`[]`, `["0"]`, `["L","L","L"]`, `[]`}},
		{"fixed", `{"properties":{"c":{"const":"x"},"e":{"enum":["a","b"]}}}`, [NumBlank]string{`{"c":"x","e":"a"}`, `{"c":"x","e":"a"}`, `{"c":"x","e":"a"}`, `{"c":"x","e":"a"}`}},
		{"alternatives", `{"anyOf":[{"type":"null"},` + text + `]}`, [NumBlank]string{`""`, `"0"`, `"L"`, `""`}},
		{"types", `{"type":["null","integer"]}`, [NumBlank]string{`0`, `1`, `1000000`, `0`}},
		{"reference", `{"$defs":{"m":{"type":"object","properties":{"id":{"type":"integer"}}}},"type":"array","items":{"$ref":"#/$defs/m"}}`, [NumBlank]string{`[]`, `[{"id":1}]`, `[{"id":1000000},{"id":1000000},{"id":1000000}]`, `[]`}},
		{"all of", `{"allOf":[{"properties":{"a":` + text + `}},{"properties":{"b":` + text + `}}]}`, [NumBlank]string{`{"a":"","b":""}`, `{"a":"0","b":"0"}`, `{"a":"L","b":"L"}`, `{"a":"","b":""}`}},
		{"map", `{"type":"object","additionalProperties":{"type":"integer"}}`, [NumBlank]string{`{}`, `{"0":1}`, `{"0":1000000}`, `{}`}},
		{"date", `{"type":"string","format":"date-time"}`, [NumBlank]string{`"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`, `"1970-01-01T00:00:00Z"`}},
		{"itself", `{"$ref":"#"}`, [NumBlank]string{`null`, `null`, `null`, `null`}},
	} {
		for _, b := range []Blank{Empty, One, Literal, Fail} {
			if got := string(Blanks{b, "L"}.Value([]byte(tt.shape))); got != tt.want[b] {
				t.Errorf("%s, %s: %s, want %s", tt.name, b, got, tt.want[b])
			}
		}
	}
}

// FuzzBlanks checks that a schema of a server, whatever it is, gives a value in bounds, the same each
// time.
func FuzzBlanks(f *testing.F) {
	f.Add([]byte(`{"type":"array","items":{"type":"array","items":{"$ref":"#"}}}`), uint8(2))
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/properties/a"}},"prefixItems":[1,2],"allOf":[{"$ref":"#"}]}`), uint8(1))
	f.Add([]byte(`{"enum":[1e400]}`), uint8(0))
	f.Fuzz(func(t *testing.T, shape []byte, blank uint8) {
		b := Blanks{Blank(blank % NumBlank), strings.Repeat("x", 3000)}
		value := b.Value(shape)
		if !json.Valid(value) || len(value) > 8*maxBytes+len(shape)*maxNodes {
			t.Fatalf("%d bytes, valid %v", len(value), json.Valid(value))
		}
		if again := b.Value(shape); string(again) != string(value) {
			t.Fatalf("%s and %s", value, again)
		}
		if !wire.IsObject(b.Result(value, true, false)) {
			t.Fatalf("result of %s", value)
		}
	})
}

func TestLiterals(t *testing.T) {
	for code, want := range map[string]string{
		``:                        "0",
		`x = 'a'`:                 "0a0a0",
		`x = "key=" # 'not this'`: "0key=0key=0",
		`x = 'it\'s\n'`:           "0it's\n0it's\n0",
		"x = '''two\nlines'''":    "0two\nlines0two\nlines0",
		"x = 'open\ny = 'b'":      "0b0b0",
		`x = ['b', 'a', 'b']`:     "0a0b0a0b0",
		`'` + strings.Repeat("x", maxLiteral+1) + `'`: "0",
		`t = json.loads(m.text)["a"]; u = "it's"`:     "{\n\"0\": \"0a0it's0a0it's0\",\n\"a\": \"0a0it's0a0it's0\",\n\"it's\": \"0a0it's0a0it's0\"\n}",
		`from json import loads`:                      "{\n\"0\": \"0\"\n}",
	} {
		if got := Literals(code); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
	var many strings.Builder
	for i := range 10_000 {
		many.WriteString("'" + strings.Repeat("y", i%maxLiteral) + string(rune('a'+i%26)) + "' ")
	}
	if n := len(Literals(many.String())); n > 2*maxLiterals*(maxLiteral+1)+1 {
		t.Errorf("%d bytes", n)
	}
	many.WriteString("json.loads(x)")
	text := Literals(many.String())
	var members map[string]string
	if err := json.Unmarshal([]byte(text), &members); err != nil || len(members) != maxLiterals+1 || len(text) > mostOfObject {
		t.Errorf("%v: %d members, %d bytes", err, len(members), len(text))
	}
	for key, value := range members {
		if key != "0" && !strings.Contains(value, key) {
			t.Errorf("%q: %q", key, value)
		}
	}
}

// mostOfObject bounds what Literals returns for a script that reads JSON.
const mostOfObject = 50 << 10

func FuzzLiterals(f *testing.F) {
	f.Add(`x = 'a' + "b" + '''c''' # d`)
	f.Add("'\\")
	f.Add("loads 'a\\n' '\"' \"\\x00\"")
	f.Fuzz(func(t *testing.T, code string) {
		text := Literals(code)
		if readsJSON(code) {
			if !json.Valid([]byte(text)) || len(text) > mostOfObject {
				t.Fatalf("%d bytes: %q", len(text), text)
			}
		} else if n := len(text); n > 2*maxLiterals*(maxLiteral+1)+1 {
			t.Fatalf("%d bytes", n)
		}
	})
}

func TestDifference(t *testing.T) {
	call := func(tool, arguments, meta string, timeout float64) Call {
		return Call{"s", tool, []byte(arguments), []byte(meta), timeout, false}
	}
	raw := call("t", `{"a":1,"b":[1,2]}`, `{"x":1}`, 2)
	raw.Raw = true
	base := call("t", `{"a":1,"b":[1,2]}`, `{"x":1}`, 2)
	for _, tt := range []struct {
		other Call
		want  string
	}{
		{call("t", `{"a":1,"b":[1,2]}`, `{"x":1}`, 2), ""},
		{call("t", `{"b":[1,2],"a":1}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"a":1, "b":[1,2]}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"\u0061":1,"b":[1,2]}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"a":1e0,"b":[1,2]}`, `{"x":1}`, 2), "arguments"},
		{raw, "form"},
		{call("u", `{"a":1,"b":[1,2]}`, `{"x":1}`, 2), "tool"},
		{call("t", `{"a":1,"b":[2,1]}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"a":1.0,"b":[1,2]}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"a":1,"b":[1,2],"a":1}`, `{"x":1}`, 2), "arguments"},
		{call("t", `{"a":1,"b":[1,2]}`, ``, 2), "_meta"},
		{call("t", `{"a":1,"b":[1,2]}`, `{"x":2}`, 2), "_meta"},
		{call("t", `{"a":1,"b":[1,2]}`, `{"x":1}`, 3), "timeout"},
	} {
		if got := base.Difference(&tt.other); got != tt.want {
			t.Errorf("%s %s %v: %q, want %q", tt.other.Arguments, tt.other.Meta, tt.other.Timeout, got, tt.want)
		}
	}
}

func TestRules(t *testing.T) {
	defs := map[string]string{
		"a.read": `{"annotations":{"readOnlyHint":true}}`, "b.read": `{"annotations":{"readOnlyHint":true}}`,
		"a.marked": `{"_meta":{"ifc":{"confidentiality":"private"}},"outputSchema":{"type":"array"}}`,
	}
	r := &Rules{
		Settings: Settings{
			Private: []string{"mail.*", "files.read_*"}, Untrusted: []string{"web.*"}, Public: []string{"web.fetch"}, Critical: []string{"*.delete_*"},
			Reads: []string{"c.get"}, Trusted: []string{"a"}, Shapes: map[string][]byte{"c.get": []byte(`{"type":"object"}`)},
		},
		Definition: func(server, tool string) []byte { return []byte(defs[server+"."+tool]) },
		Inherited:  map[string]Labels{"notes": Of(Private)},
	}
	private, untrusted := Of(Private), Of(Untrusted)
	for _, tt := range []struct {
		server, tool, meta string
		labels, sinks      Labels
		reads              bool
	}{
		{"mail", "list", ``, private, 0, false},
		{"files", "read_all", ``, private, 0, false},
		{"files", "write", ``, 0, 0, false},
		{"web", "fetch", ``, untrusted, private, false},
		{"web", "fetch", `{"ifc":{"confidentiality":"private","integrity":"trusted"}}`, private | untrusted, private, false},
		{"x", "delete_all", `{"ifc":{"integrity":"untrusted"}}`, untrusted, untrusted, false},
		{"x", "y", `{"ifc":"private"}`, private | untrusted, 0, false}, // not understood
		{"a", "read", ``, 0, 0, true},
		{"b", "read", ``, 0, 0, false}, // its annotations do not count
		{"c", "get", ``, 0, 0, true},
		{"a", "marked", ``, private, 0, false},
		{"notes", "get", ``, private, 0, false},
	} {
		if got := r.Source(tt.server, tt.tool, []byte(tt.meta)); got != tt.labels {
			t.Errorf("source %s.%s %s: %s, want %s", tt.server, tt.tool, tt.meta, got, tt.labels)
		}
		if got := r.Sinks(tt.server, tt.tool); got != tt.sinks {
			t.Errorf("sink %s.%s: %s, want %s", tt.server, tt.tool, got, tt.sinks)
		}
		if got := r.ReadsOnly(tt.server, tt.tool); got != tt.reads {
			t.Errorf("reads %s.%s: %v", tt.server, tt.tool, got)
		}
	}
	if string(r.Shape("a", "marked")) != `{"type":"array"}` || string(r.Shape("c", "get")) != `{"type":"object"}` || r.Shape("a", "read") != nil {
		t.Error("shapes")
	}
	for _, set := range []Labels{0, private, untrusted, private | untrusted} {
		if got, odd := FromMeta([]byte(`{"ifc":` + string(set.Meta()) + `}`)); got != set || odd != nil || ParseLabels(set.Names()) != set {
			t.Errorf("%s: %s", set, got)
		}
	}
	if ParseLabels([]string{""}) != 0 || ParseLabels([]string{"Private"}) != private|untrusted {
		t.Error("names of labels")
	}
}

func TestAdvice(t *testing.T) {
	s := &Settings{Private: []string{"mail.*", "mial.*"}, Public: []string{"chat.send"}, Trusted: []string{"*"}}
	texts := func(list []Advice) (all string) {
		for _, a := range list {
			all += a.Text + "\n"
		}
		return all
	}
	if got := texts(s.AdviseServers([]string{"mail", "chat"})); got != "flow.private: there is no server for \"mial.*\"\n" {
		t.Errorf("servers: %s", got)
	}
	tools := []Tool{
		{"mail", "list", []byte(`{}`)}, {"chat", "post", []byte(`{}`)},
		{"notes", "get", []byte(`{"annotations":{"readOnlyHint":true}}`)}, {"notes", "set", []byte(`{}`)},
	}
	got := texts(s.Advise(tools, true))
	for _, want := range []string{`no tool matches "mial.*"`, `no tool matches "chat.send"`, `server "notes" has no label`, `mail.list has labelled answers`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if strings.Contains(texts(s.Advise(tools, false)), "no tool matches") {
		t.Error("a server that has not listed its tools may have it")
	}
	s = &Settings{Untrusted: []string{"web.*"}}
	if got := texts(s.AdviseServers([]string{"web"})); !strings.Contains(got, "flow.critical is empty") {
		t.Errorf("no sinks: %s", got)
	}
}

// TestMayCall checks which targets may be sinks. What cannot be told from them may be one.
func TestMayCall(t *testing.T) {
	r := Rules{Settings: Settings{Public: []string{"chat.post", "web.*"}, Critical: []string{"*.delete_*"}}}
	for _, tt := range []struct {
		label   Label
		targets []string
		want    bool
	}{
		{Private, nil, false},
		{Private, []string{"chat.read", "tools.send"}, false},
		{Private, []string{"notes.put", "chat.post"}, true},
		{Private, []string{"web.anything"}, true},
		{Private, []string{"chat.*"}, true},
		{Private, []string{"notes.*"}, false},
		{Private, []string{"*"}, true},
		{Private, []string{`chat.a\*b`}, true}, // a name with a star
		{Untrusted, []string{"chat.post"}, false},
		{Untrusted, []string{"notes.delete_all"}, true},
		{Untrusted, []string{"notes.*"}, true},
	} {
		if got := r.MayCall(tt.label, tt.targets); got != tt.want {
			t.Errorf("%s: %q: %v", tt.label, tt.targets, got)
		}
	}
	if !r.HasSinks(Private) || (&Settings{Public: []string{"a.b"}}).HasSinks(Untrusted) {
		t.Error("HasSinks")
	}
}

// TestAskRule checks that what a person has decided under some settings does not count under others.
func TestAskRule(t *testing.T) {
	base := &Settings{Private: []string{"a.*"}, Action: Ask}
	names := map[string]bool{}
	for _, s := range []*Settings{
		base, {}, {Private: []string{"a.*", "b.*"}, Action: Ask}, {Untrusted: []string{"a.*"}, Action: Ask}, {Private: []string{"a.*"}, Action: Deny},
		{Private: []string{"a.*"}, Action: Ask, Again: AskAgain}, {Private: []string{"a.*"}, Action: Ask, Trusted: []string{"*"}},
		{Private: []string{"a.*"}, Action: Ask, Reads: []string{"b.c"}}, {Private: []string{"a.*"}, Action: Ask, MaxSinkCalls: 2},
		{Private: []string{"a.*"}, Action: Ask, Shapes: map[string][]byte{"a.b": []byte("{}")}}, {Private: []string{"a.*"}, Action: Ask, Public: []string{"c.d"}},
	} {
		for _, l := range AllLabels {
			for _, again := range []bool{false, true} {
				name := s.AskRule(l, again)
				if names[name] || !s.IsAskRule(name) || s != base && base.IsAskRule(name) {
					t.Errorf("%+v: %s", s, name)
				}
				names[name] = true
			}
		}
	}
	if (*Settings)(nil).IsAskRule(base.AskRule(Private, false)) || base.IsAskRule("flow.private") {
		t.Error("a rule of no settings")
	}
}

// TestLargeShapes checks that a schema that is very large has the value of none. Its values would need
// fifty times its bytes.
func TestLargeShapes(t *testing.T) {
	shape := []byte(`{"type":"object","examples":[` + strings.Repeat(`{"":1},`, 300_000) + `1]}`)
	b := Blanks{Blank: One}
	if got, none := string(b.Value(shape)), string(b.Value(nil)); got != none {
		t.Errorf("%.100s, not %s", got, none)
	}
	if got := testing.AllocsPerRun(1, func() { b.Value(shape) }); got > 100 {
		t.Errorf("%v allocations", got)
	}
}

// TestFromMeta gives the reader of _meta forms that it knows, and forms that it does not: these
// count as labels.
func TestFromMeta(t *testing.T) {
	private, untrusted := Of(Private), Of(Untrusted)
	both := private | untrusted
	for _, tt := range []struct {
		meta string
		want Labels
		odd  bool
	}{
		{``, 0, false},
		{`{}`, 0, false},
		{`{"x":"private"}`, 0, false},
		{`{"ifc":{}}`, 0, false},
		{`{"ifc":{"other":"private"}}`, 0, false},
		{`{"ifc":{"integrity":"trusted","confidentiality":"public"}}`, 0, false},
		{`{"ifc":{"integrity":"high","confidentiality":["public"]}}`, 0, false},
		{`{"ifc":{"confidentiality":[ "public" ]}}`, 0, false},
		{`{"ifc":{"integrity":"untrusted","confidentiality":"private"}}`, both, false},
		{`{"ifc":{"integrity":"low"}}`, untrusted, false},

		// Values that are not known.
		{`{"ifc":{"confidentiality":["alice","bob"]}}`, private, true},
		{`{"ifc":{"confidentiality":["public","alice"]}}`, private, true},
		{`{"ifc":{"confidentiality":["public","public"]}}`, private, true},
		{`{"ifc":{"confidentiality":[["public"]]}}`, private, true},
		{`{"ifc":{"confidentiality":[]}}`, private, true},
		{`{"ifc":{"confidentiality":"PRIVATE"}}`, private, true},
		{`{"ifc":{"confidentiality":"Public"}}`, private, true},
		{`{"ifc":{"confidentiality":"public "}}`, private, true},
		{`{"ifc":{"confidentiality":""}}`, private, true},
		{`{"ifc":{"confidentiality":null}}`, private, true},
		{`{"ifc":{"confidentiality":false}}`, private, true},
		{`{"ifc":{"confidentiality":0}}`, private, true},
		{`{"ifc":{"confidentiality":{"public":true}}}`, private, true},
		{`{"ifc":{"integrity":"medium"}}`, untrusted, true},
		{`{"ifc":{"integrity":"LOW"}}`, untrusted, true},
		{`{"ifc":{"integrity":["trusted"]}}`, untrusted, true},
		{`{"ifc":{"integrity":1}}`, untrusted, true},
		{`{"ifc":{"integrity":null,"confidentiality":"public"}}`, untrusted, true},

		// Names twice, and other writings of them.
		{`{"ifc":{"confidentiality":"private","confidentiality":"public"}}`, private, false},
		{`{"ifc":{"confidentiality":"public","confidentiality":"private"}}`, private, false},
		{`{"ifc":{"confidentiality":"private"},"ifc":{"confidentiality":"public"}}`, private, false},
		{`{"ifc":{"Confidentiality":"private"}}`, private, false},
		{`{"IFC":{"confidentiality":"private"}}`, private, false},
		{`{"\u0069fc":{"integrit\u0079":"untrusted"}}`, untrusted, false},

		// What is no object.
		{`{"ifc":null}`, both, true},
		{`{"ifc":"private"}`, both, true},
		{`{"ifc":"public"}`, both, true},
		{`{"ifc":["private"]}`, both, true},
		{`{"ifc":17}`, both, true},
		{`{"ifc":true}`, both, true},
		{`{"ifc":{"confidentiality":"public"`, both, true},
	} {
		got, odd := FromMeta([]byte(tt.meta))
		if got != tt.want || (odd != nil) != tt.odd {
			t.Errorf("%s: %q, odd %q; want %q, odd %v", tt.meta, got, odd, tt.want, tt.odd)
		}
	}
	readers := `["` + strings.Repeat(`alice","`, 100_000) + `bob"]`
	meta := []byte(`{"ifc":{"confidentiality":` + readers + `}}`)
	if got, _ := FromMeta(meta); got != private {
		t.Errorf("many readers: %q", got)
	}
	if n := testing.AllocsPerRun(5, func() { FromMeta(meta) }); n > 200 {
		t.Errorf("%v allocations for %d readers", n, 100_001)
	}
}

// FuzzFromMeta checks that nothing but the known values says that there is no label.
func FuzzFromMeta(f *testing.F) {
	for _, seed := range []string{`"public"`, `["public"]`, `"trusted"`, `"high"`, `"private"`, `null`, `{"a":[1]}`, `"\u0070ublic"`, `["public",]`, `"public","integrity":"low"`} {
		f.Add(seed)
	}
	free := map[string][]string{confidentiality: {`"public"`, `["public"]`}, integrity: {`"trusted"`, `"high"`}}
	f.Fuzz(func(t *testing.T, value string) {
		for name, label := range map[string]Label{confidentiality: Private, integrity: Untrusted} {
			got, _ := FromMeta([]byte(`{"ifc":{"` + name + `":` + value + `}}`))
			compact := value
			var b bytes.Buffer
			if json.Compact(&b, []byte(value)) == nil {
				compact = b.String()
			} else {
				compact = ""
			}
			if !slices.Contains(free[name], compact) && compact != "" && !got.Has(label) {
				t.Errorf("%s: %s has no label", name, value)
			}
			if slices.Contains(free[name], compact) && got != 0 {
				t.Errorf("%s: %s has the labels %q", name, value, got)
			}
		}
	})
}
