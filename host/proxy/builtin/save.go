package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

func (h *Handler) save(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	var def tools.Definition
	if h.cfg.Labels != nil {
		def.Labels = h.cfg.Labels.Of(call.Origin) // the code may depend on content that the session was given
	}
	def.Name, _ = wire.GetString(args, "name")
	def.Description, _ = wire.GetString(args, "description")
	def.Code, _ = wire.GetString(args, "code")
	def.InputSchema, _ = wire.Get(args, "inputSchema")
	def.OutputSchema, _ = wire.Get(args, "outputSchema")
	if on, _ := wire.Get(args, "durable"); string(on) == "true" {
		def.Durable = true
	}
	doubt, _ := wire.GetString(args, "inDoubt")
	def.InDoubt = tools.InDoubt(doubt) // checked by the schema
	var limits []tools.Violation
	def.Limits, limits = h.limits(args)
	bounds, given := wire.Get(args, "permissions")
	if given {
		def.Permissions = &tools.Permissions{Bounds: []string{}}
		if err := jsonvalue.Unmarshal(bounds, &def.Permissions.Bounds); err != nil {
			return wire.Reply{}, err
		}
	}
	if err := h.check(ctx, &def, limits); err != nil {
		return wire.Reply{}, err
	}
	warnings, err := h.warnings(ctx, def)
	if err != nil {
		return wire.Reply{}, err
	}
	saved, created, err := h.cfg.Store.Save(def)
	if err != nil {
		return wire.Reply{}, refusal(err)
	}
	h.changed()
	status := "updated"
	if created {
		status = "created"
	}
	h.cfg.Log.Info("saved tool "+status, "tool", saved.Name)
	return answer(wire.Marshal(struct {
		Status   string `json:"status"`
		Name     string `json:"name"`
		Created  string `json:"created"`
		Modified string `json:"modified"`
		// Permissions are the targets that the tool may call.
		Permissions []string `json:"permissions"`
		// Labels are the labels of the session that saved the tool.
		Labels []string `json:"labels,omitempty"`
		// Probable mistakes in the script, which was saved nevertheless.
		Warnings []compose.Warning `json:"warnings,omitempty"`
	}{status, saved.Name, stamp(saved.Metadata.Created), stamp(saved.Metadata.Modified), nonNil(h.shown(saved.Permissions).List()), saved.Labels, warnings}))
}

// warnings returns probable mistakes in def's script. The script is saved in spite of
// them, and also if looking for them fails.
func (h *Handler) warnings(ctx context.Context, def tools.Definition) ([]compose.Warning, error) {
	found, err := h.cfg.Composer.LintTool(ctx, def)
	if err != nil && ctx.Err() == nil {
		h.cfg.Log.Warn("a script is saved without a check for mistakes", "tool", def.Name, "err", err)
		err = nil
	}
	return found, err
}

// limits returns the tool's own limits, and the violations in them.
func (h *Handler) limits(args []byte) (tools.Limits, []tools.Violation) {
	raw, ok := wire.Get(args, "limits")
	if !ok {
		return tools.Limits{}, nil
	}
	l, err := tools.ParseLimits(raw)
	var wrong *tools.ValidationError
	if errors.As(err, &wrong) {
		return l, wrong.Violations
	}
	return l, h.cfg.Composer.CheckLimits(l)
}

// shown returns permissions without the targets that are hidden from clients.
func (h *Handler) shown(p *tools.Permissions) *tools.Permissions {
	if h.cfg.Hides == nil {
		return p
	}
	return p.Without(h.cfg.Hides)
}

// hides reports whether clients may not know of an upstream's tool.
func (h *Handler) hides(e catalog.Entry) bool {
	return e.Kind == catalog.Proxied && h.cfg.Hides != nil && h.cfg.Hides(tools.Target(e.Server, e.Tool))
}

func nonNil(list []string) []string { return append([]string{}, list...) }

