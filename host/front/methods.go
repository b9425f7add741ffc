package front

import (
	"context"
	"errors"

	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// work answers a request.
type work func(s *Session, ctx context.Context, req *request) wire.Reply

// lookup finds the work of a request; nil with the reply where there is none
// to do.
func (s *Session) lookup(msg wire.Message) (work, wire.Reply) {
	switch msg.Method {
	case protocol.MethodInitialize:
		if bad := s.negotiate(msg.Params); bad != nil {
			return nil, wire.Reply{Error: bad.Raw()}
		}
		return (*Session).welcome, wire.Reply{}
	case protocol.MethodPing:
		return nil, wire.Reply{Result: []byte("{}")}
	}
	s.mu.Lock()
	early := s.client == connected
	s.mu.Unlock()
	if early {
		return nil, fail(wire.CodeInvalidRequest, "invalid request: %s before initialize", msg.Method)
	}
	return (*Session).handle, wire.Reply{}
}

func fail(code int, format string, args ...any) wire.Reply {
	return wire.Reply{Error: wire.Errorf(code, format, args...).Raw()}
}

func (s *Session) notification(msg wire.Message) {
	switch msg.Method {
	case protocol.NotificationInitialized:
		s.mu.Lock()
		if s.client == initialized {
			s.client = operating
		}
		s.mu.Unlock()
	case protocol.NotificationCancelled:
		s.cancelled(msg.Params)
	case protocol.NotificationProgress:
		s.clientProgress(msg.Params)
	case protocol.NotificationTaskStatus:
		s.taskStatus(msg.Params)
		s.opts.Backend.Notified(s, msg.Method, msg.Params)
	default:
		s.opts.Backend.Notified(s, msg.Method, msg.Params)
	}
}

// negotiate settles the revision of the session; see [protocol.Era.Negotiate].
func (s *Session) negotiate(params []byte) *wire.RPCError {
	version, ok := wire.GetString(params, "protocolVersion")
	if !ok {
		return wire.Errorf(wire.CodeInvalidParams, "initialize: params.protocolVersion must be a string")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != connected {
		return wire.Errorf(wire.CodeInvalidRequest, "invalid request: the session is initialized already")
	}
	s.client, s.params, s.begun = initialized, params, true
	s.revision = protocol.Handshake.Negotiate(version)
	return nil
}

// uninitialize lets the client try again after a failed initialize.
func (s *Session) uninitialize() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client, s.params, s.revision = connected, nil, protocol.Revision{}
}

type serverInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// welcome answers initialize once the backend knows what there is to offer.
func (s *Session) welcome(ctx context.Context, _ *request) wire.Reply {
	w, err := s.opts.Backend.Welcome(ctx, s)
	if err != nil {
		s.uninitialize()
		var bad *wire.RPCError
		if errors.As(err, &bad) {
			return wire.Reply{Error: bad.Raw()}
		}
		return fail(wire.CodeInternal, "initialize: %v", err)
	}
	b := append([]byte(`{"protocolVersion":`), wire.Quote(s.Revision().String())...)
	b = append(append(b, `,"capabilities":`...), w.Capabilities...)
	b = append(append(b, `,"serverInfo":`...), wire.Marshal(serverInfo{s.opts.Name, s.opts.Version})...)
	if w.Instructions != "" {
		b = append(append(b, `,"instructions":`...), wire.Quote(w.Instructions)...)
	}
	if w.Meta != nil {
		b = append(append(b, `,"_meta":`...), w.Meta...)
	}
	return wire.Reply{Result: append(b, '}')}
}

// handle answers what is not of the session itself.
func (s *Session) handle(ctx context.Context, req *request) wire.Reply {
	msg := req.msg
	for _, surface := range wire.Surfaces {
		if msg.Method == surface.ListMethod() {
			s.mu.Lock()
			s.listed[surface] = true // before it is read: no change may fall in between
			s.mu.Unlock()
		}
	}
	return s.opts.Backend.Handle(ctx, req.call())
}

// call is the request as the backend sees it.
func (r *request) call() route.Call {
	return route.Call{Method: r.msg.Method, Origin: r, Params: r.msg.Params, Progress: r.progress(r.msg.Params)}
}
