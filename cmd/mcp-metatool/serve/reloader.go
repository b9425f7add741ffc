package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli/control"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// reloader reloads the configuration of a running server when the file changes, on
// SIGHUP, and at the request of another command.
type reloader struct {
	settings *cli.Settings
	front    *frontFlags
	found    cli.ConfigFiles // the possible configuration files
	terminal bool            // standard input was a terminal at the start
	hangups  chan struct{}   // holds a token after SIGHUP

	mu      sync.Mutex // serializes reloads; guards the fields below
	host    *host.Host
	log     *slog.Logger
	path    string            // of the current configuration
	page    *pageLinks        // nil: no page
	refused []string          // why the last reload was refused; nil if it was accepted
	read    [sha256.Size]byte // a hash of the files as they were last read
	more    cli.ConfigFiles   // the files that the configuration names: the policy, and the keys of the fleet
}

func newReloader(s *cli.Settings, f *frontFlags) *reloader {
	return &reloader{
		settings: s, front: f, found: config.Files(config.LoadOptions{Flag: s.Config}),
		terminal: cli.IsTerminal(os.Stdin), hangups: make(chan struct{}, 1),
	}
}

// load reads the configuration.
func (r *reloader) load() (*config.Config, error) {
	r.read = r.files().Fingerprint()
	cfg, err := r.settings.Load()
	if named := r.named(cfg); !slices.Equal(named, r.more) { // again, so that no change of the configuration is missed
		r.more = named
		r.read = r.files().Fingerprint()
		cfg, err = r.settings.Load()
	}
	if err == nil && r.front.http.address != "" {
		cfg.HTTP.Listen = r.front.http.address
	}
	return cfg, err
}

// named returns the files that a configuration names and that are read with the configuration. If
// the configuration has mistakes, cfg is nil; the mistakes may be in a file that the configuration
// did not name before.
func (r *reloader) named(cfg *config.Config) (files cli.ConfigFiles) {
	if cfg == nil {
		cfg = config.Partial(config.LoadOptions{Policies: compile.Policy, Context: r.settings.Cmd.Context(), Flag: r.settings.Config})
		if cfg.Policy.File == "" && cfg.Store.KeysFile == "" {
			return r.more
		}
	}
	for _, name := range []string{cfg.Policy.File, cfg.Store.KeysFile} {
		if name != "" {
			files = append(files, name)
		}
	}
	return files
}

// hangup handles SIGHUP, unless the terminal was closed; then the user has left.
func (r *reloader) hangup() bool {
	if r.terminal && !cli.IsTerminal(os.Stdin) {
		return false
	}
	select {
	case r.hangups <- struct{}{}:
	default: // the channel already has a token; its receiver will read the current file
	}
	return true
}

// withHost runs f with a host that follows the configuration.
func (r *reloader) withHost(
	ctx context.Context, cfg *config.Config, log *slog.Logger, clients host.Clients, f func(context.Context, *host.Host) error,
) error {
	w, err := startTelemetry(ctx, cfg, r.settings.Masker, log, clients)
	if err != nil {
		return err
	}
	ending := time.Now()
	defer func() { w.close(ending) }()
	opts := cli.HostOptions(log, clients)
	opts.Telemetry = w.telemetry
	return cli.WithHostOf(ctx, cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer w.serve(ctx, h)()
		r.host, r.log, r.path = h, log, cfg.Path
		following, stop := context.WithCancel(ctx)
		var followers sync.WaitGroup
		followers.Go(func() {
			cli.WatchFiles(following, r.watched, log, r.known, func() { r.reload("the file has changed") }, r.hangups, func() { r.reload("SIGHUP") })
		})
		c, err := control.Listen(cfg.Store.Dir)
		if err != nil {
			log.Warn("mcp-metatool reload cannot reach this server", "err", err)
		} else {
			followers.Go(func() { c.Serve(following, r.asked) })
		}
		working, end := context.WithCancelCause(ctx)
		followers.Go(func() {
			select {
			case <-following.Done():
			case <-h.Drained():
				end(errDrained)
			}
		})
		err = f(working, h)
		stop()
		end(nil)
		followers.Wait()
		ending = time.Now()
		return err
	})
}

// errDrained ends a server that had to end after draining.
var errDrained = errors.New("drained")

// setPage sets the page whose links other commands get.
func (r *reloader) setPage(links *pageLinks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.page = links
}

// files returns the files of the configuration. The caller holds r.mu, or is the only user of r.
func (r *reloader) files() cli.ConfigFiles {
	return slices.Concat(r.found, r.more)
}

// watched returns the files to watch.
func (r *reloader) watched() cli.ConfigFiles {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files()
}

func (r *reloader) known() [sha256.Size]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read
}

