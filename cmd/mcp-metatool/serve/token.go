package serve

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make, list and remove the tokens of clients over HTTP",
		Long: `Make, list and remove the tokens with which clients connect over HTTP. The
configuration gets the SHA-256 digest of a token, its name, when it expires, and what
its clients may do. Running proxies learn of a change by mcp-metatool reload.`,
		Args: cli.OnlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage(errors.New("token: choose one of: token new NAME, token list, token remove NAME"))
		},
	}
	cmd.AddCommand(tokenNewCommand(), tokenListCommand(), tokenRemoveCommand())
	return cmd
}

// tokenEdit is a run of token new or token remove.
type tokenEdit struct {
	cli.Settings
	cli.Consent
	expires      string
	own, noSave  bool
	expose, hide []string
	printing     bool
}

func tokenNewCommand() *cobra.Command {
	e := &tokenEdit{}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make a token, and add its digest to the configuration",
		Long: `Make a random token and show it once, and add its digest to [http] in the
configuration. The change is shown, and you are asked. With --print the entry is
printed instead, for a configuration that is kept elsewhere.`,
		Example: `  mcp-metatool token new laptop
  mcp-metatool token new ci --expires 90d --no-save --hide 'db.*'
  mcp-metatool token new guest --tools own --expose 'github.get_*' --expose 'builtin.search_tools'`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.add(args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&e.expires, "expires", "", "the token is refused from this `TIME` on: 90d, 2027-01-01, 2027-01-01T08:00:00Z")
	f.StringArrayVar(&e.expose, "expose", nil, "clients see only what matches the `PATTERN` of SERVER.NAME, tools.NAME or builtin.NAME (several times)")
	f.StringArrayVar(&e.hide, "hide", nil, "neither clients nor their scripts can use what matches the `PATTERN` (several times)")
	saved := string(config.SharedTools)
	f.StringVar(&saved, "tools", saved, "`WHICH` saved tools clients have: shared or own")
	cli.CompleteFlag(cmd, "tools", cli.OneOf(string(config.SharedTools), string(config.OwnTools)))
	f.BoolVar(&e.noSave, "no-save", false, "clients cannot save and delete tools")
	f.BoolVar(&e.printing, "print", false, "print the entry, and write nothing")
	e.Settings.AddFlags(cmd, cli.Silent)
	e.Consent.AddFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("print", "yes")
	cmd.MarkFlagsMutuallyExclusive("print", "dry-run")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch config.SavedTools(saved) {
		case config.SharedTools, config.OwnTools:
			e.own = saved == string(config.OwnTools)
			return nil
		}
		return cli.Usage(fmt.Errorf("--tools %s: not one of shared, own", saved))
	}
	return cmd
}

// newSecret returns an unguessable token: 52 letters and digits with 260 bits.
func newSecret() string { return rand.Text() + rand.Text() }

// add makes a token.
func (e *tokenEdit) add(name string) error {
	e.Consent.Begin(e.Cmd)
	secret := newSecret()
	token := bearer.Token{Name: name, Digest: bearer.DigestOf(secret), Rights: bearer.Rights{NoSave: e.noSave, Expose: e.expose, Hide: e.hide}}
	if e.own {
		token.Rights.Own = name
	}
	var err error
	if token.Expires, err = parseExpiry(e.expires, time.Now()); err != nil {
		return cli.Usage(err)
	}
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.Cmd.Context(), Flag: e.Config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if e.printing {
		f, err = edit.New("config.toml", nil), nil
	}
	if err != nil {
		return cli.Usage(err)
	}
	if err := f.AddToken(token); err != nil {
		return cli.Usage(err)
	}
	cfg, err := f.Parse(opts)
	if err != nil {
		return cli.Usage(fmt.Errorf("nothing was written: %w", err))
	}
	if e.printing {
		if _, err := e.Cmd.OutOrStdout().Write(f.Text()); err != nil {
			return err
		}
		return e.show(name, secret)
	}
	e.Masked = f.Masker(opts).Mask
	written, err := e.Apply(e.Cmd.Context(), e.Cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err != nil || !written {
		return err
	}
	if len(cfg.HTTP.Tokens) == 1 {
		fmt.Fprintln(e.Cmd.ErrOrStderr(), "note: it is the first token; from the next start of serve on, clients need one")
	}
	return e.show(name, secret)
}

// show shows a new token.
func (e *tokenEdit) show(name, secret string) error {
	_, err := fmt.Fprintf(e.Cmd.OutOrStdout(), "The token %s, which is not shown again:\n%s\n", name, secret)
	return err
}

// parseExpiry parses the value of --expires: "" is never, a duration is from now.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} { // as in the configuration
		if at, err := time.Parse(layout, text); err == nil {
			return at, notPast(text, at, now)
		}
	}
	if days, err := strconv.Atoi(strings.TrimSuffix(text, "d")); err == nil && strings.HasSuffix(text, "d") && days > 0 && days < 100_000 {
		return now.AddDate(0, 0, days).Truncate(time.Second), nil
	}
	d, err := units.ParseDuration(text)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("--expires %s: not a date, a time with a zone, or a duration (write 2027-01-01, 2027-01-01T08:00:00Z or 90d)", text)
	}
	return now.Add(d).Truncate(time.Second), nil
}

