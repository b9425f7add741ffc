package compose

import (
	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Listeners knows which clients want log messages; see route.Router.
type Listeners interface {
	// Listens reports whether a session has asked for messages of the given level.
	Listens(s route.Session, level string) bool
}

// logNames are the levels of entries as MCP names them (revision 2025-11-25,
// server/utilities/logging).
var logNames = map[abi.LogLevel]string{abi.LogInfo: "info", abi.LogWarn: "warning", abi.LogError: "error"}

// maxForwarded limits the log entries of a run for a client: with more, a slow client could lose
// its session. The result has all entries.
const maxForwarded = 256

// Log implements sandbox.Caller. An entry of the script's log is written to the journal. send sends
// the entry to the client, if the client has asked for entries of the level.
func (r *run) Log(level abi.LogLevel, text string) (send func()) {
	r.top.Log(level, text)
	if r.cfg.Listeners == nil || r.origin == nil || r.resumed.silent() || r.forwarded >= maxForwarded || !r.cfg.Listeners.Listens(r.origin.Session(), logNames[level]) {
		return nil
	}
	if r.forwarded++; r.forwarded == maxForwarded {
		text = "this script logs too much: later entries are only in its result"
	}
	var params wire.Object
	params.NonEmpty("level", logNames[level])
	params.Text("logger", r.tool)
	params.Text("data", text)
	if meta := ifcMeta(r.tell(0)); meta != nil {
		params.Raw("_meta", meta)
	}
	return func() { r.origin.Notify(protocol.NotificationMessage, params.Bytes()) }
}
