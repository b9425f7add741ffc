package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

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
				return writeJSON(cmd.OutOrStdout(), e)
			}
			return showApproval(cmd.OutOrStdout(), e)
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = choices(v.openApprovals).complete(1)
	return cmd
}

// showApproval writes all that is known about an entry. Texts of others are escaped, so that
// none can be taken for a line of ours.
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
	line("asked", stamp(e.Created))
	line("until", stamp(e.Expires))
	if d := e.Decided; d != nil {
		line("decided", fmt.Sprintf("%s by %s", stamp(d.At), display.EscapeLine(d.By)))
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
	for text := range strings.Lines(string(indentJSON(q.Arguments))) {
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
	completeFlag(cmd, "remember", oneOf(string(approval.ForValue), string(approval.ForShape)))
	cmd.ValidArgsFunction = choices(d.openApprovals).complete(1)
	return cmd
}

func (d *decision) decide(cmd *cobra.Command, id string) error {
	if err := d.open(cmd.Context()); err != nil {
		return err
	}
	defer d.queue.Close()
	life, err := d.lifetime()
	if err != nil {
		return &exitError{exitUsage, err}
	}
	v := approval.Verdict{Allow: d.verb == "allow", Remember: approval.Remember(d.remember), Note: d.note, By: terminalUser()}
	e, err := d.queue.Decide(cmd.Context(), id, v, approval.HowQueue, life)
	if err != nil {
		return unknownApproval(err)
	}
	if d.asJSON {
		return writeJSON(cmd.OutOrStdout(), e)
	}
	remembered := ""
	if e.Decided.Remember != approval.Once {
		remembered = fmt.Sprintf(", and remembered for the same %s for %s", e.Decided.Remember, units.FormatDuration(life))
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s %s%s\n", e.ID, display.EscapeLine(e.Question.Target()), e.State, remembered)
	return err
}

// lifetime returns how long the decision is remembered, 0 if it is not.
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
				return writeJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the decision about %s is forgotten\n", r.ID, display.EscapeLine(r.Subject.Target))
			return err
		},
	}
	v.addFlags(cmd)
	cmd.ValidArgsFunction = choices(v.rememberedApprovals).complete(1)
	return cmd
}
