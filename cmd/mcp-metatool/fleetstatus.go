package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func fleetStatusCommand() *cobra.Command {
	v := &fleetView{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the replicas, what they do, who owns what, and open runs",
		Long: `Ask every replica how it is and show it: its version, whether it drains, its keys and
figures. Then come the leases (what one replica does for the whole fleet) and the open runs
of durable tools.

A replica is silent if it does not answer for 15 seconds: it has died, hangs, or is cut off
from the store. After ten minutes it is not listed any more. The exit code is 1 if the store
does not answer.`,
		Example: `  mcp-metatool fleet status
  mcp-metatool fleet status --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.status(cmd) },
	}
	v.addFlags(cmd)
	return cmd
}

// fleetStatus is the output of fleet status --json.
type fleetStatus struct {
	Fleet    string        `json:"fleet"`
	Took     float64       `json:"storeMilliseconds"` // for one read
	Replicas []replicaJSON `json:"replicas"`
	Leases   []leaseJSON   `json:"leases"`
	Runs     []openDurable `json:"openRuns"`
	// Problems are what somebody should look at, as sentences.
	Problems []string `json:"problems"`
}

type replicaJSON struct {
	ID       string           `json:"id"`
	Name     string           `json:"name"`
	State    string           `json:"state"`
	Draining bool             `json:"draining"`
	Version  string           `json:"version"`
	Guest    string           `json:"guest"`
	Peer     string           `json:"peer,omitempty"`
	Started  time.Time        `json:"started"`
	Keys     []string         `json:"keys"`
	Counts   map[string]int64 `json:"counts"`
}

type leaseJSON struct {
	Name  string `json:"name"`
	Owner string `json:"owner"` // the id of a replica, or another name
	Fence uint64 `json:"fence"`
	State string `json:"ownerState,omitempty"` // if the owner is a replica
}

func (v *fleetView) status(cmd *cobra.Command) error {
	end, err := v.open(cmd)
	defer end()
	if err != nil {
		return err
	}
	s, err := v.collect(cmd.Context())
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("the store of the fleet: %w", err)}
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), s)
	}
	return s.print(cmd.OutOrStdout())
}

// collect reads what there is to show.
func (v *fleetView) collect(ctx context.Context) (*fleetStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	begun := time.Now()
	if err := v.fleet.Reached(ctx); err != nil {
		return nil, err
	}
	s := &fleetStatus{
		Fleet: v.fleet.Name(), Took: milliseconds(time.Since(begun)),
		Replicas: []replicaJSON{}, Leases: []leaseJSON{}, Runs: []openDurable{}, Problems: []string{},
	}
	all := v.fleet.Replicas()
	for _, r := range all {
		s.Replicas = append(s.Replicas, replicaJSON{
			r.ID, r.Name, r.State.String(), r.Draining, r.Version, r.Guest, r.Peer, r.Started,
			append([]string{}, r.Keys...), r.Counts,
		})
	}
	held, err := lease.List(ctx, v.fleet.Store())
	if err != nil {
		return nil, err
	}
	for _, l := range held {
		j := leaseJSON{Name: l.Name, Owner: l.Owner, Fence: l.Fence}
		if id, err := store.ParseID(l.Owner); err == nil {
			j.State = v.fleet.Replica(id.String()).State.String()
		}
		s.Leases = append(s.Leases, j)
	}
	runs, err := host.FleetRuns(ctx, v.fleet)
	if err != nil {
		return nil, err
	}
	for _, o := range runs {
		s.Runs = append(s.Runs, openDurableOf(o))
	}
	s.Problems = append(s.Problems, problemsOf(all, s.Runs)...)
	return s, nil
}

// problemsOf says what somebody should look at.
func problemsOf(all []fleet.Replica, runs []openDurable) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	live := slices.DeleteFunc(slices.Clone(all), func(r fleet.Replica) bool { return r.State != fleet.Live })
	serving := slices.DeleteFunc(slices.Clone(live), func(r fleet.Replica) bool { return r.Draining })
	if len(serving) == 0 {
		say("no replica takes requests")
	}
	for _, r := range all {
		if r.State == fleet.Silent {
			say("replica %s (%s) has not answered: it has died, hangs, or is cut off from the store", shortReplica(r.ID), r.Name)
		}
	}
	keys := map[string]bool{}
	for _, r := range live {
		for _, k := range r.Keys {
			keys[k] = true
		}
	}
	for _, r := range live {
		for k := range keys {
			if !slices.Contains(r.Keys, k) {
				say("replica %s (%s) does not have the key %s: it cannot read what is sealed with it", shortReplica(r.ID), r.Name, k)
			}
		}
	}
	if len(live) > 1 && slices.ContainsFunc(live, func(r fleet.Replica) bool {
		return r.Keys == nil || live[0].Keys == nil || r.Keys[0] != live[0].Keys[0]
	}) {
		say("the replicas do not seal with the same key (make the same one the first everywhere)")
	}
	guests := map[string]bool{}
	for _, r := range serving {
		guests[r.Guest] = true
	}
	for _, r := range runs {
		if r.Guest != "" && !guests[r.Guest] {
			say("run %s needs a replica with the guest %s, and none is left (start one of that version, or cancel it: mcp-metatool runs cancel %[1]s)", r.ID, display.Clip(r.Guest, 12))
		}
	}
	slices.Sort(problems)
	return problems
}

// print writes the status for people.
func (s *fleetStatus) print(w io.Writer) error {
	live := 0
	for _, r := range s.Replicas {
		if r.State == fleet.Live.String() {
			live++
		}
	}
	head := fmt.Sprintf("fleet %s: %d of %d replicas answer, the store answers in %s\n", display.Line(s.Fleet, 40), live, len(s.Replicas), timeline.Duration(time.Duration(s.Took*float64(time.Millisecond))))
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	t := newTable(w)
	t.head("REPLICA", "NAME", "STATE", "VERSION", "GUEST", "STARTED", "KEYS", "")
	for _, r := range s.Replicas {
		t.row(display.EscapeLine(shortReplica(r.ID)), display.Line(r.Name, 40), r.state(), display.Line(r.Version, 20), display.EscapeLine(shortReplica(r.Guest)), r.Started, display.Line(strings.Join(r.Keys, " "), 40), display.Line(r.figures(), 120))
	}
	if err := t.flush(); err != nil {
		return err
	}
	if len(s.Leases) > 0 {
		if _, err := fmt.Fprintf(w, "\n%d leases\n", len(s.Leases)); err != nil {
			return err
		}
		t = newTable(w)
		t.head("LEASE", "OWNER", "", right("FENCE"))
		for _, l := range s.Leases {
			t.row(display.Line(l.Name, 60), display.Line(s.nameOf(l.Owner), 40), l.State, l.Fence)
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	if len(s.Runs) > 0 {
		if _, err := fmt.Fprintf(w, "\n%d open runs of durable tools (mcp-metatool runs list --open)\n", len(s.Runs)); err != nil {
			return err
		}
		t = newTable(w)
		t.head("RUN", "STARTED", "TOOL", "STATE", "")
		for i := range s.Runs {
			r := &s.Runs[i]
			t.row(shortRun(r.ID), r.Start, display.Line(r.Tool, 28), r.State, display.Line(r.remark(), 200))
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	for _, p := range s.Problems {
		if _, err := fmt.Fprintf(w, "\n%s %s", paint(w, display.Bad, "!"), display.EscapeLine(p)); err != nil {
			return err
		}
	}
	if len(s.Problems) > 0 {
		_, err := fmt.Fprintln(w)
		return err
	}
	return nil
}

func (r *replicaJSON) state() string {
	if r.Draining {
		return r.State + ", draining"
	}
	return r.State
}

// figures returns the counts that are not zero.
func (r *replicaJSON) figures() string {
	var parts []string
	for name, n := range r.Counts {
		if n != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", strings.ReplaceAll(name, "_", " "), n))
		}
	}
	slices.Sort(parts)
	return cmp.Or(strings.Join(parts, ", "), "idle")
}

// nameOf returns what people call an owner.
func (s *fleetStatus) nameOf(owner string) string {
	for _, r := range s.Replicas {
		if r.ID == owner {
			return shortReplica(r.ID) + " " + r.Name
		}
	}
	return owner
}
