package host

import (
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// Reload brings the Host up to another configuration, and tells how that
// differs from the one in force. Upstreams that were added are started, those
// that were removed or changed finish their calls under way and are then ended,
// and those that are reached as before go on undisturbed, whatever they are
// called now. Sessions are told of the lists that are others.
//
// Settings that cannot change at run time keep the values they have. Reload does
// not wait for upstreams; the error is wire.ErrClosed once the Host is closed.
func (h *Host) Reload(cfg *config.Config) (Changes, error) {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	changes, cfg := h.compare(h.config(), cfg)
	// Before their upstreams are there: those may list at once. And no more is
	// resolved to those that are about to go.
	h.catalog.SetSources(sources(cfg))
	h.recorder.apply(cfg)
	now := h.settings(cfg)
	h.now.Store(now)
	h.admit()
	if !h.upstreams.apply(cfg) {
		return Changes{}, wire.ErrClosed
	}
	h.catalog.SetBuiltins(now.manager.Entries()) // they name the servers
	return changes, nil
}
