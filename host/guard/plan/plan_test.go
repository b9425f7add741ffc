package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

const testMarker = "withheld-00112233445566778899aabbccddeeff-"

// TestRefs checks what becomes of strings that stand for answers, and of others that look
// like them.
func TestRefs(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":"` + testMarker + `1"}`:                    `{"a":{"$withheld":1}}`,
		`{"a":["` + testMarker + `12",1.50,"x"]}`:        `{"a":[{"$withheld":12},1.50,"x"]}`,
		`{"a":"` + testMarker + `01"}`:                   `{"a":"` + testMarker + `01"}`,
		`{"a":"x` + testMarker + `1"}`:                   `{"a":"x` + testMarker + `1"}`,
		`{"` + testMarker + `1":2}`:                      `{"` + testMarker + `1":2}`,
		`{"a":"{\"$withheld\":1}"}`:                      `{"a":"{\"$withheld\":1}"}`,
		`{"$withheld":1}`:                                "",
		`{"a":[{"$withheld":1}]}`:                        "",
		`{"a":{"x":1,"\u0024withheld":1}}`:               "",
		`{"n":12345678901234567890,"f":1e2,"g":-0}`:      `{"n":12345678901234567890,"f":1e2,"g":-0}`,
		`{"a":{"$withheld ":1,"withheld":2,"$$with":3}}`: `{"a":{"$withheld ":1,"withheld":2,"$$with":3}}`,
	} {
		got, _, err := withRefs([]byte(raw), testMarker)
		if want == "" != errors.Is(err, errForged) || string(got) != want {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
}

// TestCompare checks which arguments are those of a plan: those with the same bytes.
func TestCompare(t *testing.T) {
	answers := map[int][]byte{
		1: []byte(`"x"`), 2: []byte(`{"a":[1,2.50],"b":null}`), 3: []byte(`{"$withheld":1}`), 4: []byte(`{"\u0061" : "\ud800"}`), 5: []byte(`[-0,-0.0]`),
	}
	answer := func(n int) []byte { return answers[n] }
	const other = "the plan has a member \"a\", and now there is a member \"b\""
	for _, c := range []struct{ planned, now, differs string }{
		{`{"a":1,"b":[true,null,"x"]}`, `{"b":[true,null,"x"],"a":1}`, other},
		{`{"x":[{"a":1,"b":2}]}`, `{"x":[{"b":2,"a":1}]}`, "at /x/0 " + other},
		{`{"a":{"$withheld":1}}`, `{"a":"x"}`, ""},
		{`{"a":{"\u0024withheld":1}}`, `{"a":"x"}`, ""},
		{`{"a":[{"$withheld":2},{"$withheld":1}],"z":1}`, `{"a":[{"a":[1,2.5],"b":null},"x"],"z":1}`, ""},
		{`{"a":[{"$withheld":2},{"$withheld":1}],"z":1}`, `{"a":[{"a":[1,2.5],"b":null},"x"],"z":1.0}`, "at /z the plan has 1, and now there is 1.0"},
		{`{"a":[{"$withheld":2}]}`, `{"a":[{"b":null,"a":[1,2.5]}]}`, "at /a/0 " + other},
		{`{"a":[{"$withheld":2}]}`, `{"a":[{"a":[1,2.51],"b":null}]}`, "at /a/0/a/1 the plan has 2.50, and now there is 2.51"},
		{`{"a":[{"$withheld":2}]}`, `{"a":[{"a":[1,2.5]}]}`, "at /a/0/b the plan has null, and now there is nothing"},
		{`{"a":[{"$withheld":1}]}`, `{"a":[]}`, "at /a/0 the plan has the answer of write 1, and now there is nothing"},
		{`{"a":{"$withheld":4}}`, "{\"a\":{\"a\":\"\ufffd\"}}", ""},
		{`{"a":{"$withheld":5}}`, `{"a":[0,-0.0]}`, ""},
		{`{"a":{"$withheld":5}}`, `{"a":[0,0.0]}`, "at /a/1 the plan has -0.0, and now there is 0.0"},
		{`{"a":{"$withheld":1}}`, `{"a":{"$withheld":1}}`, `at /a the plan has "x", and now there is {"$withheld":1}`},
		{`{"a":{"$withheld":3}}`, `{"a":{"$withheld":1}}`, ""},
		{`{"a":{"$withheld":3}}`, `{"a":"x"}`, `at /a the plan has {"$withheld":1}, and now there is "x"`}, // an answer refers to nothing
		{`{"a":{"$withheld":1}}`, `{"a":"y"}`, `at /a the plan has "x", and now there is "y"`},
		{`{"a":{"$withheld":9}}`, `{"a":"x"}`, `at /a the plan has the answer of write 9, which is not known, and now there is "x"`},
		{`{"a":1}`, `{"a":1.0}`, "at /a the plan has 1, and now there is 1.0"},
		{`{"a":1}`, `{"a":"1"}`, `at /a the plan has 1, and now there is "1"`},
		{`{"a":1}`, `{"a":true}`, "at /a the plan has 1, and now there is true"},
		{`{"a":0}`, `{"a":-0}`, "at /a the plan has 0, and now there is -0"},
		{`{"a":1e2}`, `{"a":100.0}`, "at /a the plan has 1e2, and now there is 100.0"},
		{`{"a":1.0}`, `{"a":1e0}`, "at /a the plan has 1.0, and now there is 1e0"},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, "at /a the plan has 9007199254740993, and now there is 9007199254740992"},
		{`{"a":"\u0062"}`, `{"a":"b"}`, `at /a the plan has "\u0062", and now there is "b"`},
		{`{"a":null}`, `{}`, "at /a the plan has null, and now there is nothing"},
		{`{}`, `{"a":[null]}`, "at /a the plan has nothing, and now there is [null]"},
		{`{}`, `{"a":1,"a":1}`, "at /a the plan has nothing, and now there is 1"},
		{`{"a":1}`, `{"a":1,"a":1}`, "at /a the plan has nothing, and now there is 1"},
		{`{"a":[1]}`, `{"a":[1,2]}`, "at /a/1 the plan has nothing, and now there is 2"},
		{`{"a":[1,2]}`, `{"a":[1]}`, "at /a/1 the plan has 2, and now there is nothing"},
		{`{"a":[]}`, `{"a":{}}`, "at /a the plan has [], and now there is {}"},
		{`{"a":[{"b":1}]}`, `{"a":[2]}`, `at /a/0 the plan has {"b":1}, and now there is 2`},
		{`{"a":[{ "b" : 1}]}`, `{"a":[]}`, `at /a/0 the plan has { "b" : 1}, and now there is nothing`},
		{`{"a/b":1}`, `{"a/b":2}`, "at /a~1b the plan has 1, and now there is 2"},
		{`{"a":""}`, `{"a":null}`, `at /a the plan has "", and now there is null`},
		{``, ``, ""}, {``, `{}`, "the plan has nothing, and now there is {}"}, {`{}`, ``, "the plan has {}, and now there is nothing"},
		{`{ "a" : 1 }`, `{"a":1}`, ""},
	} {
		d, err := comparison{answer: answer}.compare([]byte(c.planned), []byte(c.now))
		if err != nil || d == nil != (c.differs == "") || d != nil && d.Error() != c.differs {
			t.Errorf("%s and %s: %v, %v, want %q", c.planned, c.now, d, err, c.differs)
		}
	}
	for _, c := range []struct{ planned, now string }{
		{`{"a":1}`, `{"a": 1}`}, {`{"a":1}`, "{\"a\":1}\n"}, {`{"a":[]}`, `{"a":[ ]}`}, {`{"a":{"$withheld":2}}`, `{"a":{"a":[1, 2.5],"b":null}}`},
		{`{"a":1}`, `{"a":1`}, {`{"a":1}`, `{"a":1}}`}, {`{"a":1}`, `{"a":1} 2`}, {`{"a":`, `{"a":1}`}, {`{"a":{"$withheld":1,"b":2}}`, `{"a":"x"}`},
	} {
		if d, err := (comparison{answer: answer}).compare([]byte(c.planned), []byte(c.now)); err == nil && d == nil {
			t.Errorf("%s and %s are the same", c.planned, c.now)
		}
	}
}

