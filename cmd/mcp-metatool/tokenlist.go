package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// recentUse is how far back token list looks for the last use of a token.
const recentUse = 30 * 24 * time.Hour

// listedToken is one token in the output of token list --json.
type listedToken struct {
	Name     string            `json:"name,omitempty"`
	State    string            `json:"state"` // stateValid, stateExpired
	Expires  *time.Time        `json:"expires,omitempty"`
	Save     bool              `json:"save"`
	Tools    config.SavedTools `json:"tools"`
	Expose   []string          `json:"expose,omitempty"`
	Hide     []string          `json:"hide,omitempty"`
	LastUsed *time.Time        `json:"lastUsed,omitempty"` // a call in the journal
}

// States of a token in token list.
const (
	stateValid   = "valid"
	stateExpired = "expired"
)

func tokenListCommand() *cobra.Command {
	s := &settings{}
	asJSON := false
	cmd := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"ls"},
		Short:      "List the tokens of clients over HTTP: names, expiry, rights, last use",
		Long: `List the tokens of clients over HTTP, in the order of the configuration: their names,
when they expire, what their clients may do, and when a call or run of one was last
recorded in the journal, if that was in the last 30 days. Tokens are not shown.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := s.load()
			if err != nil {
				return err
			}
			done := busy(cmd, "reading the journal in "+cfg.JournalDir())
			runs, end := host.OpenJournal(cfg, s.logger(cfg))
			defer end()
			used := lastUses(cmd.Context(), cfg, runs, time.Now())
			done()
			if cause := context.Cause(cmd.Context()); cause != nil {
				return cause
			}
			return printTokens(cmd.OutOrStdout(), listTokens(cfg, used, time.Now()), asJSON)
		},
	}
	s.addFlags(cmd, silent)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lastUses returns when each token was last used, by name, as far as the journal says.
func lastUses(ctx context.Context, cfg *config.Config, runs journal.Reader, now time.Time) map[string]time.Time {
	used := map[string]time.Time{}
	wanted := len(tokenNames(cfg))
	note := func(seen map[string]bool, c journal.Client, at time.Time) (more bool) {
		if c.Token != "" && !seen[c.Token] {
			seen[c.Token] = true
			if at.After(used[c.Token]) {
				used[c.Token] = at
			}
		}
		return len(seen) < wanted
	}
	f := journal.Filter{Since: now.Add(-recentUse)}
	seen := map[string]bool{}
	for rec, err := range runs.Scan(ctx, f) { // the newest first
		if err == nil && !note(seen, rec.Client, rec.Start) {
			break
		}
	}
	seen = map[string]bool{}
	for p, err := range runs.ScanProxied(ctx, f) {
		if err == nil && !note(seen, p.Client, p.Start) {
			break
		}
	}
	return used
}

func listTokens(cfg *config.Config, used map[string]time.Time, now time.Time) []listedToken {
	list := []listedToken{}
	for _, token := range cfg.HTTP.Tokens {
		list = append(list, listedTokenOf(token, used, now))
	}
	return list
}

func listedTokenOf(token bearer.Token, used map[string]time.Time, now time.Time) listedToken {
	r := token.Rights
	t := listedToken{Name: token.Name, State: stateValid, Save: !r.NoSave, Tools: config.SharedTools, Expose: r.Expose, Hide: r.Hide}
	if !token.Expires.IsZero() {
		t.Expires = &token.Expires
	}
	if token.Expired(now) {
		t.State = stateExpired
	}
	if r.Own != "" {
		t.Tools = config.OwnTools
	}
	if at, ok := used[token.Name]; ok && token.Name != "" {
		at = at.UTC()
		t.LastUsed = &at
	}
	return t
}

func printTokens(w io.Writer, list []listedToken, asJSON bool) error {
	if asJSON {
		return writeJSON(w, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no tokens (make one: mcp-metatool token new NAME)")
		return err
	}
	t := newTable(w)
	t.head("NAME", "STATE", "EXPIRES", "LAST USED", "RIGHTS")
	moment := func(at *time.Time, none string) string {
		if at == nil {
			return none
		}
		return display.Time(*at, time.Second)
	}
	for _, token := range list {
		t.row(cmp.Or(token.Name, "(no name)"), token.State, moment(token.Expires, "never"), moment(token.LastUsed, ""), token.rights())
	}
	return t.flush()
}

// rights returns what the clients with a token may do, in words.
func (t *listedToken) rights() string {
	var all []string
	if len(t.Expose) > 0 {
		all = append(all, "sees only "+strings.Join(t.Expose, ", "))
	}
	if len(t.Hide) > 0 {
		all = append(all, "not "+strings.Join(t.Hide, ", "))
	}
	if t.Tools == config.OwnTools {
		all = append(all, "own saved tools")
	}
	if !t.Save {
		all = append(all, "cannot save tools")
	}
	if all == nil {
		return "all"
	}
	return strings.Join(all, "; ")
}
