package replay

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

const secret = "a-secret-that-is-much-longer-than-its-mask"

// redacted returns the record of a job as the journal on disk has it, without the secret
// and without numbers that begin with 777.
func redacted(t *testing.T, j job) journal.Record {
	t.Helper()
	dir := t.TempDir()
	masker := (&config.Config{Secrets: []string{secret}}).NewMasker()
	log := journal.OpenLog(dir, journal.LogOptions{
		Log: quiet(), Redactor: config.NewRedactor(masker, []*regexp.Regexp{regexp.MustCompile(`777\d+`), regexp.MustCompile(`key_\w+`)}),
	})
	j.open = log.Open
	id := record(t, j).ID
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	rec, err := journal.Find(t.Context(), dir, id)
	if err != nil {
		t.Fatal(err)
	}
	if !rec.Any(func(r *journal.Record) bool { return r.Redacted }) {
		t.Fatal("nothing was redacted")
	}
	return rec
}

// TestRedacted checks that redaction causes no differences, and that other changes do.
func TestRedacted(t *testing.T) {
	saved := savedTools{"inner": definition("inner", "return demo.echo({'n': params.n, 't': params.t}).t")}
	params := `{"n":1,"t":"` + secret + `"}`
	for _, tt := range []struct {
		name   string
		job    job
		change func(*journal.Record)
		want   Verdict
		first  string // the first difference
	}{
		{"fuel alone", job{def: definition("job", "return [c for c in params.t.elems()] != []"), params: params}, nil, IdenticalRedacted, ""},
		{"what is passed on", job{def: definition("job", "print(params.t)\nreturn demo.echo(t='Bearer ' + params.t)"), params: params}, nil, IdenticalRedacted, ""},
		{"a secret in the code", job{def: definition("job", "return '"+secret+"'")}, nil, IdenticalRedacted, ""},
		{"made of parts that are none", job{def: definition("job", "print('key_' + params.k)\nreturn demo.echo(k='x key_' + params.k + '!', n=int('777' + str(params.n))).k"), params: `{"k":"abc","n":5}`}, nil, IdenticalRedacted, ""},
		{"as the name of a member", job{def: definition("job", "return demo.echo({'key_' + params.k: 1, 'b': [{'key_a' + params.k: 2}]})"), params: `{"k":"abc"}`}, nil, IdenticalRedacted, ""},
		{"in a failure", job{def: definition("job", "fail('no ' + 'key_' + params.k, details={'k': 'key_' + params.k})"), params: `{"k":"abc"}`}, nil, IdenticalRedacted, ""},
		{"in a run below", job{def: definition("job", "return tools.inner(n=1, t=params.t)"), params: params, saved: saved}, nil, IdenticalRedacted, ""},
		{"what is made of the mask", job{def: definition("job", "return len(params.t)"), params: params}, nil, Diverged, "result"},
		{"another answer", job{def: definition("job", "return demo.echo(t=params.t, n=1).n"), params: params},
			func(r *journal.Record) { r.Outcome.Result = []byte("2") }, Diverged, "result"},
		{"another tool", job{def: definition("job", "return demo.echo(t=params.t, n=1).n"), params: params},
			func(r *journal.Record) { r.Calls[0].Request.Tool = "other" }, Diverged, "call 1"},
		{"beside the mask", job{def: definition("job", "print('x key_' + params.k)\nreturn 1"), params: `{"k":"abc"}`},
			func(r *journal.Record) { r.Logs[0].Text = "y ****" }, Diverged, "log 1"},
		{"a mask in what was not redacted", job{def: definition("job", "return tools.inner(n=1, t=params.t)"), params: params, saved: saved},
			func(r *journal.Record) { r.Redacted = false; r.Calls[0].Answer.Run.Redacted = false }, Diverged, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := redacted(t, tt.job)
			if tt.change != nil {
				tt.change(&rec)
			}
			r := replayed(t, rec, Options{})
			text := r.Text()
			if r.Verdict != tt.want {
				t.Fatalf("want %s:\n%s", tt.want, text)
			}
			if tt.first != "" && r.Differences[0].What != tt.first {
				t.Errorf("want first: %s\n%s", tt.first, text)
			}
			if raw, err := json.Marshal(r); err != nil || !bytes.Contains(raw, []byte(`"verdict":"`+string(tt.want)+`"`)) {
				t.Errorf("%s, %v", raw, err)
			}
		})
	}
}

func TestMatchMasked(t *testing.T) {
	for _, tt := range []struct {
		recorded, replayed string
		want               bool
	}{
		{"****", "", true}, {"****", "anything", true}, {"a****", "ab", true}, {"a****", "ba", false},
		{"****b", "ab", true}, {"a****b****c", "a1b2c", true}, {"a****b****c", "a1c", false}, {"a****a", "a", false},
		{"abc", "abc", true}, {"abc", "abd", false}, {"***", "abc", false},
	} {
		if got := matchMasked(tt.recorded, tt.replayed); got != tt.want {
			t.Errorf("matchMasked(%q, %q) = %v", tt.recorded, tt.replayed, got)
		}
	}
}

func TestMatcherJSON(t *testing.T) {
	for _, tt := range []struct {
		recorded, replayed string
		want               bool
	}{
		{`{"a":"****"}`, `{"a":"x"}`, true}, {`{"a":"****"}`, `{"a":1.50}`, true}, {`{"a":"****"}`, `{"a":true}`, false},
		{`{"a":"****"}`, `{"a":"x","b":1}`, false}, {`{"a":"****","b":1}`, `{"b":1,"a":2}`, true}, {`{"a":"****","b":1}`, `{"b":2,"a":2}`, false},
		{`{"****":1,"****2":2}`, `{"x":2,"y":1}`, true}, {`{"****":1,"****2":2}`, `{"x":1,"y":1}`, false},
		{`["****",1]`, `["x",1]`, true}, {`["****",1]`, `["x",1.0]`, false}, {`["****"]`, `["x",1]`, false},
		{`"****"`, `[]`, false}, {`["****"`, `["x"]`, false}, {`["****",null]`, `["x",null]`, true},
	} {
		var excused bool
		got := matcher{true, &excused}.json([]byte(tt.recorded), []byte(tt.replayed))
		if got != tt.want || excused != tt.want {
			t.Errorf("%s, %s: %v, excused %v", tt.recorded, tt.replayed, got, excused)
		}
		excused = false
		if (matcher{false, &excused}).json([]byte(tt.recorded), []byte(tt.replayed)) || excused {
			t.Errorf("%s, %s: match although nothing was redacted", tt.recorded, tt.replayed)
		}
	}
}