func notPast(text string, at, now time.Time) error {
	if !at.After(now) {
		return fmt.Errorf("--expires %s: that is not in the future", text)
	}
	return nil
}

func tokenRemoveCommand() *cobra.Command {
	e := &tokenEdit{}
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a token from the configuration",
		Long: `Remove a token from the configuration. The change is shown, and you are asked.
Sessions that were begun with the token end with the next mcp-metatool reload, or
restart. Saved tools that only its clients had stay where they are.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return e.remove(args[0]) },
	}
	cmd.ValidArgsFunction = cli.Choices(e.Tokens).Complete(1)
	e.Settings.AddFlags(cmd, cli.Silent)
	e.Consent.AddFlags(cmd)
	return cmd
}

// remove removes a token.
func (e *tokenEdit) remove(name string) error {
	e.Consent.Begin(e.Cmd)
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.Cmd.Context(), Flag: e.Config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if err != nil {
		return cli.Usage(err)
	}
	err = f.RemoveToken(name)
	if errors.Is(err, edit.ErrNoToken) {
		if cfg, failed := f.Parse(opts); failed == nil {
			if near := nearest.Names(name, cli.TokenNames(cfg)); near != nil {
				err = fmt.Errorf("%w (did you mean %s?)", err, strings.Join(near, ", "))
			}
		}
	}
	if err != nil {
		return cli.Usage(err)
	}
	cfg, err := f.Parse(opts)
	if err != nil {
		return cli.Usage(fmt.Errorf("nothing was written: %w", err))
	}
	e.Masked = f.Masker(opts).Mask
	written, err := e.Apply(e.Cmd.Context(), e.Cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err != nil || !written {
		return err
	}
	e.afterRemoval(e.Cmd.ErrOrStderr(), cfg, name)
	_, err = fmt.Fprintf(e.Cmd.OutOrStdout(), "removed the token %s (running proxies: mcp-metatool reload)\n", name)
	return err
}

// afterRemoval names the remains of a removed token.
func (e *tokenEdit) afterRemoval(w io.Writer, cfg *config.Config, name string) {
	if len(cfg.HTTP.Tokens) == 0 {
		fmt.Fprintln(w, "note: no tokens are left; proxies that run keep theirs until they are restarted")
	}
	if dir := host.SavedTools(cfg, name).Folder(); cli.IsDirectory(dir) {
		fmt.Fprintf(w, "note: the saved tools of its clients are still in %s\n", dir)
	}
}

// recentUse is how far back token list looks for the last use of a token.
const recentUse = 30 * 24 * time.Hour

// listedToken is a token in the output of token list --json.
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
	s := &cli.Settings{}
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
			cfg, err := s.Load()
			if err != nil {
				return err
			}
			done := cli.Busy(cmd, "reading the journal in "+cfg.JournalDir())
			runs, end := host.OpenJournal(cfg, s.Logger(cfg))
			defer end()
			used := lastUses(cmd.Context(), cfg, runs, time.Now())
			done()
			if cause := context.Cause(cmd.Context()); cause != nil {
				return cause
			}
			return printTokens(cmd.OutOrStdout(), listTokens(cfg, used, time.Now()), asJSON)
		},
	}
	s.AddFlags(cmd, cli.Silent)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// lastUses returns when each token was last used, by name, as far as the journal says.
func lastUses(ctx context.Context, cfg *config.Config, runs journal.Reader, now time.Time) map[string]time.Time {
	used := map[string]time.Time{}
	wanted := len(cli.TokenNames(cfg))
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
		return cli.WriteJSON(w, list)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no tokens (make one: mcp-metatool token new NAME)")
		return err
	}
	t := cli.NewTable(w)
	t.Head("NAME", "STATE", "EXPIRES", "LAST USED", "RIGHTS")
	moment := func(at *time.Time, none string) string {
		if at == nil {
			return none
		}
		return display.Time(*at, time.Second)
	}
	for _, token := range list {
		t.Add(cmp.Or(token.Name, "(no name)"), token.State, moment(token.Expires, "never"), moment(token.LastUsed, ""), token.rights())
	}
	return t.Flush()
}

// rights returns the rights of the clients with a token, in words.
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
