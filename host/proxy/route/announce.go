package route

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Announce sends a log message of our own (notifications/message, revision 2025-11-25,
// server/utilities/logging) to the sessions that have asked for messages of this level. logger
// names the part of mcp-metatool that sends the message.
func (r *Router) Announce(level, logger, text string) {
	severity := slices.Index(logLevels, level)
	var params wire.Object
	params.Text("level", level)
	params.Text("logger", logger)
	params.Text("data", text)
	raw := params.Bytes()
	for _, s := range r.sessions(func(c *client) bool {
		least := slices.Index(logLevels, c.level)
		return least >= 0 && severity >= least
	}) {
		s.Notify(protocol.NotificationMessage, raw)
	}
}
