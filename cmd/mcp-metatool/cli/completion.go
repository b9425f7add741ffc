package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The functions of this file complete words of a command line in a shell. A shell calls them at
// each TAB. So the functions only read files, in bounded time, and skip unreadable files.

// completionTime bounds a completion.
const completionTime = time.Second

// Choices returns the candidates for a word. Each choice may have a description after a tab.
type Choices func(ctx context.Context, args []string) []string

// Complete returns a cobra.CompletionFunc for up to most different arguments; 0: any number.
// Nothing else, such as a file, is offered.
func (c Choices) Complete(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.left(cmd, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// OrFile is like complete(1), and offers files too.
func (c Choices) OrFile(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.left(cmd, args), cobra.ShellCompDirectiveDefault
}

// left returns the choices that are not yet among the arguments, without duplicates.
func (c Choices) left(cmd *cobra.Command, args []string) []cobra.Completion {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	var out []cobra.Completion
	seen := map[string]bool{}
	for _, choice := range c(ctx, args) {
		word, about, _ := strings.Cut(choice, "\t")
		word = display.Text(word)
		if word != "" && !seen[word] && !slices.Contains(args, word) && !strings.Contains(word, "\n") {
			seen[word] = true
			out = append(out, cobra.CompletionWithDesc(word, display.Line(about, 70)))
		}
	}
	return out
}

// CompleteFlag sets the candidates for the value of a flag.
func CompleteFlag(cmd *cobra.Command, flag string, c Choices) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c.Complete(0)); err != nil {
		panic(err) // the flag is unknown
	}
}

// OneOf offers fixed words.
func OneOf(words ...string) Choices {
	return func(context.Context, []string) []string { return words }
}

// FilesOf offers files with these extensions, and folders.
func FilesOf(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// Known returns the readable part of the configuration.
func (s *Settings) Known(ctx context.Context) *config.Config {
	return config.Partial(config.LoadOptions{Context: ctx, Flag: s.Config})
}

// Servers offers the upstreams.
func (s *Settings) Servers(ctx context.Context, _ []string) []string {
	var names []string
	for _, u := range s.Known(ctx).Upstreams {
		about := string(u.Transport)
		if u.Disabled {
			about = "disabled"
		}
		names = append(names, u.Name+"\t"+about)
	}
	return names
}

// OAuthServers offers the upstreams with a login.
func (s *Settings) OAuthServers(ctx context.Context, _ []string) []string {
	var names []string
	for _, u := range s.Known(ctx).Upstreams {
		if u.OAuth != nil {
			names = append(names, u.Name+"\t"+HostOf(u.URL))
		}
	}
	return names
}

// SavedTools offers the saved tools.
func (s *Settings) SavedTools(ctx context.Context, _ []string) []string {
	return toolNames(filepath.Join(host.SavedTools(s.Known(ctx), "").Folder(), "tools"))
}

// EverSaved offers the saved tools, and the tools with versions.
func (s *Settings) EverSaved(ctx context.Context, args []string) []string {
	names := s.SavedTools(ctx, args)
	folders, _ := os.ReadDir(filepath.Join(host.SavedTools(s.Known(ctx), "").Folder(), "tools", ".history"))
	for _, f := range folders {
		if f.IsDir() {
			names = append(names, f.Name()+"\thas versions")
		}
	}
	return names
}

// toolNames returns the names of the files of saved tools.
func toolNames(dir string) []string {
	var names []string
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if name, ok := strings.CutSuffix(f.Name(), ".json"); ok && f.Type().IsRegular() && !strings.HasPrefix(name, ".") {
			names = append(names, name+"\tsaved tool")
		}
	}
	return names
}

// Callable offers the tools that run can call: the saved tools, and the tools of the upstreams at
// their last start.
func (s *Settings) Callable(ctx context.Context, args []string) []string {
	names := s.SavedTools(ctx, args)
	s.eachRemembered(ctx, func(u *config.Upstream, tool string) {
		if u.Exposes(tool) {
			names = append(names, catalog.PublicName(u.Prefix, tool)+"\ttool of "+u.Name)
		}
	})
	return names
}

// eachRemembered calls f with each tool of the upstreams at their last start.
func (s *Settings) eachRemembered(ctx context.Context, f func(u *config.Upstream, tool string)) {
	cfg := s.Known(ctx)
	for i := range cfg.Upstreams {
		u := &cfg.Upstreams[i]
		if u.Disabled {
			continue
		}
		for _, tool := range supervise.RememberedTools(ctx, filepath.Join(cfg.Store.Dir, "servers"), u.Name) {
			if !u.Hides(tool) {
				f(u, tool)
			}
		}
	}
}

// Tokens returns the names of the tokens in the configuration, to complete words.
func (s *Settings) Tokens(ctx context.Context, _ []string) []string { return TokenNames(s.Known(ctx)) }

func TokenNames(cfg *config.Config) (names []string) {
	for _, token := range cfg.HTTP.Tokens {
		if token.Name != "" {
			names = append(names, token.Name)
		}
	}
	return names
}

// OwnerOf returns the name of a token with saved tools of its own, spelled as in the configuration;
// "" for none.
func OwnerOf(cfg *config.Config, token string) (string, error) {
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

// hadOwnTools reports whether a folder with the saved tools of a token exists.
func hadOwnTools(cfg *config.Config, token string) bool {
	return IsDirectory(host.SavedTools(cfg, token).Folder())
}

func IsDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// SecretNames returns the names of the secrets in the keyring, even if the configuration
// has problems.
func (s *Settings) SecretNames() secret.Names {
	return secret.NamesIn(config.StoreDir(config.LoadOptions{Context: s.Cmd.Context(), Flag: s.Config}))
}
