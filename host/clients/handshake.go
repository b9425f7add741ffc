package clients

import (
	"bytes"
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/rpc"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// handshake is the state of the handshake of a session.
type handshake int

const (
	handshakeNone        handshake = iota
	handshakeInitialized           // initialize was received
	handshakeDone                  // notifications/initialized was received
)

// initialize answers an initialize request.
func (s *Session) initialize(r *rpc.Request) {
	if bad := s.negotiate(r.Params); bad != nil {
		r.Reply(wire.Reply{Error: bad.Raw()})
		return
	}
	r.Start(beginSession)
}

// negotiate sets the revision of the session; see [protocol.Era.Negotiate].
func (s *Session) negotiate(params []byte) *wire.RPCError {
	version, ok := wire.GetString(params, "protocolVersion")
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "initialize: params.protocolVersion must be a string")
	}
	if bad := envelope.CheckClient(params); bad != nil {
		return bad
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handshake != handshakeNone {
		return wire.Errorf(wire.CodeInvalidRequest, "invalid request: the session is initialized already")
	}
	s.handshake, s.params, s.begun = handshakeInitialized, bytes.Clone(params), true // the message may have more
	s.revision = protocol.Handshake.Negotiate(version)
	s.conn.SetBatches(s.revision.Has(protocol.Batches))
	return nil
}

// uninitialize lets the client try again after a failed initialize.
func (s *Session) uninitialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handshake, s.params, s.revision = handshakeNone, nil, protocol.Revision{}
	s.conn.SetBatches(false)
}

// initialized takes notifications/initialized.
func (s *Session) initialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handshake == handshakeInitialized {
		s.handshake = handshakeDone
	}
}

// isInitialized reports whether initialize was received.
func (s *Session) isInitialized() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handshake != handshakeNone
}

// beginSession answers initialize when the backend knows the capabilities.
func beginSession(ctx context.Context, r *rpc.Request) wire.Reply {
	s := sessionOf(r)
	w, err := s.opts.Backend.BeginSession(ctx, s)
	if err != nil {
		s.uninitialize()
		var bad *wire.RPCError
		if errors.As(err, &bad) {
			return wire.Reply{Error: bad.Raw()}
		}
		return fail(wire.CodeInternal, "initialize: %v", err)
	}
	s.persist(ctx, r.Method)
	var server, result wire.Object
	server.Text("name", s.opts.Name)
	server.Text("version", s.opts.Version)
	result.Text("protocolVersion", s.Revision().String())
	result.Raw("capabilities", w.Capabilities)
	result.Raw("serverInfo", server.Bytes())
	result.NonEmpty("instructions", w.Instructions)
	result.Raw("_meta", w.Meta)
	return wire.Reply{Result: result.Bytes()}
}

func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}
