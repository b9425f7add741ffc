package main

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/fleettest"
)

// fleetState is the output of fleet status --json.
type fleetState struct {
	Replicas []struct {
		ID, Name, State, Guest string
		Draining               bool
		Keys                   []string
	}
	Problems []string
}

// status returns what a machine says about its fleet.
func (m *machine) status() (s fleetState) {
	m.t.Helper()
	if err := json.Unmarshal([]byte(m.run(0, "fleet", "status", "--json")), &s); err != nil {
		m.t.Fatal(err)
	}
	return s
}

// awaitReplicas waits until the replicas of the fleet are as wanted.
func (m *machine) awaitReplicas(what string, wanted func([]fleet.Replica) bool) {
	m.t.Helper()
	cfg, err := config.Load(config.LoadOptions{Flag: filepath.Join(m.dir, "config.toml")})
	if err != nil {
		m.t.Fatal(err)
	}
	f, err := host.ObserveFleet(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	changed := make(chan struct{}, 1)
	defer f.OnChange(func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	for late := time.After(time.Minute); !wanted(f.Replicas()); {
		select {
		case <-changed:
		case <-late:
			m.t.Fatalf("%s: %+v", what, f.Replicas())
		}
	}
}

// TestFleet asks for the replicas of a fleet, and drains one from another machine.
func TestFleet(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	a, b, c := newMachine(t, place.URL(), ""), newMachine(t, place.URL(), ""), newMachine(t, place.URL(), "")
	if s := a.status(); len(s.Replicas) != 0 || !slices.Equal(s.Problems, []string{"no replica takes requests"}) {
		t.Fatalf("%+v", s)
	}
	a.serve()
	second := b.serve()
	c.awaitReplicas("there are two", func(all []fleet.Replica) bool { return len(all) == 2 })
	s := c.status()
	if len(s.Replicas) != 2 {
		t.Fatalf("%+v", s)
	}
	for _, r := range s.Replicas {
		if r.State != "live" || r.Draining || len(r.Guest) != 64 || !slices.Equal(r.Keys, []string{"a"}) {
			t.Errorf("%+v", r)
		}
	}
	if len(s.Problems) != 0 {
		t.Errorf("%q", s.Problems)
	}
	first, other := s.Replicas[0].ID, s.Replicas[1].ID
	if out := c.run(0, "fleet", "drain", first[:8], "--wait", "0"); out != "replica "+first[:8]+" ("+s.Replicas[0].Name+") drains\n" {
		t.Error(out)
	}
	c.awaitReplicas("one drains", func(all []fleet.Replica) bool {
		return slices.ContainsFunc(all, func(r fleet.Replica) bool { return r.ID == first && r.Draining })
	})
	if s = c.status(); !s.Replicas[0].Draining || s.Replicas[1].Draining {
		t.Errorf("%+v", s)
	}
	if out := c.run(0, "fleet", "drain", other, "--wait", "0"); !strings.Contains(out, "it is the last replica") {
		t.Error(out)
	}
	if out := c.run(0, "fleet", "status"); !strings.Contains(out, "live, draining") || !strings.Contains(out, "! no replica takes requests") {
		t.Error(out)
	}
	if out := c.run(1, "fleet", "drain", "nobody"); !strings.Contains(out, `no replica has the name or id "nobody"`) {
		t.Error(out)
	}
	if out := c.run(2, "fleet", "drain"); !strings.Contains(out, "no server runs with this configuration") {
		t.Error(out)
	}
	if out := b.run(0, "fleet", "drain", "--wait", "0"); !strings.Contains(out, "the server here drains") {
		t.Error(out)
	}
	second.kill()
	place.Cut(true)
	if out := c.run(1, "fleet", "status", "--connect", "100ms"); !strings.Contains(out, "has not answered within 100ms") {
		t.Error(out)
	}
	c.write("config.toml", "[store]\ndir = \"store\"\n")
	if out := c.run(2, "fleet", "status"); !strings.Contains(out, "no NATS server is configured") {
		t.Error(out)
	}
}

// TestFleetLost loses what a fleet has in its store. Commands that look say so, and make nothing. When
// fleet init has made it again, the replicas go on without a restart.
func TestFleetLost(t *testing.T) {
	t.Parallel()
	place := fleettest.New(t, *long)
	a, c := newMachine(t, place.URL(), ""), newMachine(t, place.URL(), "")
	if out := c.run(2, "fleet", "init"); !strings.Contains(out, "no terminal") {
		t.Error(out)
	}
	a.serve()
	c.awaitReplicas("there is one", func(all []fleet.Replica) bool { return len(all) == 1 })
	replica := c.status().Replicas[0].ID
	place.Lose(t)
	for range 2 { // the first one would have made it
		for _, args := range [][]string{{"fleet", "status"}, {"fleet", "keys"}, {"runs", "list", "--open"}, {"approvals", "list"}} {
			if out := c.run(1, args...); !strings.Contains(out, "mcp-metatool fleet init") {
				t.Errorf("%q: %s", args, out)
			}
		}
	}
	if out := c.run(0, "fleet", "init", "--yes"); strings.Count(out, "made mcp-metatool_") != 4 {
		t.Error(out)
	}
	if out := c.run(0, "fleet", "init", "--yes"); out != "all streams are there\n" {
		t.Error(out)
	}
	c.awaitReplicas("it is there again", func(all []fleet.Replica) bool {
		return slices.ContainsFunc(all, func(r fleet.Replica) bool { return r.ID == replica && r.State == fleet.Live })
	})
}
