package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// fleetCommand is about the processes that share a store in NATS. It starts no server, and
// works on any machine that has the configuration.
func fleetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Show the replicas that share a store in NATS, drain them, and make its streams",
		Args:  onlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return &exitError{exitUsage, errors.New("fleet: choose one of: fleet status, fleet drain [REPLICA], fleet keys, fleet init")}
		},
	}
	cmd.AddCommand(fleetStatusCommand(), fleetDrainCommand(), fleetKeysCommand(), fleetInitCommand())
	return cmd
}

// fleetView has what the verbs of fleet have in common.
type fleetView struct {
	settings
	asJSON bool
	wait   time.Duration // for the store

	cfg   *config.Config
	log   *slog.Logger
	fleet *fleet.Fleet
}

func (v *fleetView) addFlags(cmd *cobra.Command) {
	v.settings.addFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.Flags().DurationVar(&v.wait, "connect", 10*time.Second, "how long to wait for the store, at most")
}

// open opens the fleet of the configuration, and finds out how its replicas are. The caller
// must call end, also after an error.
func (v *fleetView) open(cmd *cobra.Command) (end func(), err error) {
	end = func() {}
	if v.cfg, err = v.load(); err != nil {
		return end, err
	}
	v.log = v.logger(v.cfg)
	v.fleet, err = host.ObserveFleet(v.cfg, v.log)
	if errors.Is(err, host.ErrNoFleet) {
		return end, &exitError{exitUsage, fmt.Errorf("fleet: %w", err)}
	}
	if err != nil {
		return end, err
	}
	end = func() { v.fleet.Close() }
	defer busy(cmd, "asking the replicas")()
	connect, cancel := context.WithTimeout(cmd.Context(), v.wait)
	defer cancel()
	err = v.fleet.Reached(connect)
	switch {
	case errors.Is(err, store.ErrMissing):
		return end, &exitError{exitFailed, err}
	case cmd.Context().Err() != nil:
		return end, context.Cause(cmd.Context())
	case connect.Err() != nil:
		return end, &exitError{exitFailed, fmt.Errorf("the store of the fleet at %s has not answered within %v (the log above may say why; --connect waits longer)", strings.Join(v.cfg.Store.NATS, ", "), v.wait)}
	case err != nil:
		return end, &exitError{exitFailed, fmt.Errorf("the store of the fleet at %s: %w", strings.Join(v.cfg.Store.NATS, ", "), err)}
	}
	refresh, cancel := context.WithTimeout(cmd.Context(), refreshTime)
	defer cancel()
	if err := v.fleet.Refresh(refresh); err != nil && cmd.Context().Err() != nil {
		return end, err
	}
	return end, nil
}

// refreshTime bounds how long a replica is waited for: it is longer than it takes to find out
// that one is silent.
const refreshTime = 2 * fleet.DefaultTTL

// find returns the replica that a word names: an id or its beginning, or a name that no other
// replica has which lives.
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
		return fleet.Replica{}, &exitError{exitFailed, fmt.Errorf("no replica has the name or id %q (mcp-metatool fleet status lists them)", display.Clip(word, 100))}
	}
	ids := make([]string, len(found))
	for i, r := range found {
		ids[i] = shortReplica(r.ID)
	}
	return fleet.Replica{}, &exitError{exitFailed, fmt.Errorf("%d replicas are called %q (name one of these ids: %s)", len(found), display.Clip(word, 100), strings.Join(ids, ", "))}
}

// shortReplica returns the beginning of an id, which is enough for people.
func shortReplica(id string) string { return id[:min(len(id), 8)] }
