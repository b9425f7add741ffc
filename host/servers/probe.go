package servers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers/link"
	"github.com/mcp-metatool/mcp-metatool/host/servers/stateless"
)

// Finding is the result of Probe.
type Finding struct {
	// Era is the era shown by the answer: protocol.Stateless if the server answers server/discover,
	// protocol.Handshake if the server answers as if server/discover were unknown, and 0 if the
	// answer is inconclusive.
	Era      protocol.Era
	Revision string // of the stateless era; "" if the server has none
	Text     string // for people
}

// probeWait is how long a server may take to start and to answer a probe.
const probeWait = 30 * time.Second

// Probe asks a server for the server's era, over a separate connection. A server over stdio is
// started once more for the question, so that no connection in use can be harmed.
func Probe(ctx context.Context, spec Spec, name, version string) Finding {
	if spec.transport() == TransportSSE {
		return Finding{Era: protocol.Handshake, Text: "HTTP+SSE is only part of revisions that begin with initialize"}
	}
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeoutCause(ctx, probeWait, fmt.Errorf("no answer to %s within %v", protocol.MethodDiscover, probeWait))
	defer cancel()
	opts := link.Options{MaxMessage: spec.MaxMessage, Handler: link.Callbacks{}, Errors: CallErrors(spec.Name), Log: log}
	l, err := dial(ctx, spec, opts, newAllowance(log, "lines on stderr"))
	if err != nil {
		return Finding{Text: link.Excerpt(err.Error())}
	}
	s := stateless.New(l, protocol.Stateless.Newest(), stateless.Options{
		Upstream: spec.Name, Client: ClientParams{Name: name, Version: version}.Params(),
		HTTP: spec.transport() == TransportHTTP, Errors: CallErrors(spec.Name), Log: log,
	})
	defer s.Shutdown(time.Second, ctx.Done())
	server, err := s.Discover(ctx)
	var other *stateless.OtherEraError
	switch {
	case err == nil:
		return Finding{protocol.Stateless, server.Revision.String(), protocol.MethodDiscover + " was answered"}
	case errors.As(err, &other):
		return Finding{Era: protocol.Handshake, Text: other.Reason}
	case l.Err() != nil && spec.transport() == TransportStdio:
		return Finding{Era: protocol.Handshake, Text: fmt.Sprintf("%s made it end: %s", protocol.MethodDiscover, link.Excerpt(err.Error()))}
	}
	return Finding{Text: link.Excerpt(err.Error())}
}