// check returns an error with all reasons not to save def, so that an agent can fix all of them at
// once. limits are the reasons about the limits of def. check derives the permissions of def,
// within the bounds in def.
func (h *Handler) check(ctx context.Context, def *tools.Definition, limits []tools.Violation) error {
	f := &compose.Failure{Type: abi.ErrValidation}
	add := func(pointer, message string) {
		f.Violations = append(f.Violations, tools.Violation{Pointer: pointer, Message: message})
	}
	var name *tools.NameError
	if err := tools.CheckName(def.Name); errors.As(err, &name) {
		add("/name", name.Reason)
	} else if owner, taken := h.cfg.Catalog.Owner(def.Name); taken && owner.Kind != catalog.Composite {
		holder := owner.Describe()
		if h.hides(owner) {
			holder = "something else"
		}
		add("/name", fmt.Sprintf("%q is the name of %s (choose another)", def.Name, holder))
	} else if taken := Reserved(def.Name); taken != "" {
		add("/name", fmt.Sprintf("%q could be mistaken for the built-in tool %s (choose another)", def.Name, taken))
	}
	if strings.TrimSpace(def.Description) == "" {
		add("/description", "is empty (say holder the tool does and returns)")
	}
	if _, err := tools.CompileInputSchema(def.InputSchema, "inputSchema"); err != nil {
		add("/inputSchema", schemaReason(err))
	}
	if def.OutputSchema != nil {
		if _, err := tools.CompileSchema(def.OutputSchema, "outputSchema"); err != nil {
			add("/outputSchema", schemaReason(err))
		}
	}
	if err := def.Durability.Check(); err != nil {
		add("/inDoubt", "is only for durable tools (set durable to true)")
	}
	f.Violations = append(f.Violations, limits...)
	if n := len(def.Code); n > MaxCode {
		add("/code", fmt.Sprintf("is %d bytes long (at most %d)", n, MaxCode))
	} else if err := h.cfg.Composer.Check(ctx, def.Name, def.Code); err != nil {
		var source *compose.SourceError
		if !errors.As(err, &source) {
			return err
		}
		add("/code", source.Error())
		f.Position = source.Position
	} else {
		derived, wrong, err := h.cfg.Composer.Permissions(ctx, *def)
		if err != nil {
			return err
		}
		f.Violations = append(f.Violations, wrong...)
		def.Permissions = derived
	}
	if f.Violations == nil {
		return nil
	}
	f.Message = fmt.Sprintf("tool %q was not saved", def.Name)
	return f
}

func schemaReason(err error) string {
	var s *tools.SchemaError
	if errors.As(err, &s) {
		return s.Reason
	}
	return err.Error()
}

// refusal distinguishes errors of the request from other errors of the store.
func refusal(err error) error {
	if hidden := new(catalog.HiddenError); errors.As(err, &hidden) {
		return &compose.Failure{Type: abi.ErrPermission, Message: err.Error()}
	}
	var clash *tools.ClashError
	var corrupt *tools.CorruptError
	var name *tools.NameError
	var schema *tools.SchemaError
	if errors.As(err, &clash) || errors.As(err, &corrupt) || errors.As(err, &name) || errors.As(err, &schema) {
		return &compose.Failure{Type: abi.ErrValidation, Message: err.Error()}
	}
	if full := new(tools.RoomError); errors.As(err, &full) {
		return &compose.Failure{Type: abi.ErrResource, Limit: limits.TotalMemory.Name, Setting: limits.TotalMemory.Setting(), Message: err.Error()}
	}
	switch {
	case errors.Is(err, tools.ErrChanged): // the agent has to look again
		return &compose.Failure{Type: abi.ErrValidation, Message: err.Error()}
	case errors.Is(err, tools.ErrAway), errors.Is(err, tools.ErrUnsure):
		return &compose.Failure{Type: abi.ErrResource, Message: err.Error()}
	}
	return err
}

// eval runs an unsaved script.
func (h *Handler) eval(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	code, _ := wire.GetString(args, "code")
	params, _ := wire.Get(args, "params")
	if len(code) > MaxCode {
		return wire.Reply{}, &compose.Failure{
			Type: abi.ErrValidation, Message: fmt.Sprintf("code is %d bytes long (at most %d)", len(code), MaxCode),
		}
	}
	return h.cfg.Composer.Eval(ctx, code, params, call), nil
}

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
