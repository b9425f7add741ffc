package host

import (
	"context"
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/approval"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/policy"
)

// newApprover makes the part that asks people. The recorder must have been made.
func (h *Host) newApprover(cfg *config.Config) *approval.Approver {
	h.approvals = approval.OpenQueue(cfg.Store.Dir, h.opts.Log)
	return approval.New(approval.Options{
		Queue: h.approvals, Redact: h.recorder.RedactJSON, Person: h.opts.Person, Log: h.opts.Log,
		Settings: func() approval.Settings { return approvalSettings(h.config().Approval) },
	})
}

func approvalSettings(a config.Approval) approval.Settings {
	return approval.Settings{
		By: approval.By(a.By), Wait: approval.Wait(a.Wait),
		Timeout: a.Timeout, Remember: a.Remember, MaxWaiting: a.MaxWaiting,
	}
}

// rulesTime bounds how long a reload waits for other processes that change approvals.
const rulesTime = 2 * time.Second

// keepRules ends the remembered approvals for rules that a configuration does not have. Only
// processes that serve clients do that: a command may have another configuration for a
// moment.
func (h *Host) keepRules(cfg *config.Config) {
	if h.opts.Clients == NoClient {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rulesTime)
	defer cancel()
	err := h.approvals.KeepRules(ctx, func(rule string) bool {
		return rule == policy.DefaultRule && cfg.Policy.Default == policy.Ask ||
			slices.ContainsFunc(cfg.Policy.Rules, func(r policy.Rule) bool { return r.Name == rule && r.Action == policy.Ask })
	})
	if err != nil {
		h.opts.Log.Warn("remembered approvals for rules that there are no more are still there; they do not count", "err", err)
	}
}
