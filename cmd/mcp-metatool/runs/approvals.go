package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// approvalsCommand works on the queue of approvals, in files of the store, or in the store of the
// fleet. approvals starts nothing, and needs no running server.
func approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for your approval, and allow or deny them",
		Args:  cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("approvals: choose one of: approvals list, approvals show ID, approvals allow ID, approvals deny ID, approvals forget ID"))
		},
	}
	cmd.AddCommand(approvalsListCommand(), approvalsShowCommand(), decideCommand("allow"), decideCommand("deny"), approvalsForgetCommand())
	return cmd
}

// approvalsView holds the common parts of the verbs of approvals.
type approvalsView struct {
	cli.Settings
	asJSON bool
	cfg    *config.Config
	queue  *approval.Queue
}

func (v *approvalsView) addFlags(cmd *cobra.Command) {
	v.Settings.AddFlags(cmd, slog.LevelWarn)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
}

// open opens the queue of the configuration, which the caller must Close.
func (v *approvalsView) open(ctx context.Context) (err error) {
	if v.cfg, err = v.Load(); err == nil {
		v.queue, err = host.OpenQueue(ctx, v.cfg, v.Logger(v.cfg))
	}
	return err
}

// unknownApproval gives an error about an unknown id its exit code.
func unknownApproval(err error) error {
	if errors.Is(err, approval.ErrUnknown) {
		return cli.Failed(fmt.Errorf("approvals: %w", err))
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
		return cli.WriteJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no calls wait for approval")
		return err
	}
	t := cli.NewTable(cmd.OutOrStdout())
	t.Head("ID", "SINCE", "STATE", "CALL", "CLIENT", "RULE", "")
	for _, e := range list {
		t.Add(approvalRow(e)...)
	}
	return t.Flush()
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
				err = cli.WriteJSON(out, e)
			} else {
				_, err = fmt.Fprintf(out, "%s  %s  %s  %s\n", e.ID, cli.Stamp(e.Created), display.Line(e.Question.Target(), 60), display.Line(display.EscapeLine(string(e.Question.Arguments)), 100))
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
		return cli.WriteJSON(cmd.OutOrStdout(), list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "no decisions are remembered")
		return err
	}
	t := cli.NewTable(cmd.OutOrStdout())
	t.Head("ID", "UNTIL", "DECISION", "CALL", "FOR", "CLIENT", "BY", "RULE")
	for _, r := range list {
		decision := display.Cell{Text: "deny", Style: display.Bad}
		if r.Allow {
			decision = display.Cell{Text: "allow", Style: display.Good}
		}
		client := "any without a token"
		if r.Subject.Token {
			client = "token " + display.Line(r.Subject.Client, 24)
		}
		t.Add(r.ID, r.Expires, decision, display.Line(r.Subject.Target, 60), "same "+string(r.Scope), client, display.Line(r.By, 40), display.Line(r.Subject.Rule, 40))
	}
	return t.Flush()
}

// openApprovals completes ids of the queue, and rememberedApprovals ids of remembered decisions.
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

func approvalsShowCommand() *cobra.Command {
	v := &approvalsView{}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a call that waits for approval, with all of its arguments",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.open(cmd.Context()); err != nil {
				return err
			}
			defer v.queue.Close()
			e, err := v.queue.Find(cmd.Context(), args[0])
			if err != nil {
				return unknownApproval(err)
			}
			if v.asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), e)
			}
			return showApproval(cmd.OutOrStdout(), e)
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = cli.Choices(v.openApprovals).Complete(1)
	return cmd
}

