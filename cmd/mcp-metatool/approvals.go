package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// approvalsCommand works on the queue of approvals, which is in files of the store, or in the
// store of the fleet. It starts nothing, and needs no running server.
func approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for your approval, and allow or deny them",
		Args:  onlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return &exitError{exitUsage, errors.New("approvals: choose one of: approvals list, approvals show ID, approvals allow ID, approvals deny ID, approvals forget ID")}
		},
	}
	cmd.AddCommand(approvalsListCommand(), approvalsShowCommand(), decideCommand("allow"), decideCommand("deny"), approvalsForgetCommand())
	return cmd
}

// approvalsView has what the verbs of approvals have in common.
type approvalsView struct {
	settings
	asJSON bool
	cfg    *config.Config
	queue  *approval.Queue
}

func (v *approvalsView) addFlags(cmd *cobra.Command) {
	v.settings.addFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
}

// open opens the queue of the configuration, which the caller must Close.
func (v *approvalsView) open(ctx context.Context) (err error) {
	if v.cfg, err = v.load(); err == nil {
		v.queue, err = host.OpenQueue(ctx, v.cfg, v.logger(v.cfg))
	}
	return err
}

// unknownApproval gives an error about an unknown id its exit code.
func unknownApproval(err error) error {
	if errors.Is(err, approval.ErrUnknown) {
		return &exitError{exitFailed, fmt.Errorf("approvals: %w", err)}
	}
	return err
}

func approvalsListCommand() *cobra.Command {
	v := &approvalsView{}
	var remembered, watch bool
	cmd := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"ls"},
		Short:      "List the calls that wait for approval, or what is remembered",
		Long: `List the calls in the queue of approvals, the oldest first: those that wait for a decision,
and those about which somebody has decided, but that were not made again yet. --watch goes
on and shows each call that is added, until Ctrl-C.

--remembered lists the decisions that are remembered instead.`,
		Example: `  mcp-metatool approvals list
  mcp-metatool approvals list --watch
  mcp-metatool approvals list --remembered`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := v.open(cmd.Context()); err != nil {
				return err
			}
			defer v.queue.Close()
			switch {
			case remembered:
				return v.listRemembered(cmd)
			case watch:
				return v.watch(cmd)
			}
			return v.list(cmd)
		},
	}
	v.addFlags(cmd)
	cmd.Flags().BoolVar(&remembered, "remembered", false, "list the decisions that are remembered")
	cmd.Flags().BoolVar(&watch, "watch", false, "go on, and show each call that is added")
	cmd.MarkFlagsMutuallyExclusive("remembered", "watch")
	return cmd
}

func (v *approvalsView) list(cmd *cobra.Command) error {
	list, err := v.queue.List(cmd.Context())
	if err != nil {
		return err
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no calls wait for approval")
		return err
	}
	t := newTable(cmd.OutOrStdout())
	t.head("ID", "SINCE", "STATE", "CALL", "CLIENT", "RULE", "")
	for _, e := range list {
		t.row(approvalRow(e)...)
	}
	return t.flush()
}

// approvalRow returns the cells of an entry in a list.
func approvalRow(e approval.Listed) []any {
	return []any{e.ID, e.Created, approvalState(e), display.Line(e.Question.Target(), 60), approvalClient(e.Question), display.Line(e.Question.Rule, 40), display.Line(display.EscapeLine(string(e.Question.Arguments)), 60)}
}

// approvalClient names the client of a call in a list.
func approvalClient(q approval.Question) string {
	name := display.Line(cmp.Or(q.Client, "-"), 24)
	if q.Script != "" {
		name += " (" + display.Line(q.Script, 24) + ")"
	}
	return name
}

func approvalState(e approval.Listed) display.Cell {
	switch {
	case e.Waits:
		return display.Cell{Text: "waits", Style: display.Caution}
	case e.State == approval.Open:
		return display.Cell{Text: "open", Style: display.Caution}
	case e.State == approval.Allowed:
		return display.Cell{Text: "allowed", Style: display.Good}
	}
	return display.Cell{Text: string(e.State), Style: display.Bad}
}

// watchEvery is how often the queue is read for --watch.
const watchEvery = 500 * time.Millisecond

// watch shows the entries of the queue, each once, until the command is cancelled.
func (v *approvalsView) watch(cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for seen := map[string]bool{}; ; {
		list, err := v.queue.List(cmd.Context())
		if err != nil && cmd.Context().Err() == nil {
			return err
		}
		for _, e := range list {
			if seen[e.ID] || e.State != approval.Open {
				continue
			}
			seen[e.ID] = true
			if v.asJSON {
				err = writeJSON(out, e)
			} else {
				_, err = fmt.Fprintf(out, "%s  %s  %s  %s\n", e.ID, stamp(e.Created), display.Line(e.Question.Target(), 60), display.Line(display.EscapeLine(string(e.Question.Arguments)), 100))
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-cmd.Context().Done():
			return context.Cause(cmd.Context())
		}
	}
}

func (v *approvalsView) listRemembered(cmd *cobra.Command) error {
	list, err := v.queue.Remembered(cmd.Context())
	if err != nil {
		return err
	}
	if v.asJSON {
		return writeJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no decisions are remembered")
		return err
	}
	t := newTable(cmd.OutOrStdout())
	t.head("ID", "UNTIL", "DECISION", "CALL", "FOR", "CLIENT", "BY", "RULE")
	for _, r := range list {
		decision := display.Cell{Text: "deny", Style: display.Bad}
		if r.Allow {
			decision = display.Cell{Text: "allow", Style: display.Good}
		}
		client := "any without a token"
		if r.Subject.Token {
			client = "token " + display.Line(r.Subject.Client, 24)
		}
		t.row(r.ID, r.Expires, decision, display.Line(r.Subject.Target, 60), "same "+string(r.Scope), client, display.Line(r.By, 40), display.Line(r.Subject.Rule, 40))
	}
	return t.flush()
}

// terminalUser names the user of this command, for the journal.
func terminalUser() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return "user " + cmp.Or(display.Line(name, 40), "unknown") + " at the terminal"
}

// openApprovals completes ids of the queue, and rememberedApprovals those of what is remembered.
func (v *approvalsView) openApprovals(ctx context.Context, _ []string) []string {
	var ids []string
	if v.open(ctx) == nil {
		defer v.queue.Close()
		list, _ := v.queue.List(ctx)
		for _, e := range list {
			if e.State == approval.Open {
				ids = append(ids, e.ID+"\t"+e.Question.Target())
			}
		}
	}
	return ids
}

func (v *approvalsView) rememberedApprovals(ctx context.Context, _ []string) []string {
	var ids []string
	if v.open(ctx) == nil {
		defer v.queue.Close()
		list, _ := v.queue.Remembered(ctx)
		for _, r := range list {
			ids = append(ids, r.ID+"\t"+r.Subject.Target)
		}
	}
	return ids
}
