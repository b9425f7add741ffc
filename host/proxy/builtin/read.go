package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// toolList is the answer of list_saved_tools.
type toolList struct {
	Tools    []listedTool `json:"tools"`
	Problems []problem    `json:"problems,omitempty"`
}

type listedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Created     string          `json:"created"`
	Modified    string          `json:"modified"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

type problem struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (h *Handler) list(context.Context, []byte, route.Call) (wire.Reply, error) {
	list := toolList{Tools: []listedTool{}}
	for _, d := range h.cfg.Store.List() {
		list.Tools = append(list.Tools, listedTool{d.Name, d.Description, stamp(d.Metadata.Created), stamp(d.Metadata.Modified), d.InputSchema})
	}
	for _, p := range h.cfg.Store.Problems() {
		list.Problems = append(list.Problems, problem{p.Name, p.Path, p.Err.Error()})
	}
	return answer(wire.Marshal(list))
}

func (h *Handler) show(_ context.Context, args []byte, call route.Call) (wire.Reply, error) {
	name, _ := wire.GetString(args, "name")
	def, err := h.cfg.Store.Get(name)
	if err != nil {
		return wire.Reply{}, h.notFound(name, err)
	}
	def.Permissions = h.shown(def.Permissions)
	file, err := def.File()
	if err != nil {
		return wire.Reply{}, err
	}
	reply, err := answer(file)
	return h.labelled(reply, call, def.Labels), err
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

// notFound returns the failure for the store's error about the tool called name. For an unknown
// tool, the failure suggests similar names.
func (h *Handler) notFound(name string, err error) error {
	if !errors.Is(err, tools.ErrNotFound) {
		return refusal(err)
	}
	f := &compose.Failure{Type: abi.ErrValidation, Message: fmt.Sprintf("no saved tool is called %q", name)}
	var names []string
	for _, d := range h.cfg.Store.List() {
		names = append(names, d.Name)
	}
	if f.Nearest = nearest.Names(name, names); f.Nearest != nil {
		f.Message += fmt.Sprintf(" (did you mean %s?)", strings.Join(f.Nearest, ", "))
	} else {
		f.Message += " (list_saved_tools lists them)"
	}
	if owner, ok := h.cfg.Catalog.Owner(name); ok && owner.Kind != catalog.Composite && !h.hides(owner) {
		f.Message = fmt.Sprintf("%q is %s, not a saved tool", name, owner.Describe())
	}
	return f
}
