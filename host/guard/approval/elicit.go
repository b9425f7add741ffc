package approval

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
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
