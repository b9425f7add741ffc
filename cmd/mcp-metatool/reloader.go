package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
)

// reloader reloads the configuration of a running server when the file changes, on
// SIGHUP, and at the request of another command.
type reloader struct {
	settings *settings
	front    *frontFlags
	found    configFiles   // those in which the configuration is looked for
	terminal bool          // standard input was one at the start
	hangups  chan struct{} // holds a token after SIGHUP

	mu      sync.Mutex // makes one reload at a time; guards what follows
	host    *host.Host
	log     *slog.Logger
	path    string            // of the current configuration
	page    *pageLinks        // nil: there is no page
	refused []string          // why the last reload was refused; nil if it was not
	read    [sha256.Size]byte // a hash of the files as they were last read
	more    configFiles       // those that the configuration names: of the policy, and of the keys of the fleet
}

func newReloader(s *settings, f *frontFlags) *reloader {
	return &reloader{
		settings: s, front: f, found: config.Files(config.LoadOptions{Flag: s.config}),
		terminal: isTerminal(os.Stdin), hangups: make(chan struct{}, 1),
	}
}

// load reads the configuration.
func (r *reloader) load() (*config.Config, error) {
	r.read = r.files().fingerprint()
	cfg, err := r.settings.load()
	if named := r.named(cfg); !slices.Equal(named, r.more) { // once more, so that no change of it is missed
		r.more = named
		r.read = r.files().fingerprint()
		cfg, err = r.settings.load()
	}
	if err == nil && r.front.http.address != "" {
		cfg.HTTP.Listen = r.front.http.address
	}
	return cfg, err
}

// named returns the files that a configuration names and that are read with it. If the
// configuration has mistakes, for which cfg is nil, they may be in such a file, and it may be
// another one than before.
func (r *reloader) named(cfg *config.Config) (files configFiles) {
	if cfg == nil {
		cfg = config.Partial(config.LoadOptions{Policies: compile.Policy, Context: r.settings.cmd.Context(), Flag: r.settings.config})
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

// hangup handles SIGHUP, unless it was sent because the terminal was closed; then the
// user has left.
func (r *reloader) hangup() bool {
	if r.terminal && !isTerminal(os.Stdin) {
		return false
	}
	select {
	case r.hangups <- struct{}{}:
	default: // there is a token already; its receiver will read the current file
	}
	return true
}

// withHost runs f with a host that follows the configuration.
func (r *reloader) withHost(
	ctx context.Context, cfg *config.Config, log *slog.Logger, clients host.Clients, f func(context.Context, *host.Host) error,
) error {
	w, err := startTelemetry(ctx, cfg, r.settings.masker, log, clients)
	if err != nil {
		return err
	}
	ending := time.Now()
	defer func() { w.close(ending) }()
	opts := hostOptions(log, clients)
	opts.Telemetry = w.telemetry
	return withHostOf(ctx, cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer w.serve(ctx, h)()
		r.host, r.log, r.path = h, log, cfg.Path
		following, stop := context.WithCancel(ctx)
		var followers sync.WaitGroup
		followers.Go(func() {
			watchFiles(following, r.watched, log, r.known, func() { r.reload("the file has changed") }, r.hangups, func() { r.reload("SIGHUP") })
		})
		c, err := listenControl(cfg.Store.Dir)
		if err != nil {
			log.Warn("mcp-metatool reload cannot reach this server", "err", err)
		} else {
			followers.Go(func() { c.serve(following, r.asked) })
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

// errDrained ends a server that was told to end when it has drained.
var errDrained = errors.New("drained")

// setPage sets the page whose links other commands get.
func (r *reloader) setPage(links *pageLinks) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.page = links
}

// files returns the files that the configuration is made of. The caller holds r.mu, or is
// the only one that knows r.
func (r *reloader) files() configFiles {
	return slices.Concat(r.found, r.more)
}

// watched returns the files to watch.
func (r *reloader) watched() configFiles {
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
func (r *reloader) asked(a controlRequest) controlResponse {
	r.mu.Lock()
	path, page := r.path, r.page
	r.mu.Unlock()
	answer := controlResponse{PID: os.Getpid(), Config: absolute(path)}
	if a.Config != "" && !sameFile(a.Config, path) {
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
		answer.Reload = &reloadReport{Problems: r.refused}
		return answer
	}
	if a.Drain {
		answer.Drain = r.drain(a.End)
		return answer
	}
	answer.Reload = r.reload("mcp-metatool reload")
	return answer
}

// drain makes the server drain, and says what is still going on.
func (r *reloader) drain(end bool) *drainReport {
	if !r.host.Drain(end) {
		return &drainReport{}
	}
	return &drainReport{InFleet: true, Going: r.host.Busy(), Settled: r.host.Settled()}
}

// reload reads the configuration and makes it the current one. If it has problems,
// nothing changes.
func (r *reloader) reload(why string) *reloadReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes, warnings, err := r.reloadLocked()
	if err != nil {
		text := r.settings.masker.Mask(err.Error())
		r.log.Error("configuration not reloaded: the one in force stays", "why", why, "err", text)
		r.refused = strings.Split(text, "\n")
		r.host.RefusedReload(text)
		return &reloadReport{Problems: r.refused}
	}
	r.refused = nil
	r.host.RefusedReload("")
	lines := changes.Lines()
	told := strings.Join(lines, "; ")
	if told == "" {
		told = "none"
	}
	r.log.Info("configuration reloaded", "why", why, "changes", told)
	return &reloadReport{Changes: lines, Warnings: warnings}
}

// reloadLocked is reload for a caller that holds r.mu.
func (r *reloader) reloadLocked() (host.Changes, []string, error) {
	for _, name := range r.files() {
		if err := readAgain(name); err != nil {
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
	r.settings.masker.Add(cfg.Secrets...) // before any of them can be logged
	changes, err := r.host.Reload(cfg)
	if err != nil {
		return host.Changes{}, nil, err
	}
	r.path = cfg.Path
	r.settings.setLevel(cfg)
	return changes, cfg.Warnings(), nil
}

// absolute returns the absolute form of a path, for processes in other directories.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// sameFile reports whether two names are those of the same file, or are equal if there
// is no file.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return absolute(a) == absolute(b)
}
