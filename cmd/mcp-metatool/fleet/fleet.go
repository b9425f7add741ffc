// Package fleet has the verbs for an operator of several replicas: fleet, and store, which copies the
// contents of a store.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/lease"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Commands returns the verbs about fleets and stores.
func Commands() []*cobra.Command {
	return []*cobra.Command{fleetCommand(), storageCommand()}
}

// fleetCommand is about the processes that share a store in NATS. fleet starts no server, and works
// on any machine with the configuration.
func fleetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the replicas that share a store in NATS, drain them, and make its streams",
		Args:  cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("fleet: choose one of: fleet status, fleet drain [REPLICA], fleet keys, fleet init"))
		},
	}
	cmd.AddCommand(fleetStatusCommand(), fleetDrainCommand(), fleetKeysCommand(), fleetInitCommand())
	return cmd
}

// fleetView holds the common parts of the verbs of fleet.
type fleetView struct {
	cli.Settings
	asJSON bool
	wait   time.Duration // for the store

	cfg   *config.Config
	log   *slog.Logger
	fleet *fleet.Fleet
}

func (v *fleetView) addFlags(cmd *cobra.Command) {
	v.Settings.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&v.wait, "connect", 10*time.Second, "how long to wait for the store, at most")
}

// open opens the fleet of the configuration, and finds out the state of its replicas. The caller
// must call end, also after an error.
func (v *fleetView) open(cmd *cobra.Command) (end func(), err error) {
	end = func() {}
	if v.cfg, err = v.Load(); err != nil {
		return end, err
	}
	v.log = v.Logger(v.cfg)
	v.fleet, err = host.ObserveFleet(v.cfg, v.log)
	if errors.Is(err, host.ErrNoFleet) {
		return end, cli.Usage(fmt.Errorf("fleet: %w", err))
	}
	if err != nil {
		return end, err
	}
	end = func() { v.fleet.Close() }
	defer cli.Busy(cmd, "asking the replicas")()
	connect, cancel := context.WithTimeout(cmd.Context(), v.wait)
	defer cancel()
	err = v.fleet.Reached(connect)
	switch {
	case errors.Is(err, store.ErrMissing):
		return end, cli.Failed(err)
	case cmd.Context().Err() != nil:
		return end, context.Cause(cmd.Context())
	case connect.Err() != nil:
		return end, cli.Failed(fmt.Errorf("the store of the fleet at %s has not answered within %v (the log above may say why; --connect waits longer)", strings.Join(v.cfg.Store.NATS, ", "), v.wait))
	case err != nil:
		return end, cli.Failed(fmt.Errorf("the store of the fleet at %s: %w", strings.Join(v.cfg.Store.NATS, ", "), err))
	}
	refresh, cancel := context.WithTimeout(cmd.Context(), refreshTime)
	defer cancel()
	if err := v.fleet.Refresh(refresh); err != nil && cmd.Context().Err() != nil {
		return end, err
	}
	return end, nil
}

// refreshTime bounds the wait for a replica, and is long enough to find a silent replica.
const refreshTime = 2 * fleet.DefaultTTL

// find returns the replica named by a word: an id or its beginning, or a name that no other live
// replica has.
func (v *fleetView) find(word string) (fleet.Replica, error) {
	all := v.fleet.Replicas()
	found := slices.DeleteFunc(slices.Clone(all), func(r fleet.Replica) bool {
		return r.ID != word && r.Name != word && (len(word) < 4 || !strings.HasPrefix(r.ID, word))
	})
	if live := slices.DeleteFunc(slices.Clone(found), func(r fleet.Replica) bool { return r.State != fleet.Live }); len(live) > 0 {
		found = live
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return fleet.Replica{}, cli.Failed(fmt.Errorf("no replica has the name or id %q (mcp-metatool fleet status lists them)", display.Clip(word, 100)))
	}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = shortReplica(r.ID)
	}
	return fleet.Replica{}, cli.Failed(fmt.Errorf("%d replicas are called %q (name one of these ids: %s)", len(found), display.Clip(word, 100), strings.Join(ids, ", ")))
}

// shortReplica returns the beginning of an id, which is enough for people.
func shortReplica(id string) string { return id[:min(len(id), 8)] }

