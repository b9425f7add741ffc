package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/saved"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// audience is a group of clients with the same rights: the tools that they see, and their saved
// tools.
type audience struct {
	*catalog.Scope
	rights *bearer.Rights // nil: not narrowed
	saved  *savedTools
}

// savedTools are saved tools, of all clients or of the clients with one token.
type savedTools struct {
	*saved.Tools
	refreshing sync.Mutex // makes one refresh at a time
	// listed is the state of the store when the catalog got its tools.
	listed atomic.Pointer[tools.Listing]
}

// savedRoom is the memory of saved tools, and of compiled schemas.
type savedRoom struct {
	budget  *budget.Budget
	schemas *tools.Schemas
}

// schemaShare divides max_total_memory: the quotient bounds the compiled schemas.
const schemaShare = 32

// newSavedRoom makes the memory of a configuration, or uses the budget of a shared sandbox.
func newSavedRoom(cfg *config.Config, shared *sandbox.Sandbox) savedRoom {
	b := budget.New(int64(cfg.Execution.MaxTotalMemory))
	if shared != nil {
		b = shared.Budget()
	}
	return savedRoom{b, tools.NewSchemas(max(1<<20, min(b.Total()/schemaShare, 4*tools.DefaultSchemas)))}
}

// everybody returns the audience with full rights.
func (h *Host) everybody() audience { return audience{h.catalog.Scope, nil, h.shared} }

// rightsOf returns the narrowed rights of tokens in a configuration.
func (h *Host) rightsOf(cfg *config.Config) (all []*bearer.Rights) {
	if h.opts.Clients != ManyClients {
		return nil
	}
	for i := range cfg.HTTP.Tokens {
		if r := cfg.HTTP.Tokens[i].Rights.Prepared(); r.Narrows() {
			all = append(all, r)
		}
	}
	return all
}

