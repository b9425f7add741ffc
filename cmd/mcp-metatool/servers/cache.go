package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

func cacheCommand() *cobra.Command {
	v := &cacheView{}
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "Show what is cached on disk, and remove it",
		Long: `Show what is cached on disk: the compiled sandbox, and the lists that servers had when
they last ran. Saved tools, their history and the journal are no caches.`,
		Args: cli.OnlyVerbs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.show(cmd.OutOrStdout()) },
	}
	v.AddFlags(cmd, cli.Silent)
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	cmd.AddCommand(cacheCleanCommand())
	return cmd
}

func cacheCleanCommand() *cobra.Command {
	v := &cacheView{}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what is cached on disk",
		Long: `Remove what is cached on disk, after showing it and asking. mcp-metatool servers may
run meanwhile: they keep what they have loaded. The next start compiles the sandbox
again, which takes a few seconds, and waits for servers before it shows their tools.

Saved tools, their history, the journal, secrets and logins are not touched. Lock files
stay; they are empty.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return v.clean(cmd.Context(), cmd.OutOrStdout()) },
	}
	v.Settings.AddFlags(cmd, cli.Silent)
	cmd.Flags().BoolVar(&v.yes, "yes", false, "remove without asking")
	cmd.Flags().BoolVar(&v.dryRun, "dry-run", false, "show what would be removed, and remove nothing")
	cmd.MarkFlagsMutuallyExclusive("yes", "dry-run")
	cmd.Flags().BoolVar(&v.asJSON, "json", false, "print JSON")
	return cmd
}

// cacheView is a run of cache or cache clean.
type cacheView struct {
	cli.Settings
	asJSON, yes, dryRun bool
}

// cache is a cache on this machine.
type cache struct {
	what, folder string
	// names returns the names in the folder that clean can remove.
	names func(folder string) ([]string, error)
	clean func(ctx context.Context, folder string, names []string) error
}

// caches returns all possible caches.
func (v *cacheView) caches() []cache {
	var all []cache
	if dir := cli.CacheDir(slog.New(slog.DiscardHandler)); dir != "" {
		all = append(all, cache{"compiled sandbox", dir, sandbox.CachedGuests, sandbox.CleanCache})
	}
	if store := config.StoreDir(config.LoadOptions{Context: v.Cmd.Context(), Flag: v.Config}); store != "" {
		all = append(all, cache{"lists of servers", supervise.ServersDir(store), supervise.RememberedFiles, supervise.ForgetFiles})
	}
	return all
}

// cacheUsage is the size of a cache.
type cacheUsage struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

func (u *cacheUsage) add(other cacheUsage) {
	u.Files += other.Files
	u.Bytes += other.Bytes
}

func (u cacheUsage) size() string { return display.Size(uint64(max(u.Bytes, 0))) }

// cacheEntry is an entry for cache clean to remove, in the output of --json.
type cacheEntry struct {
	What string `json:"what"`
	Path string `json:"path"`
	cacheUsage
}

// maxCacheFiles is how many files of an entry are counted.
const maxCacheFiles = 100_000

// entries returns the entries of a cache. A file that the counter has counted has no size.
func (c cache) entries(counter *regular.Counter) ([]cacheEntry, error) {
	names, err := c.names(c.folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.what, err)
	}
	var entries []cacheEntry
	for _, name := range names {
		path := filepath.Join(c.folder, name)
		files, bytes := counter.Usage(path, maxCacheFiles)
		entries = append(entries, cacheEntry{c.what, path, cacheUsage{files, bytes}})
	}
	return entries, nil
}

// cachePlace is a cache in the output of cache --json.
type cachePlace struct {
	What   string `json:"what"`
	Folder string `json:"folder"`
	cacheUsage
}

func (v *cacheView) show(w io.Writer) error {
	report := struct {
		Places []cachePlace `json:"places"`
		cacheUsage
	}{Places: []cachePlace{}}
	var counter regular.Counter
	for _, c := range v.caches() {
		entries, err := c.entries(&counter)
		if err != nil {
			return err
		}
		place := cachePlace{What: c.what, Folder: c.folder}
		for _, e := range entries {
			place.add(e.cacheUsage)
		}
		report.add(place.cacheUsage)
		report.Places = append(report.Places, place)
	}
	if v.asJSON {
		return cli.WriteJSON(w, report)
	}
	t := cli.NewTable(w)
	t.Head("CACHE", cli.Right("FILES"), cli.Right("SIZE"), "FOLDER")
	for _, p := range report.Places {
		t.Add(p.What, p.Files, p.size(), p.Folder)
	}
	return t.Flush()
}

// cleaned is the output of cache clean --json.
type cleaned struct {
	Removed bool         `json:"removed"` // false after a dry run
	Entries []cacheEntry `json:"entries"`
	cacheUsage
}

func (v *cacheView) clean(ctx context.Context, w io.Writer) error {
	report, caches := cleaned{Entries: []cacheEntry{}}, v.caches()
	var counter regular.Counter
	for _, c := range caches {
		entries, err := c.entries(&counter)
		if err != nil {
			return err
		}
		report.Entries = append(report.Entries, entries...)
	}
	for _, e := range report.Entries {
		report.add(e.cacheUsage)
		if !v.asJSON {
			fmt.Fprintf(w, "- %s (%s, %s)\n", display.EscapeLine(e.Path), e.What, e.size())
		}
	}
	if len(report.Entries) > 0 {
		var err error
		if report.Removed, err = v.agree(ctx, report.size()); err != nil {
			return err
		}
	}
	if report.Removed {
		for _, c := range caches {
			if err := c.remove(ctx, report.Entries); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
		}
	}
	return v.report(w, report)
}

// remove removes the given entries from the cache.
func (c cache) remove(ctx context.Context, entries []cacheEntry) error {
	var names []string
	for _, e := range entries {
		if e.What == c.what {
			names = append(names, filepath.Base(e.Path))
		}
	}
	if names == nil {
		return nil
	}
	return c.clean(ctx, c.folder, names)
}

// errNobodyCleans says, as change.ErrNobody does for writing, that no person can be asked.
var errNobodyCleans = errors.New("nothing was removed: there is no terminal to ask on (--yes removes without asking, --dry-run only shows what would be removed)")

// agree asks whether to remove the entries that were shown. The result is false after a dry run; a
// no is an error.
func (v *cacheView) agree(ctx context.Context, size string) (bool, error) {
	if v.dryRun || v.yes {
		return v.yes, nil
	}
	a := cli.FindAsker(v.Cmd)
	if a == nil {
		return false, cli.Usage(errNobodyCleans)
	}
	yes, err := a.Confirm(ctx, fmt.Sprintf("Remove this (%s)?", size))
	if err == nil && !yes {
		fmt.Fprintln(v.Cmd.ErrOrStderr(), "nothing was removed")
		err = cli.Failed(nil)
	}
	return yes, err
}

func (v *cacheView) report(w io.Writer, report cleaned) error {
	if v.asJSON {
		return cli.WriteJSON(w, report)
	}
	var err error
	switch {
	case len(report.Entries) == 0:
		_, err = fmt.Fprintln(w, "nothing is cached")
	case report.Removed:
		_, err = fmt.Fprintf(w, "removed %s\n", report.size())
	default:
		fmt.Fprintln(v.Cmd.ErrOrStderr(), "nothing was removed (--dry-run)")
	}
	return err
}