func fleetStatusCommand() *cobra.Command {
	v := &fleetView{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the replicas, what they do, who owns what, and open runs",
		Long: `Ask every replica how it is and show it: its version, whether it drains, its keys and
figures. Then come the leases (what one replica does for the whole fleet) and the open runs
of durable tools.

A replica is silent if it does not answer for 15 seconds: it has died, hangs, or is cut off
from the store. After ten minutes it is no longer listed. The exit code is 1 if the store
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
	Fleet    string            `json:"fleet"`
	Took     float64           `json:"storeMilliseconds"` // for a read
	Replicas []replicaJSON     `json:"replicas"`
	Leases   []leaseJSON       `json:"leases"`
	Runs     []cli.OpenDurable `json:"openRuns"`
	// Problems are sentences for the operator.
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
		return cli.Failed(fmt.Errorf("the store of the fleet: %w", err))
	}
	if v.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), s)
	}
	return s.print(cmd.OutOrStdout())
}

// collect reads all parts of the report.
func (v *fleetView) collect(ctx context.Context) (*fleetStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	begun := time.Now()
	if err := v.fleet.Reached(ctx); err != nil {
		return nil, err
	}
	s := &fleetStatus{
		Fleet: v.fleet.Name(), Took: cli.Milliseconds(time.Since(begun)),
		Replicas: []replicaJSON{}, Leases: []leaseJSON{}, Runs: []cli.OpenDurable{}, Problems: []string{},
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
		s.Runs = append(s.Runs, cli.OpenDurableOf(o))
	}
	s.Problems = append(s.Problems, problemsOf(all, s.Runs)...)
	return s, nil
}

// problemsOf returns the problems for the operator.
func problemsOf(all []fleet.Replica, runs []cli.OpenDurable) (problems []string) {
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
	t := cli.NewTable(w)
	t.Head("REPLICA", "NAME", "STATE", "VERSION", "GUEST", "STARTED", "KEYS", "")
	for _, r := range s.Replicas {
		t.Add(display.EscapeLine(shortReplica(r.ID)), display.Line(r.Name, 40), r.state(), display.Line(r.Version, 20), display.EscapeLine(shortReplica(r.Guest)), r.Started, display.Line(strings.Join(r.Keys, " "), 40), display.Line(r.figures(), 120))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(s.Leases) > 0 {
		if _, err := fmt.Fprintf(w, "\n%d leases\n", len(s.Leases)); err != nil {
			return err
		}
		t = cli.NewTable(w)
		t.Head("LEASE", "OWNER", "", cli.Right("FENCE"))
		for _, l := range s.Leases {
			t.Add(display.Line(l.Name, 60), display.Line(s.nameOf(l.Owner), 40), l.State, l.Fence)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(s.Runs) > 0 {
		if _, err := fmt.Fprintf(w, "\n%d open runs of durable tools (mcp-metatool runs list --open)\n", len(s.Runs)); err != nil {
			return err
		}
		t = cli.NewTable(w)
		t.Head("RUN", "STARTED", "TOOL", "STATE", "")
		for i := range s.Runs {
			r := &s.Runs[i]
			t.Add(cli.ShortRun(r.ID), r.Start, display.Line(r.Tool, 28), r.State, display.Line(r.Remark(), 200))
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for _, p := range s.Problems {
		if _, err := fmt.Fprintf(w, "\n%s %s", cli.Paint(w, display.Bad, "!"), display.EscapeLine(p)); err != nil {
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

// figures returns the counts other than zero.
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

// nameOf returns the name of an owner for people.
func (s *fleetStatus) nameOf(owner string) string {
	for _, r := range s.Replicas {
		if r.ID == owner {
			return shortReplica(r.ID) + " " + r.Name
		}
	}
	return owner
}

func fleetKeysCommand() *cobra.Command {
	v := &fleetView{}
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Show what in the store is encrypted with which key of the fleet",
		Long: `Count what in the store is encrypted with which key of the fleet. After a new key has been put
first everywhere, the replicas encrypt the documents again by themselves; logs keep their key
until they are removed. The exit code is 1 if something is encrypted with a key that is not
configured here. Keys themselves are not shown, only their ids.`,
		Example: `  mcp-metatool fleet keys
  mcp-metatool fleet keys --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.keys(cmd) },
	}
	v.addFlags(cmd)
	return cmd
}