// asked answers a request of a command.
func (r *reloader) asked(a control.Request) control.Response {
	r.mu.Lock()
	path, page := r.path, r.page
	r.mu.Unlock()
	answer := control.Response{PID: os.Getpid(), Config: cli.Absolute(path)}
	if a.Config != "" && !cli.SameFile(a.Config, path) {
		return answer
	}
	if a.Page || a.Open {
		if page != nil && a.Page {
			answer.Page = page.lasting()
		}
		if page != nil && a.Open {
			answer.Open = page.once()
		}
		return answer
	}
	if a.Refused {
		r.mu.Lock()
		defer r.mu.Unlock()
		answer.Reload = &control.ReloadReport{Problems: r.refused}
		return answer
	}
	if a.Drain {
		answer.Drain = r.drain(a.End)
		return answer
	}
	answer.Reload = r.reload("mcp-metatool reload")
	return answer
}

// drain makes the server drain, and returns the work in flight.
func (r *reloader) drain(end bool) *control.DrainReport {
	if !r.host.Drain(end) {
		return &control.DrainReport{}
	}
	return &control.DrainReport{InFleet: true, Going: r.host.Busy(), Settled: r.host.Settled()}
}

// reload reads the configuration and makes it the current configuration. With problems, nothing
// changes.
func (r *reloader) reload(why string) *control.ReloadReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes, warnings, err := r.reloadLocked()
	if err != nil {
		text := r.settings.Masker.Mask(err.Error())
		r.log.Error("configuration not reloaded: the one in force stays", "why", why, "err", text)
		r.refused = strings.Split(text, "\n")
		r.host.RefusedReload(text)
		return &control.ReloadReport{Problems: r.refused}
	}
	r.refused = nil
	r.host.RefusedReload("")
	lines := changes.Lines()
	told := strings.Join(lines, "; ")
	if told == "" {
		told = "none"
	}
	r.log.Info("configuration reloaded", "why", why, "changes", told)
	return &control.ReloadReport{Changes: lines, Warnings: warnings}
}

// reloadLocked is reload for a caller with r.mu held.
func (r *reloader) reloadLocked() (host.Changes, []string, error) {
	for _, name := range r.files() {
		if err := cli.ReadAgain(name); err != nil {
			return host.Changes{}, nil, err
		}
	}
	cfg, err := r.load()
	if err != nil {
		return host.Changes{}, nil, err
	}
	if cfg.Path == "" && r.path != "" {
		return host.Changes{}, nil, fmt.Errorf("%s no longer exists (restore it, or stop the server)", r.path)
	}
	r.settings.Masker.Add(cfg.Secrets...) // before any of them can be logged
	changes, err := r.host.Reload(cfg)
	if err != nil {
		return host.Changes{}, nil, err
	}
	r.path = cfg.Path
	r.settings.SetLevel(cfg)
	return changes, cfg.Warnings(), nil
}

func reloadCommand() *cobra.Command {
	s := &cli.Settings{}
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Make running servers read their configuration again; exit code 1 if one refuses",
		Long: `Make running mcp-metatool servers read their configuration again, and print what each
of them has changed, or why it keeps its old configuration.

This affects all servers (see serve) with the same store, each with its own
configuration; with --config, only those that were started with that file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return reload(cmd.Context(), s, cmd.OutOrStdout()) },
	}
	s.AddFlags(cmd, cli.Silent) // nothing is logged
	return cmd
}

func reload(ctx context.Context, s *cli.Settings, w io.Writer) error {
	opts := config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: s.Config}
	cfg, broken := s.Load() // running servers report the mistake too
	store := config.StoreDir(opts)
	if broken == nil {
		store = cfg.Store.Dir
	}
	if store == "" {
		return broken
	}
	run, err := control.OpenFolder(store, false)
	if errors.Is(err, fs.ErrNotExist) { // no server has ever run
		return cli.NoServer(broken, filepath.Join(store, control.FolderName))
	}
	if err != nil {
		return cli.Usage(err)
	}
	defer run.Close()
	ran, failed := 0, 0
	for _, name := range run.Sockets() {
		answer, err := run.Ask(ctx, name, control.Request{Config: cli.Absolute(s.Config)})
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && control.Ended(err):
			continue // the server was killed
		case err != nil:
			ran, failed = ran+1, failed+1
			fmt.Fprintf(w, "%s: no answer: %s\n", display.Text(filepath.Join(run.Path, name)), display.Text(err.Error()))
			continue
		case answer.Reload == nil:
			continue
		}
		ran++
		if len(answer.Reload.Problems) > 0 {
			failed++
		}
		if err := answer.Write(w); err != nil {
			return err
		}
	}
	if unlock, err := run.Lock(); err == nil {
		run.Sweep()
		unlock()
	}
	switch {
	case ran == 0:
		return cli.NoServer(broken, run.Path)
	case failed > 0:
		return cli.Failed(fmt.Errorf("%d of %d servers keep their old configuration", failed, ran))
	}
	return nil
}