// FuzzCompare checks that nothing is the same as JSON without references but its bytes.
func FuzzCompare(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[2.50]}`), []byte(`{"b":[2.5],"a":1}`))
	f.Add([]byte(`{"a":"\u0061","a":[{}]}`), []byte(`{"a":"a","a":[{}]}`))
	f.Add([]byte(" 0"), []byte(" 0"))
	f.Add([]byte("0 0"), []byte("00"))
	f.Fuzz(func(t *testing.T, planned, now []byte) {
		for _, c := range []comparison{{}, {answer: func(int) []byte { return []byte("1") }}} {
			d, err := c.compare(planned, now)
			if err != nil || d != nil || bytes.Equal(planned, now) || c.answer != nil && bytes.Contains(planned, []byte("withheld")) {
				continue
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, planned); err != nil || !bytes.Equal(compact.Bytes(), now) {
				t.Errorf("%q and %q are the same (%v)", planned, now, err)
			}
		}
	})
}

// TestLargeArguments checks that JSON of plans is read without values for its parts, which need
// fifty times its bytes.
func TestLargeArguments(t *testing.T) {
	const objects = 200_000
	tiny := `{"a":[` + strings.Repeat(`{"":1},`, objects) + `{"b":1}]}`
	other := strings.Replace(tiny, `{"b":1}`, `{"b":2}`, 1)
	refers := strings.Replace(tiny, `{"b":1}`, `{"$withheld":1}`, 1)
	var same, now, answered *Difference
	var errs [4]error
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	errs[0] = badRefs([]byte(tiny), 3)
	same, errs[1] = comparison{}.compare([]byte(tiny), []byte(tiny))
	now, errs[2] = comparison{}.compare([]byte(tiny), []byte(other))
	answered, errs[3] = comparison{answer: func(int) []byte { return []byte(`{"b":2}`) }}.compare([]byte(refers), []byte(other))
	runtime.ReadMemStats(&after)
	if errors.Join(errs[:]...) != nil || same != nil || now == nil || now.Pointer != fmt.Sprintf("/a/%d/b", objects) || answered != nil {
		t.Errorf("%v, %v, %v, %v", errs, same, now, answered)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 16*uint64(len(tiny)) {
		t.Errorf("%d bytes were allocated for %d", got, len(tiny))
	}
}

// TestBadRefs checks which references a plan can have.
func TestBadRefs(t *testing.T) {
	for raw, bad := range map[string]bool{
		``: false, `{}`: false, `{"a":[{"$withheld":3}]}`: false, `{"\u0024withheld":1}`: false, `"$withheld"`: false,
		`{"a":{"$withheld":4}}`: true, `{"$withheld":0}`: true, `{"$withheld":1.0}`: true, `{"$withheld":"1"}`: true, `{"$withheld":1,"a":1}`: true,
		`{"a":1,"$withheld":1}`: true, `{"$withheld":1,"$withheld":2}`: true, `{"a":{"$withheld":9},"a":1}`: true, `{"a":`: true, `{} {}`: true,
		strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth): false, strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1): true,
	} {
		if err := badRefs([]byte(raw), 3); (err != nil) != bad {
			t.Errorf("%.100s: %v", raw, err)
		}
	}
}

func testPlan() Plan {
	digest := strings.Repeat("0a", 32)
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	return Plan{
		Version: Version, ID: journal.NewID(at), Created: at, Expires: at.Add(time.Hour), Code: "return 1",
		ToolDigest: digest, Guest: digest, Params: []byte(`{"n":1}`), Limits: Limits{Timeout: "30s", Calls: 3}, Now: 1, Seed: 2,
		Permissions: []Permission{{"a.read", digest}, {"a.write", digest}},
		Steps: []Step{
			{Do: Read, Script: "s", Server: "a", Tool: "read", Arguments: []byte(`{}`), Answer: digest},
			{Do: Write, Write: 1, Script: "s", Server: "a", Tool: "write", Arguments: []byte(`{"x":[1]}`)},
			{Do: Undo, Script: "s", Server: "a", Tool: "write", Arguments: []byte(`{"id":{"$withheld":1}}`)},
			{Do: Write, Write: 2, Script: "s", Server: "a", Tool: "write", Arguments: []byte(`{"id":{"$withheld":1}}`)},
			{Do: Commit},
		},
		Result: []byte(`[{"$withheld":2}]`),
	}
}

func fileOf(p Plan) *File { return &File{Plan: p, Digest: p.Digest()} }

// TestParse checks that a plan is read as it was written, and that no change of the file
// goes unnoticed.
func TestParse(t *testing.T) {
	text := fileOf(testPlan()).JSON()
	f, err := Parse(text)
	if err != nil || f.Plan.Digest() != f.Digest || string(f.JSON()) != string(text) {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, edit := range [][2]string{
		{`"code": "return 1"`, `"code": "return 2"`}, {`"n": 1`, `"n": 2`}, {`"a.read"`, `"a.reap"`}, {`"x": [`, `"x": [2,`},
		{`"do": "read"`, `"do": "write"`}, {`"seed": 2`, `"seed": 1`}, {`"calls": 3`, `"calls": 4`}, {`"expires": "2026`, `"expires": "2027`},
		{`"version": 2`, `"version": 1`}, {`"version": 2`, `"version": 3`}, {`"version": 2`, `"version": 0`}, {`"steps": [`, `"step": [`}, {`"now": 1`, `"now": 1, "now": 1`}, {`"digest": "`, `"digest": "00`},
	} {
		edited := strings.Replace(string(text), edit[0], edit[1], 1)
		if _, err := Parse([]byte(edited)); edited == string(text) || !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", edit[1], err)
		}
	}
}

// TestParseVersion1 checks that a plan of the version before is read, whose digest is of canonical
// JSON, and that it counts for no other version.
func TestParseVersion1(t *testing.T) {
	p := testPlan()
	p.Params = []byte(`{"n":1,"b":2}`)
	p.Version = 1
	text := string(fileOf(p).JSON())
	if f, err := Parse([]byte(text)); err != nil || f.Digest != pins.Digest(wire.Marshal(p)) || string(f.Plan.Params) != `{"n":1,"b":2}` {
		t.Errorf("%v", err)
	}
	if _, err := Parse([]byte(strings.Replace(text, `"version": 1`, `"version": 2`, 1))); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// TestBadPlans checks files whose digest is right and that are no plans.
func TestBadPlans(t *testing.T) {
	for what, edit := range map[string]func(p *Plan){
		"id":             func(p *Plan) { p.ID = "../../x" },
		"tool and code":  func(p *Plan) { p.Tool = "x" },
		"params":         func(p *Plan) { p.Params = []byte(`[]`) },
		"number":         func(p *Plan) { p.Steps[1].Write = 2 },
		"no number":      func(p *Plan) { p.Steps[1].Write = 0 },
		"reference":      func(p *Plan) { p.Steps[1].Arguments = []byte(`{"x":{"$withheld":1}}`) },
		"read refers":    func(p *Plan) { p.Steps[0].Arguments = []byte(`{"x":{"$withheld":1}}`) },
		"result refers":  func(p *Plan) { p.Result = []byte(`{"$withheld":3}`) },
		"not complete":   func(p *Plan) { p.Steps[3].Arguments = []byte(`{"x":{"$withheld":1,"y":2}}`) },
		"text":           func(p *Plan) { p.Steps[3].Arguments = []byte(`{"x":{"$withheld":"1"}}`) },
		"saved tool":     func(p *Plan) { p.Steps[1].Server = "tools" },
		"answer":         func(p *Plan) { p.Steps[0].Answer = "" },
		"write answered": func(p *Plan) { p.Steps[1].Answer = p.Guest },
		"expires":        func(p *Plan) { p.Expires = p.Created },
		"month":          func(p *Plan) { p.Expires = p.Created.AddDate(0, 2, 0) },
		"timeout":        func(p *Plan) { p.Limits.Timeout = "x" },
		"do":             func(p *Plan) { p.Steps[0].Do = "delete" },
		"no server":      func(p *Plan) { p.Steps[1].Server = "" },
		"deep": func(p *Plan) {
			p.Params = []byte(`{"a":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`)
		},
	} {
		p := testPlan()
		edit(&p)
		if _, err := Parse(fileOf(p).JSON()); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReferencesInText checks that no text of a plan looks like a reference to a reader.
func TestReferencesInText(t *testing.T) {
	p := testPlan()
	p.Steps[1].Arguments = []byte(`{"a":"<the answer of write 1>","b":"{\"$withheld\":1}","c":"\u001b[2J"}`)
	text := fileOf(p).Text()
	if !strings.Contains(text, `"a":"<the answer of write 1>"`) || !strings.Contains(text, `"b":"{\"$withheld\":1}"`) ||
		!strings.Contains(text, `{"id":<the answer of write 1>}`) || strings.Contains(text, "\x1b") {
		t.Error(text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fileOf(testPlan()).JSON())
	f.Add([]byte(`{"plan":{"version":1},"digest":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := Parse(file.JSON())
		if err != nil || again.Digest != file.Digest {
			t.Fatalf("%v\n%s", err, file.JSON())
		}
		file.Text()
		file.Short()
	})
}

func testStore(t *testing.T, dir string, key []byte) (*Store, *time.Time) {
	now := testPlan().Created
	clock := func() time.Time { return now }
	return NewStore(dir, requeststate.New(func() []byte { return key }, clock), clock), &now
}

// TestStore checks that a plan of a store is the one that was kept there.
func TestStore(t *testing.T) {
	dir, key := t.TempDir(), requeststate.NewKey()
	s, now := testStore(t, dir, key)
	f := fileOf(testPlan())
	f.Principal = "me"
	if err := s.Keep(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(t.Context(), f.Plan.ID)
	if err != nil || got.Digest != f.Digest || !s.Sealed(got) {
		t.Fatal(err)
	}
	other, _ := testStore(t, dir, requeststate.NewKey())
	if _, err := other.Load(t.Context(), f.Plan.ID); !errors.Is(err, ErrNotFound) || other.Sealed(got) {
		t.Errorf("with another key: %v", err)
	}
	stolen := *got
	stolen.Principal = "you"
	if s.Sealed(&stolen) {
		t.Error("the seal is good for another principal")
	}
	if err := os.WriteFile(filepath.Join(dir, f.Plan.ID+".json"), stolen.JSON(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context(), f.Plan.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("with another principal: %v", err)
	}
	for _, id := range []string{"", "..", "../" + f.Plan.ID, strings.ToUpper(f.Plan.ID)} {
		if _, err := s.Load(t.Context(), id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
	*now = now.Add(2 * time.Hour)
	if expired := new(ExpiredError); s.Sealed(got) || !errors.As(got.Plan.isExpired(*now), &expired) {
		t.Error("it does not expire")
	}
}

// TestOneApplier checks that of many callers that apply a plan at the same time, in several
// processes, a single caller succeeds, and that no later caller does.
func TestOneApplier(t *testing.T) {
	dir, key := t.TempDir(), requeststate.NewKey()
	f := fileOf(testPlan())
	var wg sync.WaitGroup
	var mu sync.Mutex
	won, mine := 0, (*Claim)(nil)
	for range 8 {
		wg.Go(func() {
			s, _ := testStore(t, dir, key)
			claim, err := s.Claim(t.Context(), f)
			var used *AppliedError
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won, mine = won+1, claim
			} else if !errors.As(err, &used) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, now := testStore(t, dir, key)
	if used, err := s.Applied(t.Context(), f.Digest); won != 1 || used == nil || err != nil {
		t.Errorf("%d have got it; %+v, %v", won, used, err)
	}
	if err := mine.Began(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	*now = f.Plan.Expires.Add(-time.Second)
	s.clean(t.Context())
	if used, err := s.Applied(t.Context(), f.Digest); err != nil || used == nil || used.Run != "run" || used.Plan != f.Plan.ID {
		t.Errorf("%+v, %v", used, err)
	}
	p := testPlan()
	p.ID = f.Plan.ID
	p.Steps = p.Steps[:2]
	p.Result = nil
	if _, err := s.Claim(t.Context(), fileOf(p)); err != nil {
		t.Errorf("another plan: %v", err)
	}
}

// TestClassify checks what a read is.
func TestClassify(t *testing.T) {
	o := Options{Reads: []string{"a.get_*", "b.*"}, Writes: []string{"b.set", "c.*"}}
	read, none := []byte(`{"annotations":{"readOnlyHint":true}}`), []byte(`{}`)
	for _, c := range []struct {
		server, tool string
		definition   []byte
		want         Do
	}{
		{"a", "get_x", none, Read}, {"a", "x", none, Write}, {"a", "x", read, Read}, {"b", "x", none, Read},
		{"b", "set", read, Write}, {"c", "get", read, Write}, {"d", "x", nil, Write},
		{"d", "x", []byte(`{"annotations":{"readOnlyHint":"true"}}`), Write},
	} {
		if got := o.classify(c.server, c.tool, c.definition); got != c.want {
			t.Errorf("%s.%s %s: %s", c.server, c.tool, c.definition, got)
		}
	}
}

// TestDigest checks that the digest is about every member of a plan.
func TestDigest(t *testing.T) {
	var members map[string]json.RawMessage
	p := testPlan()
	p.After, p.Tool, p.Meta, p.Reads, p.Writes, p.Before, p.Open = p.ID, "x", []byte(`{}`), []string{"a.b"}, []string{"c.d"}, p.Steps[:1], &Open{Reason: "r"}
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &members)
	}
	if err != nil || len(members) < 20 {
		t.Fatalf("%v\n%s", err, text)
	}
	for name := range members {
		other := map[string]json.RawMessage{}
		for n, v := range members {
			if n != name {
				other[n] = v
			}
		}
		raw, _ := json.Marshal(other)
		var q Plan
		if err := json.Unmarshal(raw, &q); err != nil || q.Digest() == p.Digest() {
			t.Errorf("%s does not change the digest (%v)", name, err)
		}
	}
}

// TestLeft checks which compensations were not made, from a record that ends anywhere.
func TestLeft(t *testing.T) {
	undo := func(tool string) Step { return Step{Do: Undo, Server: "s", Tool: tool} }
	steps := []Step{undo("a"), {Do: Write, Server: "s", Tool: "w"}, {Do: Commit}, undo("b"), {Do: Write, Server: "s", Tool: "w"}, undo("c")}
	ok, bad := journal.UndoRecord{}, journal.UndoRecord{Err: &abi.CallError{}}
	for _, c := range []struct {
		what string
		rec  journal.Record
		at   int
		want string
	}{
		{"nothing was registered", journal.Record{}, 0, ""},
		{"one", journal.Record{Undos: []journal.UndoRecord{ok}}, 2, "a"},
		{"one that was refused", journal.Record{Undos: []journal.UndoRecord{bad}}, 2, ""},
		{"after the commit", journal.Record{Undos: []journal.UndoRecord{ok, ok}}, 2, "b"},
		{"the commit is sure by the write after it", journal.Record{Undos: []journal.UndoRecord{ok}}, 5, ""},
		{"the last one first", journal.Record{Undos: []journal.UndoRecord{ok, ok, bad, ok}}, 5, "cb"},
		{"one was begun", journal.Record{Undos: []journal.UndoRecord{ok, ok, ok}, Calls: []journal.CallRecord{{Undo: true}}}, 5, "b"},
		{"in a saved tool", journal.Record{Calls: []journal.CallRecord{{Answer: journal.Answer{Run: &journal.Record{Undos: []journal.UndoRecord{ok}}}}}}, 2, "a"},
	} {
		got := ""
		for _, s := range left(steps, &c.rec, c.at) {
			got += s.Tool
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
