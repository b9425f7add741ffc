package host

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/plan"
	"github.com/mcp-metatool/mcp-metatool/host/route"
)

// Planner makes and applies plans, with the current configuration.
func (h *Host) Planner() *plan.Planner { return h.now.Load().planner }

// Plans are the plans of the store.
func (h *Host) Plans() *plan.Store { return h.plans }

// PlanStore returns the plans of a configuration's store, for commands that start nothing
// else.
func PlanStore(cfg *config.Config, log *slog.Logger) *plan.Store {
	return plan.NewStore(plansDir(cfg), newSealer(cfg.Store.Dir, log), time.Now)
}

func plansDir(cfg *config.Config) string { return filepath.Join(cfg.Store.Dir, "plans") }

// toolPlanner implements builtin.Planner.
type toolPlanner struct{ *plan.Planner }

// Make implements builtin.Planner.
func (p toolPlanner) Make(ctx context.Context, of plan.Subject, call route.Call) (*plan.File, *compose.Failure) {
	file, _, f := p.Planner.Make(ctx, of, call)
	return file, f
}

// secretIn returns whether text has a secret.
func secretIn(m *config.Masker) func(text []byte) bool {
	return func(text []byte) bool { return m.Mask(string(text)) != string(text) }
}
