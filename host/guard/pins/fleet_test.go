package pins

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/memorytest"
)

// inFleet makes a proxy a replica of a fleet.
func inFleet(docs store.Store, seed string) func(*Options, *Settings) {
	return func(o *Options, s *Settings) { s.Shared, s.Seed = InFleet(docs, o.Log), seed }
}

// until waits until the Keeper says that about a list.
func (p *proxy) until(want []string, server string, tools ...string) {
	p.Helper()
	for end := time.After(time.Minute); ; {
		got := p.offers(server, tools...)
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-p.changed:
		case <-end:
			p.Fatalf("%q, want %q", got, want)
		}
	}
}

// TestFleet pins in one replica what counts in the others: at first use, when it is accepted,
// and while the store is away; and what was pinned before there was a fleet.
func TestFleet(t *testing.T) {
	t.Parallel()
	fleet := memorytest.New(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name, "tools.lock") }
	before := newProxy(t, filepath.Join(dir, "tools.lock"))
	if got := before.offers("b", "x:old"); len(got) != 0 {
		t.Fatal(got)
	}
	before.Close()
	docs := fleet.MustOpen(t)

	a := newProxy(t, path("a"), inFleet(docs, filepath.Join(dir, "tools.lock")))
	if got := a.offers("a", "add"); len(got) != 0 {
		t.Fatalf("first use: %q", got)
	}
	link := fleet.Another(t)
	b := newProxy(t, path("b"), inFleet(link.MustOpen(t), ""))
	b.until([]string{"add changed!"}, "a", "add:changed")
	b.until([]string{"x changed!"}, "b", "x:new") // from the file before the fleet

	// Accepted elsewhere, such as by a command.
	err := InFleet(docs, a.opts.Log).Change(t.Context(), func(data []byte) ([]byte, error) {
		l, err := Decode(data, "test")
		if err != nil {
			return nil, err
		}
		if err := l.Set("a", Lists{"tools": []byte(`[{"name":"add","description":"changed"}]`)}); err != nil {
			return nil, err
		}
		return l.Encode()
	})
	if err != nil {
		t.Fatal(err)
	}
	b.until(nil, "a", "add:changed")
	a.until(nil, "a", "add:changed")

	// The store is away: what is known counts, and nothing new is trusted.
	cut := link.MustOpen(t)
	b.Close()
	link.Cut(true)
	c := newProxy(t, path("b"), inFleet(cut, ""))
	if got := c.offers("a", "add:worse"); !slices.Equal(got, []string{"add changed!"}) {
		t.Errorf("from the copy: %q", got)
	}
	if got := c.offers("w", "t"); len(got) != 0 { // it warns, and says why nothing is pinned
		t.Errorf("%q", got)
	}
	if problems := c.Problems(); len(problems) == 0 || !strings.Contains(problems[0].Text(), "fleet") {
		t.Errorf("problems: %v", problems)
	}
	link.Cut(false)

	// The pins disappear from the store: a replica that knows them puts them back.
	d, err := docs.Get(t.Context(), lockKey)
	if err == nil {
		err = docs.Remove(t.Context(), d.Key, d.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; {
		data, err := InFleet(docs, a.opts.Log).Read(t.Context())
		if data != nil {
			break
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("not put back: %v", err)
		}
	}
	a.until([]string{"add changed!"}, "a", "add:evil")
	fresh := newProxy(t, path("fresh"), inFleet(docs, ""))
	fresh.until([]string{"add changed!"}, "a", "add:evil")
	if _, err := os.Stat(path("fresh")); err != nil {
		t.Errorf("no copy: %v", err)
	}
}

// overtaken is a Store whose first Put comes after something else.
type overtaken struct {
	store.Store
	before func()
}

func (s *overtaken) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Put(ctx, key, old, data)
}

// TestChangeOvertaken lets another replica change the pins between the moment when one has read them and
// the moment when it writes: neither change is lost.
func TestChangeOvertaken(t *testing.T) {
	t.Parallel()
	fleet := memorytest.New(t)
	log := slog.New(slog.DiscardHandler)
	add := func(docs store.Store, text string) {
		err := InFleet(docs, log).Change(t.Context(), func(before []byte) ([]byte, error) {
			return append(slices.Clone(before), text...), nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	b := fleet.MustOpen(t)
	for _, size := range []int{1, 2 * maxInline} { // in the document, and in a blob
		add(&overtaken{fleet.MustOpen(t), func() { add(b, strings.Repeat("b", size)) }}, strings.Repeat("a", size))
	}
	got, err := InFleet(b, log).Read(t.Context())
	if err != nil || strings.Count(string(got), "a") != 2*maxInline+1 || strings.Count(string(got), "b") != 2*maxInline+1 {
		t.Errorf("%d bytes, %d of a and %d of b, %v", len(got), strings.Count(string(got), "a"), strings.Count(string(got), "b"), err)
	}
}