// showApproval writes all known facts about an entry. Texts of clients and scripts are escaped, so
// that no text can pass for a line of ours.
func showApproval(w io.Writer, e approval.Entry) error {
	q := e.Question
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, text)
		}
	}
	line("approval", e.ID)
	line("state", string(e.State))
	line("asked", cli.Stamp(e.Created))
	line("until", cli.Stamp(e.Expires))
	if d := e.Decided; d != nil {
		line("decided", fmt.Sprintf("%s by %s", cli.Stamp(d.At), display.EscapeLine(d.By)))
		line("note", display.EscapeLine(d.Note))
	}
	line("call", display.EscapeLine(q.Target()))
	line("about it", display.EscapeLine(q.Description))
	line("caller", q.Caller())
	line("run", q.Run)
	line("rule", display.EscapeLine(q.Rule))
	line("reason", display.EscapeLine(q.Reason))
	line("digest", q.Digest)
	b.WriteString("arguments\n")
	for text := range strings.Lines(string(cli.IndentJSON(q.Arguments))) {
		b.WriteString("  " + display.EscapeLine(strings.TrimSuffix(text, "\n")) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// decision is the flags of allow and deny.
type decision struct {
	approvalsView
	verb     string
	remember string
	life     string
	note     string
}

// decideCommand makes the verbs allow and deny.
func decideCommand(verb string) *cobra.Command {
	d := &decision{verb: verb}
	cmd := &cobra.Command{
		Use:   verb + " ID",
		Short: map[string]string{"allow": "Allow a call that waits for approval", "deny": "Deny a call that waits for approval"}[verb],
		Long: map[string]string{"allow": "Allow a call that waits for approval, once.", "deny": "Deny a call that waits for approval."}[verb] + `

--remember also decides about later calls of the same tool, for as long as the setting
remember in [approval] says: those with the same arguments (--remember, or
--remember=value), or those whose arguments have the same shape (--remember=shape). It
counts only for the same client, rule and definition of the tool.`,
		Example: "  mcp-metatool approvals " + verb + " k7m2q\n  mcp-metatool approvals " + verb + " k7m2q --remember",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return d.decide(cmd, args[0]) },
	}
	d.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&d.remember, "remember", "", "decide about later calls, too, with the same `WHAT`: value, shape")
	f.Lookup("remember").NoOptDefVal = string(approval.ForValue)
	f.StringVar(&d.life, "for", "", "remember it for this `TIME`, such as 30m (default: remember in [approval], which is also the most)")
	f.StringVar(&d.note, "note", "", "a `TEXT` for the journal, which the caller gets if the call is denied")
	cli.CompleteFlag(cmd, "remember", cli.OneOf(string(approval.ForValue), string(approval.ForShape)))
	cmd.ValidArgsFunction = cli.Choices(d.openApprovals).Complete(1)
	return cmd
}

func (d *decision) decide(cmd *cobra.Command, id string) error {
	if err := d.open(cmd.Context()); err != nil {
		return err
	}
	defer d.queue.Close()
	life, err := d.lifetime()
	if err != nil {
		return cli.Usage(err)
	}
	v := approval.Verdict{Allow: d.verb == "allow", Remember: approval.Remember(d.remember), Note: d.note, By: cli.TerminalUser()}
	e, err := d.queue.Decide(cmd.Context(), id, v, approval.HowQueue, life)
	if err != nil {
		return unknownApproval(err)
	}
	if d.asJSON {
		return cli.WriteJSON(cmd.OutOrStdout(), e)
	}
	remembered := ""
	if e.Decided.Remember != approval.Once {
		remembered = fmt.Sprintf(", and remembered for the same %s for %s", e.Decided.Remember, units.FormatDuration(life))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s%s\n", e.ID, display.EscapeLine(e.Question.Target()), e.State, remembered)
	return err
}

// lifetime returns how long the decision is remembered, 0 if the decision is not remembered.
func (d *decision) lifetime() (time.Duration, error) {
	switch approval.Remember(d.remember) {
	case approval.Once:
		if d.life != "" {
			return 0, fmt.Errorf("--for %s says how long to remember the decision, without --remember (add it)", d.life)
		}
		return 0, nil
	case approval.ForValue, approval.ForShape:
	default:
		return 0, fmt.Errorf("--remember=%s: not one of value, shape", d.remember)
	}
	most := d.cfg.Approval.Remember
	if most <= 0 {
		return 0, fmt.Errorf("--remember: nothing is remembered (remember in [approval] is 0)")
	}
	if d.life == "" {
		return most, nil
	}
	life, err := units.ParseDuration(d.life)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--for %s: %w", d.life, err)
	case life <= 0 || life > most:
		return 0, fmt.Errorf("--for %s: not between 0 and %s (remember in [approval])", d.life, units.FormatDuration(most))
	}
	return life, nil
}

func approvalsForgetCommand() *cobra.Command {
	v := &approvalsView{}
	cmd := &cobra.Command{
		Use:        "forget ID",
		SuggestFor: []string{"rm", "remove", "delete"},
		Short:      "Forget a decision that is remembered",
		Args:       cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := v.open(cmd.Context()); err != nil {
				return err
			}
			defer v.queue.Close()
			r, err := v.queue.Forget(cmd.Context(), args[0])
			if err != nil {
				return unknownApproval(err)
			}
			if v.asJSON {
				return cli.WriteJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the decision about %s is forgotten\n", r.ID, display.EscapeLine(r.Subject.Target))
			return err
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = cli.Choices(v.rememberedApprovals).Complete(1)
	return cmd
}
