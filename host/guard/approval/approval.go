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
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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
// error means that the call may be made now, once. Otherwise the error is a *DeniedError, a
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
		return policy.Approval{How: HowUnanswered}, denied(HowUnanswered, "no person can be asked: %v", err)
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

// By says who is asked.
type By string

// The values of By, as in the configuration.
const (
	ByClient By = "client"             // the client, by elicitation
	ByQueue  By = "queue"              // the user of the process, who reads the queue
	ByEither By = "client, else queue" // the client if the client can be asked, else the queue
)

// Wait says how a call waits in the queue.
type Wait string

// The values of Wait, as in the configuration.
const (
	Hold   Wait = "hold"   // the answer comes after the decision
	Answer Wait = "answer" // the answer comes at once, with the id of the approval
)

// Settings are the keys of [approval]; see docs/configuration.md.
type Settings struct {
	By   By
	Wait Wait
	// Timeout is how long people have to decide.
	Timeout time.Duration
	// Remember is how long decisions are remembered; 0: nothing is.
	Remember time.Duration
	// MaxWaiting bounds the calls of a client that wait for approval at a time.
	MaxWaiting int
}

// The ways in which a call was decided, in the journal.
const (
	HowClient     = "client"     // by elicitation
	HowQueue      = "queue"      // mcp-metatool approvals
	HowPage       = "page"       // mcp-metatool ui
	HowTerminal   = "terminal"   // the user of a command
	HowRemembered = "remembered" // by an earlier decision
	HowUnanswered = "nobody"     // no person was asked, or none has answered
)

// The values of "decision" in the answer to an elicitation. People read the values too, since not
// all clients show titles.
const (
	allowOnce     = "allow once"
	allowRemember = "allow and remember"
	denyCall      = "deny"
)

// asksByForm reports whether a client can be asked by a form.
func asksByForm(o route.Origin) bool { return o != nil && route.TakesForms(o) }

// form returns the params of elicitation/create: the question and a flat schema for the
// answer (revision 2025-06-18, client/elicitation, "Requested Schema").
func (q Question) form() []byte {
	choices := []string{allowOnce, allowRemember, denyCall}
	remember := fmt.Sprintf("%q also allows the same call, with the same arguments, for %s.", allowRemember, q.remembering())
	if q.RememberFor <= 0 {
		choices, remember = []string{allowOnce, denyCall}, ""
	}
	var params wire.Object
	params.Text("message", q.Text())
	params.Raw("requestedSchema", wire.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"decision": withDescription(map[string]any{"type": "string", "title": "Decision", "enum": choices}, remember),
			"note":     map[string]any{"type": "string", "title": "Note", "description": "Optional. The caller gets it if the call is denied.", "maxLength": maxNote},
		},
		"required": []string{"decision"},
	}))
	return params.Bytes()
}

func withDescription(schema map[string]any, text string) map[string]any {
	if text != "" {
		schema["description"] = text
	}
	return schema
}

// elicit asks the client. errors.Is(err, errUnaskable) if another person can be asked.
func (a *Approver) elicit(ctx context.Context, o route.Origin, q Question, s Settings) (Verdict, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, errExpired)
	defer cancel()
	reply, err := o.Ask(limited, wire.Call{Method: protocol.MethodElicit, Params: q.form(), Own: true})
	switch {
	case errors.Is(err, errExpired):
		return Verdict{}, fmt.Errorf("the client has not answered within %v", s.Timeout)
	case errors.Is(err, route.ErrNotListening):
		return Verdict{}, fmt.Errorf("%w: %w", errUnaskable, err)
	case err != nil:
		return Verdict{}, err
	case reply.Error != nil:
		return Verdict{}, fmt.Errorf("%w: it answered %s", errUnaskable, quote(wire.ParseError(reply.Error).Message, maxNote))
	}
	return readAnswer(reply.Result, q), nil
}

// readAnswer returns the verdict in the result of elicitation/create. An answer without a clear
// permission denies the call.
func readAnswer(result []byte, q Question) Verdict {
	if action, _ := wire.GetString(result, "action"); action != "accept" {
		return Verdict{}
	}
	content, _ := wire.Get(result, "content")
	var v Verdict
	note, _ := wire.GetString(content, "note")
	v.Note, _ = clip(note, maxNote)
	switch decision, _ := wire.GetString(content, "decision"); decision {
	case allowOnce:
		v.Allow = true
	case allowRemember:
		if v.Allow = q.RememberFor > 0; v.Allow {
			v.Remember = ForValue
		}
	}
	return v
}

// maxAll bounds the calls that wait in this process for any person.
const maxAll = 1000

// asker returns the caller to whom MaxWaiting applies: the client's credentials, or else its
// session.
func asker(c policy.Caller) string { return cmp.Or(c.Principal, c.Session) }

// enter counts a waiting call. leave ends the count.
func (a *Approver) enter(ask route.Asking, s Settings) (leave func(), err error) {
	who := asker(ask.Request.Caller)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.waiting[who] >= s.MaxWaiting:
		return nil, fmt.Errorf("%w: %d of this client (max_waiting in [approval])", ErrFull, a.waiting[who])
	case a.all >= maxAll:
		return nil, fmt.Errorf("%w: %d of all clients, a fixed limit", ErrFull, a.all)
	}
	a.waiting[who]++
	a.all++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all--
		if a.waiting[who]--; a.waiting[who] == 0 {
			delete(a.waiting, who)
		}
	}, nil
}

