package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli/control"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// fleetDrain is the verb fleet drain.
type fleetDrain struct {
	fleetView
	finish time.Duration // how long to wait for requests and runs
	end    bool
}

func fleetDrainCommand() *cobra.Command {
	d := &fleetDrain{}
	cmd := &cobra.Command{
		Use:   "drain [REPLICA]",
		Short: "Let a replica finish what it does, and take nothing new",
		Long: `Let a replica drain: /readyz answers 503 at once, runs of durable tools that no client waits
for go on elsewhere, and after ten seconds no session begins there any more. Requests in
flight are answered. REPLICA is a name or an id from fleet status, or its beginning. It is
reached through the store, from any machine.

Without REPLICA, the servers of this configuration on this machine drain. They are reached
without the store, which may be away. This is what to run before a container is stopped.

The command waits until nothing is going on there, at most for --wait, and exits with 1 if
something still is. The process goes on, drained, until it is stopped; with --end it ends by
itself when nothing is going on.`,
		Example: `  mcp-metatool fleet drain --wait 25s
  mcp-metatool fleet drain metatool-2 --end`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return d.here(cmd)
			}
			return d.there(cmd, args[0])
		},
	}
	d.Settings.AddFlags(cmd, cli.Silent)
	cmd.Flags().DurationVar(&d.fleetView.wait, "connect", 10*time.Second, "with REPLICA: how long to wait for the store, at most")
	cmd.Flags().DurationVar(&d.finish, "wait", 30*time.Second, "wait so long for what is going on; 0: not at all")
	cmd.Flags().BoolVar(&d.end, "end", false, "end the process when nothing is going on any more")
	return cmd
}

// busyError says that a replica has not drained in time.
func busyError(name string, busy int64) error {
	if busy == 0 {
		return cli.Failed(fmt.Errorf("%s drains, but has not ended, or may still get new sessions (wait longer: --wait)", name))
	}
	return cli.Failed(fmt.Errorf("%s drains, but %d requests or runs are still going on there", name, busy))
}

// lookAgain is how often a replica is asked whether something is still going on.
const lookAgain = 250 * time.Millisecond

// here drains the servers on this machine, by their control sockets.
func (d *fleetDrain) here(cmd *cobra.Command) error {
	cfg, err := d.Load()
	if err != nil {
		return err
	}
	run, err := control.OpenFolder(cfg.Store.Dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.NoServer(nil, cfg.Store.Dir)
	}
	if err != nil {
		return cli.Usage(err)
	}
	defer run.Close()
	ctx := cmd.Context()
	defer cli.Busy(cmd, "draining")()
	until := time.Now().Add(d.finish)
	for first := true; ; first = false {
		all, refused := d.askHere(ctx, run)
		name := fmt.Sprintf("%d servers here", all.count)
		if all.count == 1 {
			name = "the server here"
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case refused:
			return cli.Usage(errors.New("fleet drain: the server here is in no fleet (set nats in [store], or just stop it)"))
		case all.count == 0 && first:
			return cli.NoServer(nil, run.Path)
		case all.count == 0: // with --end
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "drained and ended")
			return err
		case d.finish == 0:
			return say(cmd.OutOrStdout(), name, "drains")
		case all.going == 0 && all.settled && !d.end:
			return say(cmd.OutOrStdout(), name, drainedText)
		case time.Now().After(until):
			return busyError(name, all.going)
		}
		pause(ctx, lookAgain)
	}
}

// drainingHere sums up the answers of the servers on this machine.
type drainingHere struct {
	count   int
	going   int64
	settled bool
}

// askHere asks the servers here to drain, which is harmless for a draining server. refused says
// that servers run here, but none in a fleet.
func (d *fleetDrain) askHere(ctx context.Context, run *control.Folder) (all drainingHere, refused bool) {
	all.settled = true
	for _, name := range run.Sockets() {
		answer, err := run.Ask(ctx, name, control.Request{Config: cli.Absolute(d.Config), Drain: true, End: d.end})
		switch {
		case err != nil || answer.Drain == nil:
			continue // the server has ended, or has another configuration
		case !answer.Drain.InFleet:
			refused = true
			continue
		}
		all.count++
		all.going += answer.Drain.Going
		all.settled = all.settled && answer.Drain.Settled
	}
	return all, refused && all.count == 0
}

// there drains a replica by the store.
func (d *fleetDrain) there(cmd *cobra.Command, word string) error {
	end, err := d.open(cmd)
	defer end()
	if err != nil {
		return err
	}
	r, err := d.find(word)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("replica %s (%s)", shortReplica(r.ID), display.Line(r.Name, 60))
	if r.State != fleet.Live {
		return cli.Failed(fmt.Errorf("%s is %v: there is no running process to drain", name, r.State))
	}
	if last := d.lastOf(r); last != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "mcp-metatool: %s\n", display.Text(last))
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), max(d.finish, refreshTime))
	defer cancel()
	if err := d.fleet.Tell(ctx, r.ID, d.end); err != nil {
		return cli.Failed(fmt.Errorf("%s: the store of the fleet: %w", name, err))
	}
	if d.finish == 0 {
		return say(cmd.OutOrStdout(), name, "drains")
	}
	defer cli.Busy(cmd, "draining "+name)()
	for until := time.Now().Add(d.finish); ; {
		if err := d.fleet.Refresh(ctx); err != nil && cmd.Context().Err() != nil {
			return context.Cause(cmd.Context())
		}
		now := d.fleet.Replica(r.ID)
		going := goingOn(&now)
		switch {
		case now.State == fleet.Gone:
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s has drained and ended\n", name)
			return err
		case now.State == fleet.Silent:
			return cli.Failed(fmt.Errorf("%s no longer answers", name))
		case now.Draining && going == 0 && !d.end:
			return say(cmd.OutOrStdout(), name, drainedText)
		case time.Now().After(until):
			return busyError(name, going)
		}
		pause(ctx, 2*lookAgain)
	}
}

// lastOf names the loss if a replica is the last replica for requests, or for a guest.
func (d *fleetDrain) lastOf(r fleet.Replica) string {
	others := slices.DeleteFunc(d.fleet.Replicas(), func(o fleet.Replica) bool {
		return o.ID == r.ID || o.State != fleet.Live || o.Draining
	})
	sameGuest := slices.ContainsFunc(others, func(o fleet.Replica) bool { return o.Guest == r.Guest })
	switch {
	case len(others) == 0:
		return "it is the last replica: nobody takes requests when it has drained"
	case !sameGuest:
		return fmt.Sprintf("it is the last replica with the guest %.8s: open runs of durable tools that were begun with it wait until there is one again", r.Guest)
	}
	return ""
}

// goingOn returns a replica's number of requests and runs.
func goingOn(r *fleet.Replica) int64 {
	return r.Counts["settling"] + r.Counts["requests"] + r.Counts["runs"] + r.Counts["durable_runs_taken_over"]
}

const drainedText = "has drained: nothing is going on there, and no session begins there"

func say(w io.Writer, who, what string) error {
	_, err := fmt.Fprintf(w, "%s %s\n", who, what)
	return err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
