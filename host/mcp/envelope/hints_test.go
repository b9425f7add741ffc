package envelope

import (
	"testing"
	"time"
)

// TestReadHints checks that a result promises nothing that it does not say plainly.
func TestReadHints(t *testing.T) {
	for result, want := range map[string]Hints{
		`{"ttlMs":5,"cacheScope":"public"}`:       {5, ScopePublic},
		`{"ttlMs":5e3,"cacheScope":"private"}`:    {5000, ScopePrivate},
		`{}`:                                      {0, ScopePrivate},
		`{"ttlMs":-1,"cacheScope":"Public"}`:      {0, ScopePrivate},
		`{"ttlMs":"5","cacheScope":["public"]}`:   {0, ScopePrivate},
		`{"ttlMs":1e400,"cacheScope":"public"}`:   {0, ScopePublic},
		`{"ttlMs":1e300,"cacheScope":"public"}`:   {maxTTL, ScopePublic},
		`{"ttlMs":null,"cacheScope":"public"}`:    {0, ScopePublic},
		`{"ttlMs":99999999999,"cacheScope":null}`: {maxTTL, ScopePrivate},
	} {
		if got := ReadHints([]byte(result)); got != want {
			t.Errorf("%s: %+v", result, got)
		}
	}
}

// TestCombine checks the hints of a list that is made of several.
func TestCombine(t *testing.T) {
	now := time.Now()
	public := func(ttl int64) *Hints { return &Hints{ttl, ScopePublic} }
	read := func(h *Hints, age time.Duration, live bool) Freshness {
		return Freshness{Hints: h, Read: now.Add(-age), Live: live}
	}
	legacy, quiet, none := Freshness{Live: true}, Freshness{}, Freshness{Nothing: true}
	private := &Hints{500, ScopePrivate}
	for name, test := range map[string]struct {
		of   []Freshness
		want Hints
	}{
		"nothing":                              {nil, Hints{0, ScopePrivate}},
		"only servers without a list":          {[]Freshness{none, none}, Hints{0, ScopePrivate}},
		"one":                                  {[]Freshness{read(public(1000), 0, true)}, Hints{1000, ScopePublic}},
		"one that announces, long ago":         {[]Freshness{read(public(1000), time.Hour, true)}, Hints{1000, ScopePublic}},
		"one that does not":                    {[]Freshness{read(public(1000), 400*time.Millisecond, false)}, Hints{600, ScopePublic}},
		"one that does not, long ago":          {[]Freshness{read(public(1000), time.Hour, false)}, Hints{0, ScopePublic}},
		"one from the future":                  {[]Freshness{read(public(1000), -time.Hour, false)}, Hints{1000, ScopePublic}},
		"the shortest and most private":        {[]Freshness{read(public(1000), 0, true), none, read(private, 0, true), read(public(2000), 0, true)}, Hints{500, ScopePrivate}},
		"with one of the handshake era":        {[]Freshness{read(public(1000), 0, true), legacy}, Hints{1000, ScopePrivate}},
		"with one of it that announces none":   {[]Freshness{read(public(1000), 0, true), quiet}, Hints{0, ScopePrivate}},
		"only of the handshake era":            {[]Freshness{legacy}, Hints{0, ScopePrivate}},
		"of the handshake era, without a list": {[]Freshness{none, read(public(7), 0, true)}, Hints{7, ScopePublic}},
	} {
		if got := Combine(now, test.of); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	for _, test := range []struct {
		of   Freshness
		want bool
	}{
		{quiet, false}, {legacy, false}, {none, false}, {read(public(0), 0, true), false}, {read(public(0), 0, false), true},
		{read(public(1000), 999*time.Millisecond, false), false}, {read(public(1000), time.Second, false), true},
	} {
		if got := test.of.Expired(now); got != test.want {
			t.Errorf("%+v: expired %v", test.of, got)
		}
	}
}
