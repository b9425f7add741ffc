package manage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

func (h *Handler) list(context.Context, []byte, route.Call) (wire.Reply, error) {
	structured, err := encodeList(h.cfg.Store.List(), h.cfg.Store.Problems())
	if err != nil {
		return wire.Reply{}, err
	}
	return answer(structured)
}

func (h *Handler) show(_ context.Context, args []byte, _ route.Call) (wire.Reply, error) {
	name, _ := wire.GetString(args, "name")
	def, err := h.cfg.Store.Get(name)
	if err != nil {
		return wire.Reply{}, h.notFound(name, err)
	}
	structured, err := encodeDefinition(def)
	if err != nil {
		return wire.Reply{}, err
	}
	return answer(structured)
}

func (h *Handler) delete(_ context.Context, args []byte, _ route.Call) (wire.Reply, error) {
	name, _ := wire.GetString(args, "name")
	if err := h.cfg.Store.Delete(name); err != nil {
		return wire.Reply{}, h.notFound(name, err)
	}
	h.changed()
	h.cfg.Log.Info("saved tool deleted", "tool", name)
	return answer(wire.Marshal(struct {
		Status string `json:"status"`
		Name   string `json:"name"`
	}{"deleted", name}))
}

// notFound words the store's error about the tool called name: when there is
// no such tool, it says which ones were perhaps meant.
func (h *Handler) notFound(name string, err error) error {
	if !errors.Is(err, tools.ErrNotFound) {
		return refusal(err)
	}
	f := &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("no saved tool is called %q", name)}
	var names []string
	for _, d := range h.cfg.Store.List() {
		names = append(names, d.Name)
	}
	if f.Nearest = catalog.Nearest(name, names); f.Nearest != nil {
		f.Message += fmt.Sprintf(" (did you mean %s?)", strings.Join(f.Nearest, ", "))
	} else {
		f.Message += " (list_saved_tools lists them)"
	}
	if owner, ok := h.cfg.Catalog.Owner(name); ok && owner.Kind != catalog.Composite {
		f.Message = fmt.Sprintf("%q is %s, not a saved tool", name, owner.Describe())
	}
	return f
}
