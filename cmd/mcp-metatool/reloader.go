package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/reconfig"
)

// reloader keeps a server that runs up to its configuration: when the file
// changes, on SIGHUP, and when another command asks for it.
type reloader struct {
	settings *settings
	front    *frontFlags
	files    configFiles
	terminal bool          // standard input was one at the start
	hangups  chan struct{} // holds a token once SIGHUP has come

	mu   sync.Mutex // makes one reload at a time; guards what follows
	host *host.Host
	log  *slog.Logger
	path string            // of the configuration in force
	read [sha256.Size]byte // the files as they were read last
}

func newReloader(s *settings, f *frontFlags) *reloader {
	return &reloader{
		settings: s, front: f, files: config.Files(config.LoadOptions{Flag: s.config}),
		terminal: isTerminal(os.Stdin), hangups: make(chan struct{}, 1),
	}
}

// load reads the configuration.
func (r *reloader) load() (*config.Config, error) {
	r.read = r.files.fingerprint()
	cfg, err := r.settings.load()
	if err == nil && r.front.http.address != "" {
		cfg.HTTP.Listen = r.front.http.address
	}
	return cfg, err
}

// hangup takes SIGHUP, unless it came because the terminal went away: whoever
// had it is gone.
func (r *reloader) hangup() bool {
	if r.terminal && !isTerminal(os.Stdin) {
		return false
	}
	select {
	case r.hangups <- struct{}{}:
	default: // a token is there already, and whoever takes it reads the file as it is now
	}
	return true
}

// withHost runs f with a host that follows the configuration.
func (r *reloader) withHost(
	ctx context.Context, cfg *config.Config, log *slog.Logger, clients host.Clients, f func(context.Context, *host.Host) error,
) error {
	return withHost(ctx, cfg, log, clients, func(ctx context.Context, h *host.Host) error {
		r.host, r.log, r.path = h, log, cfg.Path
		following, stop := context.WithCancel(ctx)
		var followers sync.WaitGroup
		followers.Go(func() {
			r.files.watch(following, log, r.known, func() { r.reload("the file has changed") }, r.hangups, func() { r.reload("SIGHUP") })
		})
		c, err := listenControl(cfg.Store.Dir)
		if err != nil {
			log.Warn("mcp-metatool reload cannot reach this server", "err", err)
		} else {
			followers.Go(func() { c.serve(following, r.asked) })
		}
		err = f(ctx, h)
		stop()
		followers.Wait()
		return err
	})
}

func (r *reloader) known() [sha256.Size]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.read
}

// asked answers a command.
func (r *reloader) asked(a controlAsk) controlAnswer {
	r.mu.Lock()
	path := r.path
	r.mu.Unlock()
	answer := controlAnswer{PID: os.Getpid(), Config: absolute(path)}
	if a.Config != "" && !sameFile(a.Config, path) {
		return answer
	}
	answer.Reload = r.reload("mcp-metatool reload")
	return answer
}

// reload reads the configuration and puts it in force. One with problems
// changes nothing.
func (r *reloader) reload(why string) *reloadReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes, warnings, err := r.adopt()
	if err != nil {
		text := r.settings.masker.Mask(err.Error())
		r.log.Error("configuration not reloaded: the one in force stays", "why", why, "err", text)
		return &reloadReport{Problems: strings.Split(text, "\n")}
	}
	lines := changes.Lines()
	told := strings.Join(lines, "; ")
	if told == "" {
		told = "none"
	}
	r.log.Info("configuration reloaded", "why", why, "changes", told)
	return &reloadReport{Changes: lines, Warnings: warnings}
}

// adopt is reload for a caller that holds r.mu.
func (r *reloader) adopt() (reconfig.Changes, []string, error) {
	for _, name := range r.files {
		if err := readAgain(name); err != nil {
			return reconfig.Changes{}, nil, err
		}
	}
	cfg, err := r.load()
	if err != nil {
		return reconfig.Changes{}, nil, err
	}
	if cfg.Path == "" && r.path != "" {
		return reconfig.Changes{}, nil, fmt.Errorf("%s is not there any more (put it back, or end the server)", r.path)
	}
	r.settings.masker.Add(cfg.Secrets...) // before anything of them can be logged
	changes, err := r.host.Reload(cfg)
	if err != nil {
		return reconfig.Changes{}, nil, err
	}
	r.path = cfg.Path
	r.settings.setLevel(cfg)
	return changes, cfg.Warnings(), nil
}

// absolute is a path that means the same to processes in other directories.
func absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// sameFile tells whether two names are of one file, or are the same where there
// is no file.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return absolute(a) == absolute(b)
}