// keyJSON is a key in the output of fleet keys --json.
type keyJSON struct {
	ID         string `json:"id"`
	Configured bool   `json:"configured"`
	Encrypts   bool   `json:"encrypts"` // the first key here
	Documents  int    `json:"documents"`
	Logs       int    `json:"logs"`
}

func (v *fleetView) keys(cmd *cobra.Command) error {
	end, err := v.open(cmd)
	defer end()
	if err != nil {
		return err
	}
	uses, err := v.fleet.KeyUses(cmd.Context())
	if err != nil {
		return cli.Failed(fmt.Errorf("the store of the fleet: %w", err))
	}
	all, unknown := v.keysIn(uses)
	if v.asJSON {
		err = cli.WriteJSON(cmd.OutOrStdout(), all)
	} else {
		t := cli.NewTable(cmd.OutOrStdout())
		t.Head("KEY", "", cli.Right("DOCUMENTS"), cli.Right("LOGS"))
		for _, k := range all {
			t.Add(display.EscapeLine(k.ID), k.remark(), k.Documents, k.Logs)
		}
		err = t.Flush()
	}
	if err == nil && unknown {
		err = cli.Failed(nil)
	}
	return err
}

// keysIn returns the keys of the configuration, and then the keys that only the store knows.
func (v *fleetView) keysIn(uses map[string]sealed.Use) (all []keyJSON, unknown bool) {
	for i, k := range v.cfg.Store.Keys {
		all = append(all, keyJSON{k.ID, true, i == 0, uses[k.ID].Documents, uses[k.ID].Logs})
		delete(uses, k.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(uses)) {
		all, unknown = append(all, keyJSON{ID: id, Documents: uses[id].Documents, Logs: uses[id].Logs}), true
	}
	return all, unknown
}

func (k *keyJSON) remark() string {
	switch {
	case k.ID == "":
		return "not encrypted: another program has written it"
	case !k.Configured:
		return "not configured here"
	case k.Encrypts:
		return "encrypts"
	case k.Documents+k.Logs == 0:
		return "decrypts; nothing needs it"
	}
	return "decrypts"
}

// fleetInit is the verb fleet init.
type fleetInit struct {
	cli.Settings
	yes, asJSON bool
	wait        time.Duration
}

func fleetInitCommand() *cobra.Command {
	c := &fleetInit{}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make the streams of the fleet that NATS does not have",
		Long: `Make those streams of the fleet in NATS that are not there, empty. Streams that are there stay
as they are.

A replica makes the streams of a new fleet by itself. It does not make streams again that it has
used before: it is not ready then, and waits until you have brought them back from a backup, or
run this command. What was in them stays lost: sessions, approvals, plans, pins, the records of
runs that replicas do not have in their files, and open runs of durable tools, of which nothing is
undone. The replicas go on without a restart.`,
		Example: `  mcp-metatool fleet init
  mcp-metatool fleet init --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.Settings.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&c.yes, "yes", false, "make them without asking")
	cmd.Flags().BoolVar(&c.asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&c.wait, "connect", 30*time.Second, "how long to wait for the store, at most")
	return cmd
}

func (c *fleetInit) run(cmd *cobra.Command) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	if len(cfg.Store.NATS) == 0 {
		return cli.Usage(fmt.Errorf("fleet: %w", host.ErrNoFleet))
	}
	ctx := cmd.Context()
	if !c.yes {
		asker := cli.FindAsker(cmd)
		if asker == nil {
			return cli.Usage(errors.New("fleet init: nothing was made: there is no terminal to ask on (--yes makes the streams without asking)"))
		}
		yes, err := asker.Confirm(ctx, fmt.Sprintf("Make those streams of the fleet %s that NATS does not have, empty?", display.Line(cfg.Store.Prefix, 40)))
		if err != nil {
			return err
		}
		if !yes {
			return cli.Failed(nil)
		}
	}
	connect, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	made, err := host.InitFleet(connect, cfg, c.Logger(cfg))
	if err != nil {
		return cli.Failed(fmt.Errorf("fleet init: %w (%d streams were made)", err, len(made)))
	}
	if c.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), map[string][]string{"made": append([]string{}, made...)})
	}
	if len(made) == 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "all streams are there")
	}
	for _, name := range made {
		if err == nil {
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "made %s\n", display.EscapeLine(name))
		}
	}
	return err
}