// enqueue asks through the queue.
func (a *Approver) enqueue(ctx context.Context, ask route.Asking, subject Subject, q Question, s Settings, made policy.Approval) (policy.Approval, error) {
	queue, hold := a.opts.Queue, s.Wait != Answer
	now := queue.now()
	e, before, err := queue.enter(ctx, Entry{
		Subject: subject, Question: q, Asker: asker(ask.Request.Caller), Created: now, Expires: now.Add(s.Timeout),
	}, s)
	made.ID, made.How = e.ID, HowQueue
	switch {
	case err == nil && before != nil:
		err := before.decides(ask, &made)
		return made, err
	case err != nil:
		made.How = HowUnanswered
		return made, a.unasked(ctx, ask, err)
	case e.State != Open: // a person has decided about the same call before
		decidedBy(&made, e)
		return made, e.verdict().error(ask, made.How)
	case !hold:
		return made, &WaitingError{ID: e.ID, Target: ask.Request.Target(), Rule: ask.Decision.Rule}
	}
	stop := a.report(ctx, ask, e.ID)
	defer stop()
	limited, cancel := context.WithTimeoutCause(ctx, s.Timeout, errExpired) // whatever becomes of the clock
	defer cancel()
	done, err := queue.await(limited, e.ID)
	if err == nil {
		decidedBy(&made, done)
		return made, done.verdict().error(ask, made.How)
	}
	made.How = HowUnanswered
	if _, failed := queue.take(context.WithoutCancel(ctx), e.ID); failed != nil && !errors.Is(failed, ErrUnknown) {
		a.opts.Log.Warn("an ended call is still in the queue", "approval", e.ID, "err", failed)
	}
	if errors.Is(err, errExpired) {
		err = fmt.Errorf("no person has decided about approval %s within %v", e.ID, s.Timeout)
	}
	return made, a.unasked(ctx, ask, err)
}

// decidedBy copies the decision about an entry for the journal.
func decidedBy(made *policy.Approval, e Entry) {
	made.By, made.How, made.At, made.Note = e.Decided.By, e.Decided.How, e.Decided.At, e.Decided.Note
}

// reportEvery is the time between two progress messages to the caller of a waiting call: short
// enough for clients that give up after half a minute without progress.
const reportEvery = 10 * time.Second

// report sends progress while a call waits. stop ends the progress, and waits for the end.
func (a *Approver) report(ctx context.Context, ask route.Asking, id string) (stop func()) {
	if ask.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	message := fmt.Sprintf("waiting for approval %s of %s", id, quote(ask.Request.Target(), maxTarget))
	go func() {
		defer close(done)
		ticker := time.NewTicker(reportEvery)
		defer ticker.Stop()
		for {
			ask.Progress(message)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// DeniedError says why a call was not approved.
type DeniedError struct {
	Target string // policy.Request.Target
	Rule   string // the rule with the effect "ask"
	How    string // a constant like HowClient
	By     string // who denied the call; "" if no person was asked
	Note   string // the note of that person; may be ""
	Text   string // why the call is not allowed, if no person has denied the call
}

func (e *DeniedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not approved", quote(e.Target, maxTarget))
	switch {
	case e.By != "" && e.How == HowRemembered:
		fmt.Fprintf(&b, ": denied by %s before (rule %s)", e.By, quote(e.Rule, maxName))
	case e.By != "":
		fmt.Fprintf(&b, ": denied by %s (rule %s)", e.By, quote(e.Rule, maxName))
	default:
		fmt.Fprintf(&b, " (rule %s)", quote(e.Rule, maxName))
	}
	for _, text := range []string{e.Text, quoteNote(e.Note)} {
		if text != "" {
			b.WriteString(": " + text)
		}
	}
	return b.String()
}

// WaitingError says that the call waits in the queue, and the caller can make the call again.
type WaitingError struct {
	ID     string // of the approval
	Target string
	Rule   string
}

// Error does not name the command that allows the call: agents read the text, and some can run
// commands.
func (e *WaitingError) Error() string {
	return fmt.Sprintf("waiting for approval %s: a person must allow %s first (rule %s). "+
		"Call it again with the same arguments when it is allowed", e.ID, quote(e.Target, maxTarget), quote(e.Rule, maxName))
}

// Errors of a Queue.
var (
	// ErrUnknown is the error for an id without an approval: the approval was used, has expired, or
	// its call was cancelled.
	ErrUnknown = errors.New("there is no such approval (it was used, has expired, or its call was cancelled)")
	// ErrFull is the error for a call beyond the bound of waiting calls.
	ErrFull = errors.New("too many calls wait for approval")
)

// DecidedError is the error for a second decision.
type DecidedError struct{ Entry Entry }

func (e *DecidedError) Error() string {
	verb := "denied"
	if e.Entry.State == Allowed {
		verb = "allowed"
	}
	return fmt.Sprintf("approval %s was %s already, by %s at %s", e.Entry.ID, verb, e.Entry.Decided.By, e.Entry.Decided.At.Local().Format("15:04:05"))
}

// errUnaskable is matched by errors after which another person can be asked.
var errUnaskable = errors.New("the client cannot be asked")

// errExpired is the cause of the end of a wait for a decision.
var errExpired = errors.New("nobody has decided in time")

// errDropped is the error of a waiting call whose entry has left the queue.
var errDropped = errors.New("the call is no longer in the queue: this process was taken for dead, or the entry was removed (make the call again)")
