package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
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
		Args: onlyVerbs,
		RunE: func(*cobra.Command, []string) error {
			return &exitError{exitUsage, errors.New("token: choose one of: token new NAME, token list, token remove NAME")}
		},
	}
	cmd.AddCommand(tokenNewCommand(), tokenListCommand(), tokenRemoveCommand())
	return cmd
}

// tokenEdit is one run of token new or token remove.
type tokenEdit struct {
	settings
	consent
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
	completeFlag(cmd, "tools", oneOf(string(config.SharedTools), string(config.OwnTools)))
	f.BoolVar(&e.noSave, "no-save", false, "clients cannot save and delete tools")
	f.BoolVar(&e.printing, "print", false, "print the entry, and write nothing")
	e.settings.addFlags(cmd, silent)
	e.consent.addFlags(cmd)
	cmd.MarkFlagsMutuallyExclusive("print", "yes")
	cmd.MarkFlagsMutuallyExclusive("print", "dry-run")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		switch config.SavedTools(saved) {
		case config.SharedTools, config.OwnTools:
			e.own = saved == string(config.OwnTools)
			return nil
		}
		return &exitError{exitUsage, fmt.Errorf("--tools %s: not one of shared, own", saved)}
	}
	return cmd
}

// newSecret returns a token that nobody can guess: 52 letters and digits with 260 bits.
func newSecret() string { return rand.Text() + rand.Text() }

// add makes a token.
func (e *tokenEdit) add(name string) error {
	e.consent.begin(e.cmd)
	secret := newSecret()
	token := bearer.Token{Name: name, Digest: bearer.DigestOf(secret), Rights: bearer.Rights{NoSave: e.noSave, Expose: e.expose, Hide: e.hide}}
	if e.own {
		token.Rights.Own = name
	}
	var err error
	if token.Expires, err = parseExpiry(e.expires, time.Now()); err != nil {
		return &exitError{exitUsage, err}
	}
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.cmd.Context(), Flag: e.config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if e.printing {
		f, err = edit.New("config.toml", nil), nil
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := f.AddToken(token); err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, err := f.Parse(opts)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("nothing was written: %w", err)}
	}
	if e.printing {
		if _, err := e.cmd.OutOrStdout().Write(f.Text()); err != nil {
			return err
		}
		return e.show(name, secret)
	}
	e.masked = f.Masker(opts).Mask
	written, err := e.apply(e.cmd.Context(), e.cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err != nil || !written {
		return err
	}
	if len(cfg.HTTP.Tokens) == 1 {
		fmt.Fprintln(e.cmd.ErrOrStderr(), "note: it is the first token; from the next start of serve on, clients need one")
	}
	return e.show(name, secret)
}

// show shows a new token.
func (e *tokenEdit) show(name, secret string) error {
	_, err := fmt.Fprintf(e.cmd.OutOrStdout(), "The token %s, which is not shown again:\n%s\n", name, secret)
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
	cmd.ValidArgsFunction = choices(e.tokens).complete(1)
	e.settings.addFlags(cmd, silent)
	e.consent.addFlags(cmd)
	return cmd
}

// tokens returns the names of the tokens in the configuration, to complete words.
func (s *settings) tokens(ctx context.Context, _ []string) []string { return tokenNames(s.known(ctx)) }

func tokenNames(cfg *config.Config) (names []string) {
	for _, token := range cfg.HTTP.Tokens {
		if token.Name != "" {
			names = append(names, token.Name)
		}
	}
	return names
}

// ownerOf returns the name of a token that has its own saved tools, as the configuration
// writes it; "" for none.
func ownerOf(cfg *config.Config, token string) (string, error) {
	if token == "" {
		return "", nil
	}
	if err := bearer.CheckName(token); err != nil {
		return "", fmt.Errorf("--token: %q %w", token, err)
	}
	for i := range cfg.HTTP.Tokens {
		if t := &cfg.HTTP.Tokens[i]; strings.EqualFold(t.Name, token) {
			if t.Rights.Own == "" && !hadOwnTools(cfg, t.Name) {
				return "", fmt.Errorf("--token %s: it shares the saved tools of all (set tools = \"own\" to change that)", t.Name)
			}
			return t.Name, nil
		}
	}
	if !hadOwnTools(cfg, token) { // else the token was removed
		return "", fmt.Errorf("--token %s: the configuration has no such token", token)
	}
	return token, nil
}

// hadOwnTools reports whether there is a folder with the saved tools of a token.
func hadOwnTools(cfg *config.Config, token string) bool {
	return isDirectory(host.SavedTools(cfg, token).Folder())
}

// remove removes a token.
func (e *tokenEdit) remove(name string) error {
	e.consent.begin(e.cmd)
	opts := config.LoadOptions{Policies: compile.Policy, Context: e.cmd.Context(), Flag: e.config, Unset: func(string, *config.Problem) {}}
	f, err := edit.Open(opts)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	err = f.RemoveToken(name)
	if errors.Is(err, edit.ErrNoToken) {
		if cfg, failed := f.Parse(opts); failed == nil {
			if near := nearest.Names(name, tokenNames(cfg)); near != nil {
				err = fmt.Errorf("%w (did you mean %s?)", err, strings.Join(near, ", "))
			}
		}
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	cfg, err := f.Parse(opts)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("nothing was written: %w", err)}
	}
	e.masked = f.Masker(opts).Mask
	written, err := e.apply(e.cmd.Context(), e.cmd, fmt.Sprintf("Write this to %s?", f.Path()), f.Change())
	if err != nil || !written {
		return err
	}
	e.afterRemoval(e.cmd.ErrOrStderr(), cfg, name)
	_, err = fmt.Fprintf(e.cmd.OutOrStdout(), "removed the token %s (running proxies: mcp-metatool reload)\n", name)
	return err
}

// afterRemoval says what the removal of a token leaves behind.
func (e *tokenEdit) afterRemoval(w io.Writer, cfg *config.Config, name string) {
	if len(cfg.HTTP.Tokens) == 0 {
		fmt.Fprintln(w, "note: there are no tokens any more; proxies that run keep theirs until they are restarted")
	}
	if dir := host.SavedTools(cfg, name).Folder(); isDirectory(dir) {
		fmt.Fprintf(w, "note: the saved tools of its clients are still in %s\n", dir)
	}
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
