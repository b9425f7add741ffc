package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// The functions of this file complete words of a command line in a shell. A shell calls them
// at each TAB, so they only read files, in bounded time, and leave out what they cannot read.

// completionTime bounds a completion.
const completionTime = time.Second

// choices returns what a word can be completed to. Each choice may have a description after
// a tab.
type choices func(ctx context.Context, args []string) []string

// complete returns a cobra.CompletionFunc for up to most arguments, each different; 0: any
// number. Nothing else, such as a file, is offered.
func (c choices) complete(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.left(cmd, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// orFile is like complete(1), and offers files too.
func (c choices) orFile(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.left(cmd, args), cobra.ShellCompDirectiveDefault
}

// left returns the choices that are not among the arguments, without duplicates.
func (c choices) left(cmd *cobra.Command, args []string) []cobra.Completion {
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

// completeFlag sets what the value of a flag can be completed to.
func completeFlag(cmd *cobra.Command, flag string, c choices) {
	if err := cmd.RegisterFlagCompletionFunc(flag, c.complete(0)); err != nil {
		panic(err) // there is no such flag
	}
}

// oneOf offers fixed words.
func oneOf(words ...string) choices {
	return func(context.Context, []string) []string { return words }
}

// filesOf offers files with these extensions, and folders.
func filesOf(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// known returns the configuration as far as it can be read.
func (s *settings) known(ctx context.Context) *config.Config {
	return config.Partial(config.LoadOptions{Context: ctx, Flag: s.config})
}

// servers offers the upstreams.
func (s *settings) servers(ctx context.Context, _ []string) []string {
	var names []string
	for _, u := range s.known(ctx).Upstreams {
		about := string(u.Transport)
		if u.Disabled {
			about = "disabled"
		}
		names = append(names, u.Name+"\t"+about)
	}
	return names
}

// oauthServers offers the upstreams that one can log in to.
func (s *settings) oauthServers(ctx context.Context, _ []string) []string {
	var names []string
	for _, u := range s.known(ctx).Upstreams {
		if u.OAuth != nil {
			names = append(names, u.Name+"\t"+hostOf(u.URL))
		}
	}
	return names
}

// savedTools offers the saved tools.
func (s *settings) savedTools(ctx context.Context, _ []string) []string {
	return toolNames(filepath.Join(host.SavedTools(s.known(ctx), "").Folder(), "tools"))
}

// everSaved offers the tools that are saved or have versions.
func (s *settings) everSaved(ctx context.Context, args []string) []string {
	names := s.savedTools(ctx, args)
	folders, _ := os.ReadDir(filepath.Join(host.SavedTools(s.known(ctx), "").Folder(), "tools", ".history"))
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

// callable offers what run can call: the saved tools, and the tools that the upstreams had
// when they were last started.
func (s *settings) callable(ctx context.Context, args []string) []string {
	names := s.savedTools(ctx, args)
	s.eachRemembered(ctx, func(u *config.Upstream, tool string) {
		if u.Exposes(tool) {
			names = append(names, catalog.PublicName(u.Prefix, tool)+"\ttool of "+u.Name)
		}
	})
	return names
}

// eachRemembered calls f with each tool that the upstreams had when they were last started.
func (s *settings) eachRemembered(ctx context.Context, f func(u *config.Upstream, tool string)) {
	cfg := s.known(ctx)
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

// runs offers the newest runs of the journal.
func (v *runsView) runs(ctx context.Context, _ []string) []string {
	const most = 30
	dir := v.dir
	if dir == "" {
		dir = v.known(ctx).JournalDir()
	}
	names := []string{"last\tthe newest run"}
	for rec, err := range journal.Scan(ctx, dir, journal.Filter{Limit: most}) {
		if err == nil {
			names = append(names, shortRun(rec.ID)+"\t"+rec.Definition.Name+" "+rec.OutcomeName()+" "+stamp(rec.Start))
		}
	}
	return names
}

// checkNames offers the names of the checks in files.
func checkNames(ctx context.Context, args []string) []string {
	var names []string
	eachCheckFile(ctx, args, func(path string, f *smoke.File) {
		for _, c := range f.Checks {
			if c.Phase == smoke.Main {
				names = append(names, c.Name+"\t"+filepath.Base(path))
			}
		}
	})
	return names
}

// checkTags offers the tags of the checks in files.
func checkTags(ctx context.Context, args []string) []string {
	var tags []string
	eachCheckFile(ctx, args, func(_ string, f *smoke.File) {
		for _, c := range f.Checks {
			tags = append(tags, c.Tags...)
		}
	})
	slices.Sort(tags)
	return slices.Compact(tags)
}

// checkProfiles offers the profiles of files of checks.
func checkProfiles(ctx context.Context, args []string) []string {
	var names []string
	eachCheckFile(ctx, args, func(_ string, f *smoke.File) { names = append(names, f.Profiles...) })
	slices.Sort(names)
	return slices.Compact(names)
}

// eachCheckFile calls f with each file of checks that can be read.
func eachCheckFile(ctx context.Context, args []string, f func(path string, file *smoke.File)) {
	files, err := smoke.Files(args)
	if err != nil {
		return
	}
	opts := smoke.LoadOptions{Offline: true}
	opts.Load.Context = ctx
	for _, path := range files {
		if ctx.Err() != nil {
			return
		}
		if file, err := smoke.Load(path, opts); err == nil {
			f(path, file)
		}
	}
}
