package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval/documents"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
)

// newApprover makes the part that asks people. The caller has made the recorder.
func (h *Host) newApprover(cfg *config.Config) *approval.Approver {
	if h.fleet != nil {
		h.approvals = approval.NewQueue(documents.InFleet(documents.Options{
			Store: h.fleet.Store(), ID: h.fleet.ID(), Alive: h.life, Log: h.opts.Log,
		}), h.opts.Log)
	} else {
		h.approvals = approval.OpenQueue(cfg.Store.Dir, h.opts.Log)
	}
	return approval.New(approval.Options{
		Queue: h.approvals, Redact: h.recorder.RedactJSON, Person: h.opts.Person, Log: h.opts.Log,
		Settings: func() approval.Settings { return approvalSettings(h.config().Approval) },
	})
}

// life returns whether another replica, in which calls wait, still runs.
func (h *Host) life(id string) documents.Life {
	switch h.fleet.Replica(id).State {
	case fleet.Silent:
		return documents.Silent
	case fleet.Gone:
		return documents.Nowhere
	}
	return documents.Runs
}

// OpenQueue opens the queue of approvals of a configuration for a command without a Host. The
// caller must Close the queue.
func OpenQueue(ctx context.Context, cfg *config.Config, log *slog.Logger) (*approval.Queue, error) {
	if len(cfg.Store.NATS) == 0 {
		return approval.OpenQueue(cfg.Store.Dir, log), nil
	}
	shared, err := commandStore(ctx, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return approval.NewQueue(documents.InFleet(documents.Options{
		Store: shared, End: func() { _ = shared.Close() }, Log: log,
	}), log), nil
}

func approvalSettings(a config.Approval) approval.Settings {
	return approval.Settings{
		By: approval.By(a.By), Wait: approval.Wait(a.Wait),
		Timeout: a.Timeout, Remember: a.Remember, MaxWaiting: a.MaxWaiting,
	}
}

// rulesTime bounds how long a reload waits for other processes that change approvals.
const rulesTime = 2 * time.Second

// keepRules ends remembered approvals whose rules a configuration does not have. Only processes
// with clients do so: a command may have another configuration for a moment. With a fleet,
// keepRules works in the background.
func (h *Host) keepRules(cfg *config.Config) {
	switch {
	case h.opts.Clients == NoClient:
	case h.fleet != nil:
		h.inFleet.later(func(ctx context.Context) error { return h.endRules(ctx, cfg) }, h.opts.Log, "remembered approvals for rules that there are no more are still there; they do not count")
	default:
		ctx, cancel := context.WithTimeout(context.Background(), rulesTime)
		defer cancel()
		if err := h.endRules(ctx, cfg); err != nil {
			h.opts.Log.Warn("remembered approvals for rules that there are no more are still there; they do not count", "err", err)
		}
	}
}

func (h *Host) endRules(ctx context.Context, cfg *config.Config) error {
	return h.approvals.KeepRules(ctx, func(rule string) bool {
		return cfg.Flow.IsAskRule(rule) || rule == policy.DefaultRule && cfg.Policy.Default == config.PolicyAsk ||
			slices.ContainsFunc(cfg.Policy.Rules, func(r config.PolicyRule) bool { return r.Name == rule && r.Action == config.PolicyAsk })
	})
}
