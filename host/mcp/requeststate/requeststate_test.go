package requeststate

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

func newSealer(key []byte, at *time.Time) *Sealer {
	return New(func() []byte { return key }, func() time.Time { return *at })
}

var binding = Binding{"alice", "tools/call", []byte(`{"name":"x","arguments":{"n":1,"m":[1.50]}}`)}

// TestOpen checks which requests can open a state.
func TestOpen(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	s := newSealer(NewKey(), &at)
	state, err := s.Seal(Relay, binding, []byte("inner"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if kind, payload, err := s.Open(binding, state); err != nil || kind != Relay || string(payload) != "inner" {
		t.Errorf("%d %q %v", kind, payload, err)
	}
	for params, ok := range map[string]bool{
		`{"name":"x","arguments":{"n":1,"m":[1.50]},"_meta":{"a":1},"inputResponses":{"k":{}},"requestState":"s"}`: true,
		`{"arguments": {"m":[1.50], "n":1} ,"name":"\u0078"}`:                                                      true,
		`{"name":"x","arguments":{"n":2,"m":[1.50]}}`:                                                              false,
		`{"name":"x","arguments":{"n":1,"m":[1.50]},"more":null}`:                                                  false,
		`{"name":"y","arguments":{"n":1,"m":[1.50]}}`:                                                              false,
		`{"name":"x"}`: false, ``: false, `[]`: false, `{`: false,
	} {
		other := binding
		other.Params = []byte(params)
		if _, _, err := s.Open(other, state); (err == nil) != ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", params, err)
		}
	}
	for _, other := range []Binding{{"bob", binding.Method, binding.Params}, {binding.Principal, "prompts/get", binding.Params}, {"alice10:tools/call", "", binding.Params}} {
		if _, _, err := s.Open(other, state); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s %s: %v", other.Principal, other.Method, err)
		}
	}
	at = at.Add(time.Minute)
	if _, _, err := s.Open(binding, state); err != nil {
		t.Errorf("in time: %v", err)
	}
	at = at.Add(time.Millisecond)
	if _, _, err := s.Open(binding, state); !errors.Is(err, ErrInvalid) {
		t.Errorf("expired: %v", err)
	}
	if _, _, err := newSealer(NewKey(), &at).Open(binding, state); !errors.Is(err, ErrInvalid) {
		t.Errorf("another key: %v", err)
	}
}

// TestLargeNumbers checks that numbers that are equal as floats are told apart.
func TestLargeNumbers(t *testing.T) {
	a, err := Digest([]byte(`{"n":9007199254740992}`))
	b, err2 := Digest([]byte(`{"n":9007199254740993}`))
	if err != nil || err2 != nil || bytes.Equal(a, b) {
		t.Errorf("%x %x %v %v", a, b, err, err2)
	}
	if _, err := Digest([]byte(`{"arguments":{"a":1,"a":2}}`)); err == nil {
		t.Error("params with a repeated name have a digest")
	}
}

