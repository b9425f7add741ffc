package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/script/saved"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// SavedTools returns the place of saved tools of a configuration: the tools of a token with tools
// of its own, or with "" the tools that clients share.
func SavedTools(cfg *config.Config, token string) saved.Place {
	at := saved.Place{Dir: cfg.Store.Dir, Token: token}
	if len(cfg.Store.NATS) > 0 {
		at.Fleet = cfg.Store.Prefix
	}
	return at
}

// commandTime is how long a command waits for the store of a fleet.
const commandTime = 3 * time.Second

// CommandTools are the saved tools of a configuration, for a command.
type CommandTools struct {
	*tools.Store
	// Stale is the reason why the tools are the last known ones of this machine: the store of the
	// fleet does not answer. Nil: the tools are current.
	Stale error
	// Dir is the folder of the files, or of the copies.
	Dir   string
	close func() error
}

// OpenTools opens saved tools for a command. The caller must Close them.
func OpenTools(ctx context.Context, cfg *config.Config, token string, log *slog.Logger) (*CommandTools, error) {
	at := SavedTools(cfg, token)
	c := &CommandTools{Dir: filepath.Join(at.Folder(), "tools")}
	if at.Fleet == "" {
		t, err := saved.Open(saved.Options{Place: at, Budget: budgetOf(cfg), Log: log})
		if err != nil {
			return nil, err
		}
		c.Store, c.close = t.Store, t.Close
		return c, nil
	}
	ring, err := fleetRing(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	var away error
	shared, err := openSealed(ctx, cfg, ring, jetstream.MakeNone, log)
	var inner store.Store = shared
	if err != nil {
		away, inner = err, fleet.Closed(err)
	}
	t, stale, err := saved.OpenOnce(ctx, saved.Options{Place: at, Store: inner, Away: func() error { return away }, Budget: budgetOf(cfg), Log: log})
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	c.Store, c.Stale = t.Store, stale
	c.close = func() error { return errors.Join(t.Close(), inner.Close()) }
	return c, nil
}

// ReadTools returns the saved tools of a configuration as this machine knows them, without asking a
// fleet: none if no tool was ever saved here.
func ReadTools(cfg *config.Config, log *slog.Logger) ([]tools.Definition, error) {
	at := SavedTools(cfg, "")
	if info, err := os.Stat(filepath.Join(at.Folder(), "tools")); err != nil || !info.IsDir() {
		return nil, nil
	}
	t, err := OpenFolder(cfg, log)
	if err != nil {
		return nil, err
	}
	return t.List(), t.Close()
}

// OpenFolder opens the saved tools of a configuration as this machine knows them.
func OpenFolder(cfg *config.Config, log *slog.Logger) (*saved.Tools, error) {
	t, err := saved.OpenFolder(saved.Options{Place: SavedTools(cfg, ""), Budget: budgetOf(cfg), Log: log})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	return t, nil
}

// budgetOf returns the memory of a command, which can read and save everything that the server can.
func budgetOf(cfg *config.Config) *budget.Budget {
	return budget.New(int64(cfg.Execution.MaxTotalMemory))
}

// ListTools is ReadTools, but asks the fleet, and logs a warning if the fleet does not answer.
func ListTools(ctx context.Context, cfg *config.Config, log *slog.Logger) ([]tools.Definition, error) {
	if len(cfg.Store.NATS) == 0 {
		return ReadTools(cfg, log)
	}
	t, err := OpenTools(ctx, cfg, "", log)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if t.Stale != nil {
		log.Warn("the store of the fleet does not answer: saved tools are as this machine knew them last", "err", t.Stale)
	}
	return t.List(), t.Close()
}

// Close closes the tools.
func (c *CommandTools) Close() error { return c.close() }
