package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func authCommand() *cobra.Command {
	s := &cli.Settings{}
	var noBrowser, metadata bool
	cmd := &cobra.Command{
		Use:   "auth NAME",
		Short: "Log in to an upstream server that requires OAuth",
		Long: `Log in to an upstream server that requires OAuth. The address of the login is printed
and opened in the browser, and the command waits until you have logged in. The access
token is kept in a file that only you can read; the other commands use and renew it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if metadata {
				return printClientMetadata(cmd, s, args[0])
			}
			l := login{out: cmd.OutOrStdout(), prompt: cmd.ErrOrStderr(), browse: !noBrowser}
			return l.run(cmd.Context(), s, args[0])
		},
	}
	s.AddFlags(cmd, slog.LevelWarn)
	cmd.ValidArgsFunction = cli.Choices(s.OAuthServers).Complete(1)
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "print the address only: somebody else opens it")
	cmd.Flags().BoolVar(&metadata, "client-metadata", false, "print the document that has to be at client_metadata, and do not log in")
	return cmd
}

// login is a run of auth.
type login struct {
	out, prompt io.Writer
	browse      bool
}

func (l login) run(ctx context.Context, s *cli.Settings, name string) error {
	cfg, err := s.Load()
	if err != nil {
		return err
	}
	u, err := loginTo(cfg, name)
	if err != nil {
		return cli.Usage(err)
	}
	filled, err := secret.Fill(ctx, secret.NewFetcher(s.Logger(cfg)), cfg, u)
	if err != nil {
		var unreadable *secret.Unreadable
		if errors.As(err, &unreadable) {
			err = errors.New(unreadable.Detail())
		}
		return fmt.Errorf("upstream %q: %s", name, cfg.NewMasker().Mask(err.Error()))
	}
	spec := supervise.Spec(cfg, filled)
	if err := oauth.Authorize(ctx, spec.HTTP(), *spec.OAuth, l.show); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return errors.New(cfg.NewMasker().Mask(err.Error())) // the error may contain text of servers
	}
	_, err = fmt.Fprintf(l.out, "logged in to %s\n", name)
	return err
}

// printClientMetadata prints the document for the client_metadata of an upstream. Other upstreams
// may use the same document, which names the ports of all upstreams.
func printClientMetadata(cmd *cobra.Command, s *cli.Settings, name string) error {
	cfg, err := s.Load()
	if err != nil {
		return err
	}
	u, err := loginTo(cfg, name)
	if err == nil && u.OAuth.ClientMetadata == "" {
		err = fmt.Errorf("upstream %q has no client_metadata (set it in [upstream.%s.oauth] to the https URL where the document will be)", name, name)
	}
	if err != nil {
		return cli.Usage(err)
	}
	var ports []int
	for _, other := range cfg.Upstreams {
		if other.OAuth != nil && other.OAuth.ClientMetadata == u.OAuth.ClientMetadata {
			ports = append(ports, other.OAuth.RedirectPort)
		}
	}
	slices.Sort(ports)
	document, err := oauth.ClientMetadata(u.OAuth.ClientMetadata, slices.Compact(ports))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", document)
	return err
}

// loginTo finds the upstream, which must use OAuth.
func loginTo(cfg *config.Config, name string) (*config.Upstream, error) {
	var others []string
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		switch {
		case u.Name != name:
			if u.OAuth != nil {
				others = append(others, u.Name)
			}
		case u.Invalid != nil:
			return nil, fmt.Errorf("upstream %q cannot be used: %w", name, u.Invalid)
		case u.Transport == config.Stdio:
			return nil, fmt.Errorf("upstream %q is started by a command, and gets its credentials from there (env)", name)
		case u.OAuth == nil:
			return nil, fmt.Errorf("upstream %q has no table [upstream.%s.oauth] (add it: it may be empty)", name, name)
		case u.URL == "":
			return nil, fmt.Errorf("upstream %q has no url, because a variable in it is not set", name)
		default:
			return u, nil
		}
	}
	hint := "none of them wants OAuth"
	if len(others) > 0 {
		hint = "those with OAuth are: " + strings.Join(others, ", ")
	}
	return nil, fmt.Errorf("there is no upstream %q in the configuration (%s)", name, hint)
}

// show tells the user where to log in.
func (l login) show(to oauth.Login) error {
	said := ""
	if to.Elsewhere {
		said = "The login page is not at the host of that authorization server, but at the one in the address below.\nLog in only if you know that this is right.\n"
	}
	if to.Former != "" {
		said = fmt.Sprintf("The server names another authorization server than before: %s, no longer %s.\nLog in only if you know that this is right.\n",
			display.Text(to.Issuer), display.Text(to.Former))
	}
	if len(to.Scopes) > 0 {
		said += "The login asks for the scopes: " + display.Text(strings.Join(to.Scopes, " ")) + "\n"
	}
	_, err := fmt.Fprintf(l.prompt, "%sOpen this address in a browser to log in at %s:\n  %s\nWaiting for the login to be done (Ctrl-C to give up) ...\n",
		said, display.Text(to.Issuer), display.Text(to.URL))
	if l.browse && to.Former == "" && !to.Elsewhere {
		openBrowser(to.URL)
	}
	return err
}

// openBrowser opens the http or https URL of a server. A missing browser is not an error, because
// the address is printed too.
func openBrowser(address string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return
	}
	cli.Launch(u.String())
}
