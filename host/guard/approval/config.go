package approval

import "time"

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
