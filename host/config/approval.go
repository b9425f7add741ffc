package config

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Approval says how people are asked about calls for which policy says "ask"; see package
// approval.
type Approval struct {
	By   ApprovalBy
	Wait ApprovalWait
	// Timeout is how long people have to decide.
	Timeout time.Duration
	// Remember is how long a decision counts if it is remembered; 0: none is.
	Remember time.Duration
	// MaxWaiting bounds the calls of one client that wait at a time.
	MaxWaiting int
}

// ApprovalBy says who is asked.
type ApprovalBy string

// The values of ApprovalBy.
const (
	ApprovalByClient ApprovalBy = "client"             // the user of the client
	ApprovalByQueue  ApprovalBy = "queue"              // the user of the process
	ApprovalByEither ApprovalBy = "client, else queue" // the client's user if the client can ask, else that of the process
)

// ApprovalWait says what becomes of a call in the queue.
type ApprovalWait string

// The values of ApprovalWait.
const (
	ApprovalHold   ApprovalWait = "hold"   // it waits until somebody has decided
	ApprovalAnswer ApprovalWait = "answer" // it is answered, and can be made again
)

// defaultApproval is [approval] of an empty configuration.
var defaultApproval = Approval{
	By: ApprovalByEither, Wait: ApprovalHold, Timeout: 10 * time.Minute, Remember: 8 * time.Hour, MaxWaiting: 16,
}

// Bounds of [approval].
const (
	minApprovalTimeout = time.Second
	maxApprovalTimeout = 7 * 24 * time.Hour
	maxRemember        = 90 * 24 * time.Hour
	maxApprovals       = 200
)

// approvalAliases are keys that people may write instead.
var approvalAliases = map[string]string{"who": "by", "remembered": "remember", "ttl": "timeout", "maxheld": "max_waiting", "limit": "max_waiting"}

// decodeApproval reads [approval].
func decodeApproval(t *table, c *Config) {
	if t == nil {
		return
	}
	a := &c.Approval
	choice(t, "by", &a.By, ApprovalByClient, ApprovalByQueue, ApprovalByEither)
	choice(t, "wait", &a.Wait, ApprovalHold, ApprovalAnswer)
	t.duration("timeout", &a.Timeout, minApprovalTimeout, maxApprovalTimeout)
	t.duration("remember", &a.Remember, 0, maxRemember)
	t.count(t.key("max_waiting"), &a.MaxWaiting, 1, maxApprovals)
	t.close(approvalAliases)
}

// approval describes how people are asked.
func (d *description) approval(a Approval) {
	text := "by " + string(a.By) + ", wait = " + string(a.Wait) + ", for " + units.FormatDuration(a.Timeout)
	if a.Remember > 0 {
		text += ", remembered for " + units.FormatDuration(a.Remember)
	}
	d.line("approval", text)
}