// openAll opens all saved tools.
func (h *Host) openAll(cfg *config.Config) error {
	h.own.Store(&map[string]*savedTools{})
	var err error
	if h.shared, err = h.openStore(SavedTools(cfg, "")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := h.openStores(cfg); err != nil {
		return errors.Join(err, h.closeAll())
	}
	return nil
}

// openStore opens saved tools.
func (h *Host) openStore(at saved.Place) (*savedTools, error) {
	s := &savedTools{}
	opened := make(chan struct{})
	options := saved.Options{Place: at, Log: h.opts.Log, Budget: h.room.budget, Schemas: h.room.schemas, OnChange: func() {
		select {
		case <-h.built:
			<-opened
			h.refresh(s)
		default: // New reads them later
		}
	}}
	if h.fleet != nil {
		options.Store, options.Away = h.fleet.Store(), h.away
	}
	var err error
	if s.Tools, err = saved.Open(options); err != nil {
		return nil, err
	}
	close(opened)
	return s, nil
}

// away returns why the store of the fleet does not answer; nil if the store answers.
func (h *Host) away() error {
	if away := h.fleet.Away(); away != nil {
		return away.Err
	}
	return nil
}

// openStores opens the saved tools of tokens with tools of their own, unless they are open. The
// caller holds h.reloading, or is New.
func (h *Host) openStores(cfg *config.Config) error {
	all := maps.Clone(*h.own.Load())
	for _, r := range h.rightsOf(cfg) {
		if r.Own == "" || all[r.Own] != nil {
			continue
		}
		saved, err := h.openStore(SavedTools(cfg, r.Own))
		if err != nil {
			return fmt.Errorf("saved tools of token %q: %w", r.Own, err)
		}
		all[r.Own] = saved
		h.own.Store(&all)
		all = maps.Clone(all)
	}
	return nil
}

// closeStores closes the saved tools of tokens that a configuration does not have. The caller holds
// h.reloading.
func (h *Host) closeStores(cfg *config.Config) {
	kept, rights := map[string]*savedTools{}, h.rightsOf(cfg)
	all := *h.own.Load()
	for name, saved := range all {
		if slices.ContainsFunc(rights, func(r *bearer.Rights) bool { return r.Own == name }) {
			kept[name] = saved
		}
	}
	h.own.Store(&kept)
	for name, saved := range all {
		if kept[name] != nil {
			continue
		}
		if err := saved.Close(); err != nil {
			h.opts.Log.Warn("saved tools of a token were not closed properly", "token", name, "err", err)
		}
	}
}

// audiences returns the audiences with narrowed rights. Their Scopes and stores must exist.
func (h *Host) audiences(rights []*bearer.Rights) (all []audience) {
	for _, r := range rights {
		saved := h.shared
		if r.Own != "" {
			saved = (*h.own.Load())[r.Own]
		}
		all = append(all, audience{h.catalog.For(r), r, saved})
	}
	return all
}

// setBuiltins sets the built-in tools of all audiences in the catalog. Their definitions
// name the servers.
func (h *Host) setBuiltins() {
	now := h.now.Load()
	h.catalog.SetBuiltins(now.builtins.Entries())
	for _, a := range h.audiences(h.rightsOf(now.cfg)) {
		h.catalog.SetBuiltinsOf(a.Scope, now.narrowed[a.rights.View()].builtins.Entries())
	}
}

// instructions returns our own part of the instructions for a client. They are about
// scripts.
func (h *Host) instructions(s route.Session) string {
	scope := h.catalog.For(route.RightsOf(s))
	if _, ok := scope.Tool(compose.EvalName); !ok {
		return ""
	}
	_, saves := scope.Tool("save_tool")
	return builtin.Instructions(saves && route.RightsOf(s).MaySave())
}

// of returns the part of the settings for the client of an origin.
func (s *settings) of(o route.Origin) *part {
	if o == nil {
		return s.part
	}
	view := o.Session().Rights().View()
	if view == "" {
		return s.part
	}
	if p := s.narrowed[view]; p != nil {
		return p
	}
	return s.before[view] // nil for a token that is no longer valid
}

// savedOf returns the saved tools of a session; nil for none. s may be nil.
func (h *Host) savedOf(s route.Session) *savedTools {
	if r := route.RightsOf(s); r != nil && r.Own != "" {
		return (*h.own.Load())[r.Own]
	}
	return h.shared
}

// versionOf implements route.Options.Version.
func (h *Host) versionOf(s route.Session, name string) string {
	saved := h.savedOf(s)
	if saved == nil {
		return ""
	}
	return compose.VersionOf(saved, name)
}

// refreshSaved updates the saved tools of a session in the catalog from the store.
func (h *Host) refreshSaved(s route.Session) {
	if saved := h.savedOf(s); saved != nil {
		saved.Wait(context.Background())
		h.refresh(saved)
	}
}

// refresh updates saved tools in the catalog from the store, if the store has changed.
func (h *Host) refresh(saved *savedTools) {
	saved.refreshing.Lock() // a slow refresh must not overwrite the result of a later refresh
	defer saved.refreshing.Unlock()
	if last := saved.listed.Load(); last != nil {
		if now := saved.Look(); now.Same(*last) {
			saved.listed.Store(&now)
			return
		}
	}
	definitions, listing := saved.Listed()
	entries := make([]catalog.Entry, len(definitions))
	for i, d := range definitions {
		entries[i] = compose.Entry(d)
	}
	if saved == h.shared {
		h.catalog.SetComposites(entries)
	} else {
		for name, own := range *h.own.Load() {
			if own == saved {
				h.catalog.SetCompositesOf(name, entries)
			}
		}
	}
	saved.listed.Store(&listing)
}

// refreshCalled refreshes the saved tools of a session before a call of a tool that the catalog
// has, unless the directory is still the same. The call itself reads the tool from the store.
func (h *Host) refreshCalled(s route.Session) {
	saved := h.savedOf(s)
	if saved == nil {
		return
	}
	if l := saved.listed.Load(); l == nil || !saved.Current(*l) {
		h.refresh(saved)
	}
}

// hides reports whether a target of permissions is hidden from the clients.
func (a audience) hides(target string) bool {
	server, tool, _ := strings.Cut(target, ".")
	return a.Hides(server, tool) || !tools.IsPattern(tool) && a.Hides(server, tools.Literal(tool))
}

// store returns the saved tools that an audience may use.
func (a audience) store() narrowedStore { return narrowedStore{a.saved.Tools.Store, a.rights} }

// see returns the compose.Options.See of an audience. The record of a shared tool does not depend
// on the rights of the first client that calls the tool.
func (h *Host) see(of audience) func(string, *tools.Permissions, string) (*tools.Permissions, error) {
	definitions := h.catalog.Scope
	if of.rights != nil && of.rights.Own != "" {
		definitions = of.Scope
	}
	return func(tool string, p *tools.Permissions, server string) (*tools.Permissions, error) {
		var names []string
		digests := map[string]string{}
		if server == policy.SavedTools {
			for _, def := range of.saved.List() {
				names, digests[def.Name] = append(names, def.Name), def.Hash()
			}
		} else {
			own, known := definitions.ServerTools(server)
			if !known {
				return p, nil
			}
			for _, name := range own {
				names = append(names, name)
				digests[name], _ = definitions.Digest(server, name)
			}
		}
		return of.saved.See(tool, p, server, names, func(name string) string { return digests[name] })
	}
}

// narrowedStore is a store without the saved tools that the rights of clients hide.
type narrowedStore struct {
	*tools.Store
	rights *bearer.Rights
}

func (s narrowedStore) hides(name string) bool { return s.rights.Hides(policy.SavedTools, name) }

// hidden returns the error for a hidden tool, whether or not the tool exists.
func (s narrowedStore) hidden(name string) error {
	if !s.hides(name) {
		return nil
	}
	return &catalog.HiddenError{Server: policy.SavedTools, Tool: name, Token: true}
}

// List returns the saved tools without the hidden ones.
func (s narrowedStore) List() []tools.Definition {
	return slices.DeleteFunc(slices.Clone(s.Store.List()), func(d tools.Definition) bool { return s.hides(d.Name) })
}

// Problems returns the problems of files, without those of hidden tools.
func (s narrowedStore) Problems() []tools.Problem {
	return slices.DeleteFunc(slices.Clone(s.Store.Problems()), func(p tools.Problem) bool { return s.hides(p.Name) })
}

// Get implements compose.Saved. The error is a *catalog.HiddenError for a hidden tool.
func (s narrowedStore) Get(name string) (tools.Definition, error) {
	if err := s.hidden(name); err != nil {
		return tools.Definition{}, err
	}
	return s.Store.Get(name)
}

// Save implements builtin.Store.
func (s narrowedStore) Save(def tools.Definition) (saved tools.Definition, created bool, err error) {
	if err := s.hidden(def.Name); err != nil {
		return tools.Definition{}, false, err
	}
	saved, created, err = s.Store.Save(def)
	if clash := new(tools.ClashError); errors.As(err, &clash) && s.hides(clash.Existing) {
		err = &catalog.HiddenError{Server: policy.SavedTools, Tool: def.Name, Token: true}
	}
	return saved, created, err
}

// Delete implements builtin.Store.
func (s narrowedStore) Delete(name string) error {
	if err := s.hidden(name); err != nil {
		return err
	}
	return s.Store.Delete(name)
}

// closeAll closes all saved tools.
func (h *Host) closeAll() error {
	errs := []error{h.shared.Close()}
	for _, saved := range *h.own.Load() {
		errs = append(errs, saved.Close())
	}
	return errors.Join(errs...)
}
