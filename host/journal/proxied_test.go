package journal

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

func TestProxied(t *testing.T) {
	dir := t.TempDir()
	l := openLog(t, dir, LogOptions{MaxSize: 700})
	start := time.Now().UTC().Round(0)
	client := Client{Session: "s1", Name: "host", Version: "1", Token: "ci"}
	calls := []Proxied{
		{Start: start, Duration: time.Second, Client: client, Server: "a", Tool: "x", Outcome: OK, Sent: 10, Received: 20},
		{Start: start.Add(time.Minute), Client: client, Server: "a", Tool: "y\n", Outcome: proxiedTool,
			Params: []byte("{\n}"), Result: []byte(`{"isError":true}`)},
		{Start: start.Add(2 * time.Minute), Server: "b", Tool: "x", Outcome: proxiedRPC, RPCError: []byte(`{"code":1}`),
			Decision: &Decision{Action: string(policy.Ask), Rule: "r", Reason: "why", Approval: &Approval{
				ID: "7", Allowed: true, By: "me", How: "queue", At: start, Waited: time.Second, Remembered: true, Digest: "ab", Note: "n"}}},
		{Start: start.Add(3 * time.Minute), Kind: "resource", Server: "b", Tool: "file:///x", Outcome: ProxiedDenied,
			Decision: &Decision{Action: string(policy.Deny), Rule: policy.DefaultRule, Approval: &Approval{How: "nobody"}}},
	}
	for i := range calls {
		calls[i].ID = NewID(calls[i].Start)
		l.Proxied(calls[i])
	}
	record(t, l, "a run")
	(*Log)(nil).Proxied(calls[0])
	for name, test := range map[string]struct {
		f    Filter
		want []int
	}{
		"all":       {Filter{}, []int{3, 2, 1, 0}},
		"tool":      {Filter{Tool: "x"}, []int{2, 0}},
		"of server": {Filter{Tool: "a.x"}, []int{0}},
		"session":   {Filter{Session: "s1"}, []int{1, 0}},
		"outcome":   {Filter{Outcome: OK}, []int{0}},
		"limit":     {Filter{Limit: 1}, []int{3}},
		"since":     {Filter{Since: start.Add(time.Minute)}, []int{3, 2, 1}},
		"until":     {Filter{Until: start.Add(time.Minute)}, []int{0}},
		"id":        {Filter{ID: calls[1].ID}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			var got, want []Proxied
			for p, err := range ScanProxied(t.Context(), dir, test.f) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, p)
			}
			for _, i := range test.want {
				want = append(want, calls[i])
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
	if runs, faults := scan(dir, Filter{}); len(runs) != 1 || len(faults) > 0 {
		t.Errorf("runs %+v, %v", runs, faults)
	}
}

func TestProxiedOutcome(t *testing.T) {
	for want, got := range map[string]string{
		OK:               ProxiedOutcome([]byte(`{"content":[],"isError":false}`), nil, false),
		proxiedTool:      ProxiedOutcome([]byte(`{"isError":true}`), nil, false),
		proxiedRPC:       ProxiedOutcome(nil, []byte(`{}`), false),
		proxiedCancelled: ProxiedOutcome([]byte(`{}`), nil, true),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	const begin = `{"t":"begin","run":"a0","v":1,"time":"2026-11-21T12:00:00Z"}` + "\n"
	for name, test := range map[string]struct{ in, want string }{
		"nothing":       {"", "it contains no run"},
		"text":          {"hello\n", "line 1: not a line of a journal"},
		"other JSON":    {`{"type":"begin"}`, "line 1: not a line of a journal"},
		"odd id":        {`{"t":"begin","run":"a b"}`, "line 1: not a line of a journal"},
		"id of a type":  {`{"t":"begin","run":1}`, "line 1: not a line of a journal"},
		"two runs":      {begin + strings.ReplaceAll(begin, "a0", "a1"), "it contains 2 runs"},
		"twice":         {begin + begin, "line 2: run a0 begins a second time"},
		"no beginning":  {`{"t":"end","run":"a0"}`, "line 1: run a0: the first line is missing"},
		"later version": {strings.Replace(begin, `"v":1`, `"v":2`, 1), "written by a later version"},
		"a type":        {begin + `{"t":"end","run":"a0","fuel":"x"}` + "\n", "line 2: fuel is not a whole number"},
		"torn":          {begin + `{"t":"end","run":"a0"`, "line 2: it is incomplete"},
		"circle":        {`{"t":"begin","run":"a0","parent":{"run":"a0","call":1},"v":1,"time":"2026-11-21T12:00:00Z"}`, "it contains no run"},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Decode(strings.NewReader(test.in)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	r, err := Decode(strings.NewReader(begin + `{"t":"end","run":"a0","later":1}`)) // no line break
	if err != nil || !r.Done {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDecodeRewritten checks lines that another program has parsed and written again.
func TestDecodeRewritten(t *testing.T) {
	for seed := range uint64(5) {
		d := newDice(seed)
		r := Open(d.begin())
		d.play(r, Open, 1)
		var want, in, got strings.Builder
		if err := Encode(&want, r.Record()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(want.String()) {
			f, err := readFields([]byte(line))
			if err != nil {
				t.Fatal(err)
			}
			between := "{ "
			for _, name := range slices.Sorted(maps.Keys(f.raw)) {
				in.WriteString(between + `"` + name + "\" :\t" + string(f.raw[name]))
				between = " , "
			}
			in.WriteString(" } \r\n")
		}
		rec, err := Decode(strings.NewReader(in.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, in.String())
		}
		if err := Encode(&got, rec); err != nil || got.String() != want.String() {
			t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want.String())
		}
	}
}

// FuzzDecode checks that what Decode accepts survives Encode and Decode unchanged.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(5) {
		d := newDice(seed)
		r := Open(d.begin())
		d.play(r, Open, 1)
		var b strings.Builder
		if err := Encode(&b, r.Record()); err != nil {
			f.Fatal(err)
		}
		f.Add(b.String())
	}
	const begin = `{"t":"begin","run":"a0","v":1,"time":"2026-11-21T12:00:00Z","servers":["s"],"limits":{"fuel":1},"definition":{"limits":{},"extra":[{"name":"x","value":1}]}}` + "\n"
	f.Add(begin + `{"t":"end","run":"a0","duration":-1,"failureText":"{\n}","fuel":18446744073709551615}`)
	f.Add(begin + `{"t":"call","run":"a0","seq":1,"asked":{"timeout":1e3,"metaBase64":"/w=="}}` + "\n" + `{"t":"answer","run":"a0","seq":1,"result":{},"from":"json","error":{}}`)
	f.Add(begin + `{"t":"log","run":"a0","entries":[{"level":"7"},{"level":"warn","textBase64":"/w=="}]}`)
	f.Add(begin + `{"t":"begin","run":"a1","parent":{"run":"a0","call":1},"v":1,"time":"2026-11-21T12:00:00Z"}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Decode(strings.NewReader(text))
		if err != nil {
			return
		}
		var b strings.Builder
		if err := Encode(&b, r); err != nil {
			t.Fatal(err)
		}
		again, err := Decode(strings.NewReader(b.String()))
		if err != nil {
			t.Fatalf("%v\n%s\nof\n%s", err, b.String(), text)
		}
		var c strings.Builder
		if err := Encode(&c, again); err != nil || c.String() != b.String() {
			t.Errorf("%v\n%s\nbecomes\n%s", err, b.String(), c.String())
		}
	})
}
