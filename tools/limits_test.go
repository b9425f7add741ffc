package tools

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseLimits(t *testing.T) {
	for in, want := range map[string]Limits{
		`{}`: {},
		`{"fuel":20000000,"memory":33554432,"timeout":1500,"calls":7}`: {Fuel: 20_000_000, Memory: 32 << 20, Timeout: 1500 * time.Millisecond, Calls: 7},
		`{"memory":"64MB","timeout":"1m30s"}`:                          {Memory: 64 << 20, Timeout: 90 * time.Second},
		`{"fuel":null,"memory":null,"timeout":null,"calls":null}`:      {},
		`{"Fuel":1,"later":[1.50]}`:                                    {},
		`{"fuel":99999999999999999999,"calls":99999999999999999999}`:   {Fuel: math.MaxUint64, Calls: math.MaxInt32},
		`{"memory":"99999999999GB","timeout":99999999999999999999}`:    {Memory: math.MaxUint64, Timeout: math.MaxInt64 / time.Millisecond * time.Millisecond},
		"{ \"timeout\" : \"\\u0035s\" ,\n \"x\\/y\" : 1.0 }":           {Timeout: 5 * time.Second},
	} {
		got, err := ParseLimits([]byte(in))
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if text := string(got.JSON()); text != strings.NewReplacer(" ", "", "\n", "").Replace(in) {
			t.Errorf("%s is kept as %s", in, text)
		}
		if got.raw = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v", in, got, want)
		}
	}
}

func TestBadLimits(t *testing.T) {
	for in, want := range map[string]string{
		``:                          "/limits: not valid JSON",
		`{"fuel":1`:                 "/limits: not valid JSON",
		`[]`:                        "/limits: not a JSON object",
		`{"fuel":1,"fuel":2}`:       "/limits: not valid JSON",
		`{"fuel":9999999}`:          "/limits/fuel: got 9999999, want at least 10000000",
		`{"fuel":"10000000"}`:       `/limits/fuel: got "10000000", want a whole number`,
		`{"fuel":1e10}`:             "/limits/fuel: got 1e10, want a whole number",
		`{"fuel":-1}`:               "/limits/fuel: got -1, want a whole number",
		`{"calls":0}`:               "/limits/calls: got 0, want at least 1",
		`{"calls":[]}`:              "/limits/calls: got [], want a whole number",
		`{"memory":"1MB"}`:          `/limits/memory: got "1MB", want at least 16MiB`,
		`{"memory":"lots"}`:         `/limits/memory: "lots" is not a size (write "128MB", "1GB" or a number of bytes)`,
		`{"memory":true}`:           `/limits/memory: got true, want a size such as "64MB" or a whole number of bytes`,
		`{"timeout":"5"}`:           `/limits/timeout: "5" has no unit (write "30s", or "30ms" for milliseconds)`,
		`{"timeout":"10us"}`:        `/limits/timeout: got "10us", want at least 1ms`,
		`{"timeout":"-5s"}`:         `/limits/timeout: got "-5s", want at least 1ms`,
		`{"timeout":1.5}`:           `/limits/timeout: got 1.5, want a duration such as "5s" or a whole number of milliseconds`,
		`{"calls":0,"memory":null}`: "/limits/calls: got 0, want at least 1",
		`{"fuel":1,"calls":0}`:      "/limits/fuel: got 1, want at least 10000000\n/limits/calls: got 0, want at least 1",
	} {
		l, err := ParseLimits([]byte(in))
		var wrong *ValidationError
		if !errors.As(err, &wrong) || err.Error() != want || l.JSON() != nil {
			t.Errorf("%s:\ngot  %v\nwant %s", in, err, want)
		}
	}
}

// TestLimitsOfFile checks that a definition keeps its limits as written, and that agents
// see a difference without them.
func TestLimitsOfFile(t *testing.T) {
	const file = `{"version":"1.0","name":"a","inputSchema":{"type":"object"},"limits":{"timeout":"5s","later":1.50,"fuel":20000000},"code":"1"}`
	d, err := decodeFile([]byte(file), "a", mtime)
	if err != nil || d.Limits.Timeout != 5*time.Second || d.Limits.Fuel != 20_000_000 || d.Extra != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	written, err := d.File()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decodeFile(written, "a", mtime)
	if err != nil || !reflect.DeepEqual(again.Limits, d.Limits) || !strings.Contains(string(written), `"later": 1.50`) {
		t.Errorf("%v, written as\n%s", err, written)
	}
	other := again
	if other.Limits = (Limits{}); other.sameToAgents(&d) || !again.sameToAgents(&d) {
		t.Error("limits make no difference")
	}
	if _, err := decodeFile([]byte(strings.Replace(file, "20000000", "-1", 1)), "a", mtime); err == nil || !strings.Contains(err.Error(), "/limits/fuel: got -1") {
		t.Error(err)
	}
	made := Limits{Fuel: 1 << 30, Memory: 64 << 20, Timeout: time.Second, Calls: 3}
	if got := string(made.JSON()); got != `{"fuel":1073741824,"memory":67108864,"timeout":1000,"calls":3}` {
		t.Errorf("limits made here are written as %s", got)
	}
}

// TestSaveReplacesLimits checks that saving again without limits removes them.
func TestSaveReplacesLimits(t *testing.T) {
	s, err := OpenStore(t.TempDir(), StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, raw := range []string{`{"calls":3}`, `{"calls":4,"memory":"64MB"}`, ``} {
		d := Definition{Name: "a", InputSchema: []byte(`{"type":"object"}`), Code: "return 1"}
		if raw != "" {
			if d.Limits, err = ParseLimits([]byte(raw)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := s.Save(d); err != nil {
			t.Fatal(err)
		}
		s.RecordExecution("a", mtime)
		if err := s.flush(); err != nil { // rewrites the file
			t.Fatal(err)
		}
		got, err := s.Get("a")
		if err != nil || string(got.Limits.JSON()) != raw {
			t.Errorf("%s became %s, %v", raw, got.Limits.JSON(), err)
		}
	}
}
