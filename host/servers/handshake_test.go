package servers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// handshakeConn is a Conn that records the steps of the handshake and answers its
// request.
type handshakeConn struct {
	reply wire.Reply
	steps []string
}

func (c *handshakeConn) Call(_ context.Context, call wire.Call) (wire.Reply, error) {
	c.steps = append(c.steps, call.Method+string(call.Params))
	return c.reply, nil
}

func (c *handshakeConn) Notify(_ context.Context, method string, params []byte) error {
	c.steps = append(c.steps, method+string(params))
	return nil
}

func (c *handshakeConn) Negotiated(revision protocol.Revision) {
	c.steps = append(c.steps, revision.String())
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	const raw = `{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"x":1e400},"serverInfo":{"name":"srv","version":"2"},"instructions":"do","_meta":{}}`
	conn := &handshakeConn{reply: wire.Reply{Result: []byte(raw)}}
	res, err := Initialize(t.Context(), conn, ClientParams{Name: `n"`, Version: "1", Capabilities: []byte(`{"roots":{}}`)}.Params())
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{
		`initialize{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"n\"","version":"1"}}`,
		"2024-11-05",
		"notifications/initialized",
	}; !slices.Equal(conn.steps, want) {
		t.Errorf("got  %q\nwant %q", conn.steps, want)
	}
	if res.ProtocolVersion != "2024-11-05" || res.ServerName != "srv" || res.ServerVersion != "2" || res.Instructions != "do" ||
		string(res.Capabilities) != `{"tools":{},"x":1e400}` || string(res.Raw) != raw {
		t.Errorf("got %+v", res)
	}
}

func TestInitializeRefused(t *testing.T) {
	t.Parallel()
	var version *VersionError
	var refused *wire.RPCError
	for _, tt := range []struct {
		result, err string
		as          any
	}{
		{`{"protocolVersion":"2099-01-01","capabilities":{}}`, "", &version},
		{`{"protocolVersion":"2026-07-28","capabilities":{}}`, "", &version},
		{`{"capabilities":{}}`, "", &version},
		{`[]`, "", &version},
		{"", `{"code":-32602,"message":"Unsupported protocol version"}`, &refused},
	} {
		conn := &handshakeConn{}
		if tt.err != "" {
			conn.reply.Error = []byte(tt.err)
		} else {
			conn.reply.Result = []byte(tt.result)
		}
		if _, err := Initialize(t.Context(), conn, ClientParams{}.Params()); !errors.As(err, tt.as) {
			t.Errorf("%s%s: %v", tt.result, tt.err, err)
		}
		if len(conn.steps) != 1 {
			t.Errorf("%s%s: went on with %q", tt.result, tt.err, conn.steps[1:])
		}
	}
}
