// Package approval asks people before calls for which policy says "ask", and remembers their
// decisions. Begin with [Approver]: it asks the client ([Question]), or puts the call into a
// [Queue].
//
// All texts of servers and clients are hostile here: people decide by the names, arguments and
// reasons that they are shown, and a client may answer without asking any person. See
// docs/approvals.md for the worth of each way of asking.
package approval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Options of an Approver.
type Options struct {
	Queue *Queue
	// Settings returns the current settings.
	Settings func() Settings
	// Redact replaces the secrets in arguments, a raw JSON value, before people see them.
	Redact func(raw []byte) []byte
	// Person, when set, is asked in place of clients and the queue. Commands and checks set Person,
	// since their user is present.
	Person Person
	Log    *slog.Logger
}

// Person decides about a call. The error is the cause of ctx, or says why no person can be asked,
// which denies the call.
type Person func(ctx context.Context, q Question) (Verdict, error)

// Verdict is the decision of a person.
type Verdict struct {
	Allow    bool
	Remember Remember
	Note     string // may be ""
	// By says who has decided, for the journal and for the error of a denied call.
	By string
}

// Remember says for which later calls a decision counts.
type Remember string

// The values of Remember.
const (
	Once     Remember = ""      // for none
	ForValue Remember = "value" // calls with the same arguments
	ForShape Remember = "shape" // calls with arguments of the same shape; see Subject
)

// Approver asks people about calls. Concurrent use is safe.
type Approver struct {
	opts Options

	mu      sync.Mutex // a leaf
	waiting map[string]int
	all     int
}

// New makes an Approver.
func New(opts Options) *Approver {
	return &Approver{opts: opts, waiting: map[string]int{}}
}

// Approve waits until a person has decided about a call, or answers from an earlier decision. A nil
// error means: the call may be made now, once. Otherwise the error is a *DeniedError, a
// *WaitingError, or the cause of ctx. The Approval is for the journal, and is set in both cases.
//
// Approve implements route.Gate.
func (a *Approver) Approve(ctx context.Context, ask route.Asking) (policy.Approval, error) {
	begun := time.Now()
	made, err := a.approve(ctx, ask)
	made.Allowed, made.Waited = err == nil, time.Since(begun)
	if made.At.IsZero() {
		made.At = time.Now()
	}
	return made, err
}

func (a *Approver) approve(ctx context.Context, ask route.Asking) (policy.Approval, error) {
	settings := a.opts.Settings()
	denied := func(how, format string, args ...any) error {
		return &DeniedError{Target: ask.Request.Target(), Rule: ask.Decision.Rule, How: how, Text: fmt.Sprintf(format, args...)}
	}
	subject, digest, err := a.opts.Queue.subject(ctx, ask)
	if err != nil {
		return policy.Approval{How: HowUnanswered}, denied(HowUnanswered, "nobody can be asked: %v", err)
	}
	made := policy.Approval{Digest: digest}
	if r, ok := a.opts.Queue.recall(ctx, subject, settings.By); ok {
		err := r.decides(ask, &made)
		return made, err
	}
	leave, err := a.enter(ask, settings)
	if err != nil {
		made.How = HowUnanswered
		return made, denied(HowUnanswered, "%v", err)
	}
	defer leave()
	question := a.question(ask, settings, digest)
	if a.opts.Person != nil {
		verdict, err := a.opts.Person(ctx, question)
		made.How, made.By = HowTerminal, verdict.By
		if err != nil {
			return made, a.unasked(ctx, ask, err)
		}
		return made, a.conclude(ctx, ask, subject, question, verdict, &made)
	}
	if settings.By != ByQueue && asksByForm(ask.Origin) {
		verdict, err := a.elicit(ctx, ask.Origin, question, settings)
		made.How, made.By = HowClient, clientName(ask.Request.Caller)
		verdict.By = made.By
		switch {
		case err == nil:
			return made, a.conclude(ctx, ask, subject, question, verdict, &made)
		case settings.By == ByClient || !errors.Is(err, errUnaskable):
			return made, a.unasked(ctx, ask, err)
		}
		a.opts.Log.Warn("the client cannot be asked for an approval, so the call waits in the queue", "target", ask.Request.Target(), "err", err)
	}
	if settings.By == ByClient {
		made.How = HowUnanswered
		return made, denied(HowUnanswered, "the client cannot ask its user (it does not declare elicitation by forms), and [approval] by is %q", settings.By)
	}
	return a.enqueue(ctx, ask, subject, question, settings, made)
}

// decides notes a decision that counts for a call, and returns the call's error.
func (r *Remembered) decides(ask route.Asking, made *policy.Approval) error {
	made.ID, made.By, made.How, made.Remembered, made.At, made.Note = r.ID, r.By, HowRemembered, true, r.Created, r.Note
	return r.verdict().error(ask, HowRemembered)
}

// conclude remembers a verdict, if the verdict says so, and returns the error for the call.
func (a *Approver) conclude(ctx context.Context, ask route.Asking, subject Subject, q Question, v Verdict, made *policy.Approval) error {
	if v.Remember != Once && a.opts.Settings().Remember > 0 {
		id, err := a.opts.Queue.remember(ctx, subject, q, v, made.How, a.opts.Settings().Remember)
		if err != nil { // the decision about this call counts nevertheless
			a.opts.Log.Warn("an approval was not remembered", "target", subject.Target, "err", err)
		}
		made.ID = cmp.Or(made.ID, id)
	}
	return v.error(ask, made.How)
}

// error returns the error for a call with a verdict; nil if the call is allowed.
func (v Verdict) error(ask route.Asking, how string) error {
	if v.Allow {
		return nil
	}
	return &DeniedError{Target: ask.Request.Target(), Rule: ask.Decision.Rule, How: how, By: v.By, Note: v.Note}
}

// unasked returns the error for a call about which no person has decided.
func (a *Approver) unasked(ctx context.Context, ask route.Asking, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, route.ErrAsksLater) {
		return err
	}
	return &DeniedError{Target: ask.Request.Target(), Rule: ask.Decision.Rule, How: HowUnanswered, Text: err.Error()}
}

// clientName says who answers for a client.
func clientName(c policy.Caller) string {
	switch {
	case c.Token:
		return "client with the token " + quote(c.Client, maxName)
	case c.Client != "":
		return "client " + quote(c.Client, maxName)
	}
	return "client"
}
