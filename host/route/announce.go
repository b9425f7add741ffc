package route

import (
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Announce sends a log message of our own (notifications/message, revision
// 2025-11-25, server/utilities/logging) to the sessions that have asked for
// messages of that level. logger says what of us it comes from.
func (r *Router) Announce(level, logger, text string) {
	severity := slices.Index(logLevels, level)
	params := []byte(`{"level":`)
	params = append(append(params, wire.Quote(level)...), `,"logger":`...)
	params = append(append(params, wire.Quote(logger)...), `,"data":`...)
	params = append(append(params, wire.Quote(text)...), '}')
	for _, s := range r.sessions(func(c *client) bool {
		least := slices.Index(logLevels, c.level)
		return least >= 0 && severity >= least
	}) {
		s.Notify("notifications/message", params)
	}
}
