package host

import (
	"errors"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose/shadow"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// flowState is the state of information flow, apart from its configuration.
type flowState struct {
	slots   *shadow.Slots
	servers *ServerLabels

	mu  sync.Mutex
	box *sandbox.Sandbox // of shadows; nil before the first shadow
	odd map[string]bool  // servers about whose labels a warning was logged
}

// openFlow prepares information flow. It creates no file and no sandbox, since most processes need
// neither.
func (h *Host) openFlow(cfg *config.Config) {
	h.flow.slots = shadow.NewSlots(flow.DefaultMaxShadows)
	if h.fleet != nil {
		h.flow.servers = NewServerLabels(h.fleet.Store(), nil)
		return
	}
	docs := files.Open(files.Options{Dir: cfg.Store.Dir, Log: h.opts.Log})
	h.flow.servers = NewServerLabels(docs, docs.Close)
}

// close ends the sandbox of shadows, whose runs have ended.
func (f *flowState) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.servers.Close()
	if f.box != nil {
		err = errors.Join(err, f.box.Close())
	}
	return err
}

// shadowBox returns the sandbox of shadows, with the same guest, but separate slots and a separate
// queue: shadows neither take the slots of runs nor wait for runs.
func (h *Host) shadowBox() (compose.Sandbox, error) {
	h.flow.mu.Lock()
	defer h.flow.mu.Unlock()
	if h.flow.box == nil {
		box, err := h.sandbox.Share(sandbox.Options{Log: h.opts.Log, Budget: h.sandbox.Budget()})
		if err != nil {
			return nil, err
		}
		h.flow.box = box
	}
	return h.flow.box, nil
}

// flowOf returns how runs of clients are followed; nil: they are not.
func (h *Host) flowOf(cfg *config.Config, of audience) *compose.Flow {
	if cfg.Flow == nil {
		return nil
	}
	h.flow.slots.SetMost(cfg.Flow.MaxShadows)
	return &compose.Flow{
		Settings: *cfg.Flow, Sandbox: h.shadowBox, Slots: h.flow.slots, Definitions: of.Definitions,
		Inherited: h.flow.servers.Read, Keep: h.flow.servers.Add, Session: h.flowSession, Odd: h.oddLabels,
	}
}

// flowSession returns the remembered labels of the session of an origin; nil for none.
func (h *Host) flowSession(o route.Origin) shadow.Session {
	called := h.router.Called(o.Session())
	if called == nil {
		return nil
	}
	return sessionLabels{called}
}

// sessionLabels implements shadow.Session.
type sessionLabels struct{ of *policy.History }

// Label implements shadow.Session.
func (s sessionLabels) Label(set flow.Labels) {
	s.of.Give(policy.Given{Private: set.Has(flow.Private), Untrusted: set.Has(flow.Untrusted)})
}

// Flag implements shadow.Session.
func (s sessionLabels) Flag() { s.of.Give(policy.Given{Flagged: true}) }

// Flagged implements shadow.Session.
func (s sessionLabels) Flagged() bool { return s.of.Given().Flagged }

// answerLabels returns the labels of an answer that a client gets from a server directly. The
// definition of the tool also counts.
func (h *Host) answerLabels(server, name string, result []byte) flow.Labels {
	cfg := h.config().Flow
	if cfg == nil {
		return 0
	}
	meta, _ := wire.Get(result, "_meta")
	rules := flow.Rules{Settings: *cfg, Definition: h.catalog.Definition, Odd: h.oddLabels, Inherited: h.flow.servers.Last()}
	return rules.Source(server, name, meta)
}

// oddLabels logs, once for each server, unintelligible labels in an answer.
func (h *Host) oddLabels(server string, ifc []byte) {
	h.flow.mu.Lock()
	defer h.flow.mu.Unlock()
	if h.flow.odd[server] {
		return
	}
	if h.flow.odd == nil {
		h.flow.odd = map[string]bool{}
	}
	h.flow.odd[server] = true
	h.opts.Log.Warn("the server says something about labels of its answers that is not understood, so that they count as labelled",
		"server", server, "ifc", display.ClipSize(string(ifc), 200))
}

// clientLabels implements builtin.Labels.
type clientLabels struct{ *Host }

// Of implements builtin.Labels.
func (h clientLabels) Of(o route.Origin) []string {
	if o == nil {
		return nil
	}
	given := h.router.Called(o.Session()).Given()
	var set flow.Labels
	if given.Private {
		set |= flow.Of(flow.Private)
	}
	if given.Untrusted {
		set |= flow.Of(flow.Untrusted)
	}
	return set.Names()
}

// Give implements builtin.Labels.
func (h clientLabels) Give(o route.Origin, names []string) {
	if o != nil {
		h.router.Label(o.Session(), flow.ParseLabels(names))
	}
}
