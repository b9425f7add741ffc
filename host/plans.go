package host

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/plan"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// Planner makes and applies plans, with the current configuration.
func (h *Host) Planner() *plan.Planner { return h.now.Load().planner }

// Plans are the plans of the store.
func (h *Host) Plans() *plan.Store { return h.plans }

// openPlans opens the plans of the store or of the fleet.
func (h *Host) openPlans(cfg *config.Config) {
	if h.fleet != nil {
		h.plans = fleetPlans(h.fleet.Store(), h.ring)
		return
	}
	h.plans = plan.NewStore(plansDir(cfg), h.sealer, time.Now)
}

// fleetPlans returns the plans of a fleet.
func fleetPlans(docs store.Store, ring *sealed.Ring) *plan.Store {
	sealer := requeststate.NewShared(requeststate.Options{Keys: func() [][]byte { return ring.Derive("plans") }, Now: time.Now})
	return plan.NewStoreIn(plan.InFleet(docs, time.Now), sealer, time.Now)
}

// PlanStore returns the plans of a configuration for a command without a Host. The caller must call
// end.
func PlanStore(ctx context.Context, cfg *config.Config, log *slog.Logger) (plans *plan.Store, end func() error, err error) {
	if len(cfg.Store.NATS) == 0 {
		return plan.NewStore(plansDir(cfg), newSealer(cfg, log), time.Now), func() error { return nil }, nil
	}
	ring, err := fleetRing(cfg)
	if err != nil {
		return nil, nil, err
	}
	docs, err := commandStore(ctx, cfg, log)
	if err != nil {
		return nil, nil, fmt.Errorf("plans: %w", err)
	}
	return fleetPlans(docs, ring), docs.Close, nil
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
