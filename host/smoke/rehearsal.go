package smoke

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/approval"
)

// The values of "approve" in a check.
const (
	approveAllow = "allow"
	approveDeny  = "deny"
)

// readApprove reads the decision of a person.
func (c *Check) readApprove(s *config.Section) {
	text, ok := s.String("approve")
	switch {
	case !ok:
	case c.Mock != nil:
		s.Problem("approve", `has no meaning with mock: policy is not asked about mocked calls (say denied = "..." in a mock)`)
	case text != approveAllow && text != approveDeny:
		s.Problem("approve", `%q is not one of "allow", "deny"`, text)
	default:
		c.Approve = text
	}
}

type rehearsalKey struct{}

// rehearsing returns the context of the session in which the check makes its call.
func (c *Check) rehearsing(ctx context.Context) context.Context {
	return context.WithValue(ctx, rehearsalKey{}, c)
}

// errUnexpected is the error for a question to a person in a check without the person's decision.
var errUnexpected = errors.New(`the check does not say what a person decides (approve = "allow" or "deny")`)

// rehearsed decides as the check says, and is an approval.Person.
func rehearsed(ctx context.Context, _ approval.Question) (approval.Verdict, error) {
	c, _ := ctx.Value(rehearsalKey{}).(*Check)
	if c == nil || c.Approve == "" {
		return approval.Verdict{}, errUnexpected
	}
	return approval.Verdict{Allow: c.Approve == approveAllow, By: "the check " + c.Name}, nil
}