// TestTampered changes every character of a state, and cuts it everywhere.
func TestTampered(t *testing.T) {
	at := time.Now()
	s := newSealer(NewKey(), &at)
	state, err := s.Seal(Parked, binding, []byte("call-1"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(state, "call-1") {
		t.Error("the payload can be read")
	}
	for i := range state {
		for _, other := range []string{state[:i], state[i+1:], state[:i] + "A" + state[i+1:], state[:i] + "B" + state[i+1:], state[:i] + "\n" + state[i:]} {
			if other == state {
				continue
			}
			if _, _, err := s.Open(binding, other); !errors.Is(err, ErrInvalid) {
				t.Fatalf("%q: %v", other, err)
			}
		}
	}
}

// TestShared checks what replicas of a fleet can do with the states of each other, while their keys
// are changed and their clocks differ.
func TestShared(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	later := at
	one, two := NewKey(), NewKey()
	keysOfA, keysOfB := [][]byte{one}, [][]byte{one}
	a := NewShared(Options{Keys: func() [][]byte { return keysOfA }, Home: "a", Now: func() time.Time { return at }})
	b := NewShared(Options{Keys: func() [][]byte { return keysOfB }, Home: "b", Now: func() time.Time { return later }})
	seal := func(s *Sealer, home bool) string {
		t.Helper()
		f := s.Seal
		if home {
			f = s.SealHere
		}
		state, err := f(Run, binding, []byte("call"), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	check := func(what string, s *Sealer, state, home string, ok bool) {
		t.Helper()
		if got := s.Home(binding, state); got != home {
			t.Errorf("%s: home %q, want %q", what, got, home)
		}
		opened, err := s.OpenState(binding, state)
		if (err == nil) != ok || ok && (opened.Kind != Run || string(opened.Payload) != "call") || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v %v", what, opened, err)
		}
	}
	here, any := seal(a, true), seal(a, false)
	check("of another replica", b, here, "a", true)
	check("for any", b, any, "", true)
	check("its own", a, here, "", true)
	later = at.Add(time.Minute + Leeway)
	check("within the leeway", b, here, "a", true)
	later = later.Add(time.Millisecond)
	check("after it", b, here, "a", false) // the home may have another clock
	later = at
	keysOfA, keysOfB = [][]byte{two, one}, [][]byte{one, two}
	check("sealed with the older key", a, here, "", true)
	check("sealed with the newer key", b, seal(a, true), "a", true)
	keysOfB = [][]byte{two}
	check("the key was taken away", b, here, "", false)
	alone := newSealer(one, &at)
	check("without a fleet", alone, here, "", true)
	stranger := binding
	stranger.Principal = "bob"
	keysOfB = keysOfA
	if home := b.Home(stranger, here); home != "" {
		t.Errorf("bob is told the home %q", home)
	}
	// What has another format cannot be taken for one of this.
	for _, state := range []string{here, seal(alone, false)} {
		raw, _ := base64.RawURLEncoding.DecodeString(state)
		raw[0] = version + versionHome - raw[0]
		check("another version", a, base64.RawURLEncoding.EncodeToString(raw), "", false)
	}
}

// FuzzOpen checks that no other text than a sealed state can be opened.
func FuzzOpen(f *testing.F) {
	at := time.Now()
	s := newSealer(make([]byte, KeySize), &at)
	state, err := s.Seal(Run, binding, []byte("run"), time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(state, binding.Params)
	f.Add("", []byte(`{}`))
	f.Fuzz(func(t *testing.T, text string, params []byte) {
		other := Binding{binding.Principal, binding.Method, params}
		_, payload, err := s.Open(other, text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || payload != nil {
				t.Fatalf("%v, %q", err, payload)
			}
			return
		}
		want, _ := Digest(binding.Params)
		// Processes that fuzz have the same key, but each has a state of its own.
		if got, _ := Digest(params); string(payload) != "run" || len(text) != len(state) || !bytes.Equal(got, want) {
			t.Fatalf("%q was opened for %s", text, params)
		}
	})
}

// TestKey checks that processes with the same folder get the same key.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	keys := make([][]byte, 8)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			key, err := LoadKey(context.Background(), dir)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	all.Wait()
	for _, key := range keys {
		if len(key) != KeySize || !bytes.Equal(key, keys[0]) {
			t.Errorf("%x, %x", key, keys[0])
		}
	}
	path := filepath.Join(dir, keyFile.Name)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("%v, %v", info, err)
	}
	for _, content := range []string{"", "short", strings.Repeat("x", KeySize+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKey(context.Background(), dir); err == nil || !strings.Contains(err.Error(), keyFile.Name) || !strings.Contains(err.Error(), "remove the file") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if key, err := LoadKey(context.Background(), filepath.Join(dir, "new")); err != nil || len(key) != KeySize {
		t.Errorf("in a new folder: %x, %v", key, err)
	}
	if _, err := LoadKey(context.Background(), filepath.Join(path, "new")); err == nil || !strings.Contains(err.Error(), keyFile.Name) {
		t.Errorf("below a file: %v", err)
	}
	s := New(func() []byte { return nil }, time.Now)
	if _, err := s.Seal(Run, binding, nil, time.Hour); err == nil {
		t.Error("a state was sealed without a key")
	}
}

// TestClockJumps checks that a call which waits in a process is found whatever becomes of the clocks
// there and elsewhere, and that all other states expire by the clock.
func TestClockJumps(t *testing.T) {
	for _, home := range []string{"", "a"} {
		for kind := Relay; kind <= Plan; kind++ {
			for _, jump := range []time.Duration{-24 * time.Hour, time.Minute, 24 * time.Hour} {
				at := time.Unix(1_800_000_000, 0)
				s := NewShared(Options{Keys: func() [][]byte { return [][]byte{make([]byte, KeySize)} }, Home: home, Now: func() time.Time { return at }})
				state, err := s.SealHere(kind, binding, []byte("x"), time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				at = at.Add(jump)
				opened, err := s.OpenState(binding, state)
				if ok := kind == Parked || jump <= time.Minute; ok != (err == nil) || ok && (opened.Kind != kind || opened.Home != "") {
					t.Errorf("home %q, kind %d, a jump of %v: %+v, %v", home, kind, jump, opened, err)
				}
				if home == "" {
					continue
				}
				other := NewShared(Options{Keys: s.opts.Keys, Home: "b", Now: s.opts.Now})
				opened, err = other.OpenState(binding, state)
				if ok := kind == Parked || jump <= time.Minute; ok != (err == nil) || ok && opened.Home != home {
					t.Errorf("kind %d, a jump of %v, elsewhere: %+v, %v", kind, jump, opened, err)
				}
			}
		}
	}
}
