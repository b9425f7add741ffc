package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// tool is a tool in the list.
type tool struct {
	Name        string `json:"name"`           // public name
	Kind        string `json:"kind"`           // proxied, saved, builtin
	Server      string `json:"server"`         // "" unless proxied
	Tool        string `json:"tool,omitempty"` // the server's own name, if different
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Listed      bool   `json:"listed"` // clients see the tool; otherwise only scripts can call it
	Tokens      int    `json:"tokens"`
	Hints       hints  `json:"hints"`
}

// hints are a server's claims about a tool (MCP 2025-11-25, schema, ToolAnnotations). A server can
// claim anything.
type hints struct {
	ReadOnly    bool `json:"readOnly"`
	Destructive bool `json:"destructive"` // the default is true
	Idempotent  bool `json:"idempotent"`
	OpenWorld   bool `json:"openWorld"` // the default is true
	Given       bool `json:"given"`     // the server gives hints
}

var kinds = map[catalog.Kind]string{catalog.Proxied: "proxied", catalog.Composite: "saved", catalog.Builtin: "builtin"}

// hintsOf reads the annotations of a definition.
func hintsOf(definition []byte) hints {
	flag := func(name string, otherwise bool) bool {
		switch value, _ := wire.Get(definition, "annotations", name); string(value) {
		case "true":
			return true
		case "false":
			return false
		}
		return otherwise
	}
	annotations, _ := wire.Get(definition, "annotations")
	h := hints{ReadOnly: flag("readOnlyHint", false), Idempotent: flag("idempotentHint", false), OpenWorld: flag("openWorldHint", true)}
	h.Destructive = !h.ReadOnly && flag("destructiveHint", true)
	h.Given = wire.IsObject(annotations)
	return h
}

func (h *Handler) view(e catalog.Entry) tool {
	t := tool{Name: e.Name, Kind: kinds[e.Kind], Server: e.Server, Listed: h.visible(e), Tokens: catalog.Tokens(e.Definition), Hints: hintsOf(e.Definition)}
	if e.Tool != e.Name {
		t.Tool = e.Tool
	}
	t.Title, _ = wire.GetString(e.Definition, "title")
	if t.Title == "" {
		t.Title, _ = wire.GetString(e.Definition, "annotations", "title")
	}
	t.Description, _ = wire.GetString(e.Definition, "description")
	t.Title, t.Description = short(t.Title, maxTitle), short(t.Description, maxDescription)
	return t
}

// The bounds in bytes of the servers' descriptions of their tools: in the list, and of a single
// tool.
const (
	maxTitle       = 500
	maxListed      = 1000
	maxDescription = 64 << 10
)

// short returns the beginning of a text longer than most bytes.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return display.Head(text, most) + " …"
}

// tools answers with the list of all tools.
func (h *Handler) tools(w http.ResponseWriter, r *http.Request) error {
	list := []tool{}
	for _, e := range h.opts.Catalog.All() {
		t := h.view(e)
		t.Description = short(t.Description, maxListed)
		list = append(list, t)
	}
	return write(w, map[string]any{"tools": list})
}

// toolsRevision changes with the list of tools.
func (h *Handler) toolsRevision() string {
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	for _, e := range h.opts.Catalog.All() {
		for _, text := range []string{kinds[e.Kind], e.Server, e.Name, strconv.FormatBool(h.visible(e))} {
			_, _ = sum.WriteString(text)
			_ = sum.WriteByte(0)
		}
		_, _ = sum.Write(e.Definition)
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}

// tool answers with a tool and its schemas. The kind, the server and the name identify the tool,
// because a tool that clients do not see can have the public name of another.
func (h *Handler) tool(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	for _, e := range h.opts.Catalog.All() {
		if e.Name != query.Get("name") || e.Server != query.Get("server") || kinds[e.Kind] != query.Get("kind") {
			continue
		}
		input, _ := wire.Get(e.Definition, "inputSchema")
		if len(input) > maxShown || !json.Valid(input) { // the form is a field for JSON then
			input = []byte("{}")
		}
		definition, left := shown(indent(e.Definition))
		answer := struct {
			tool
			InputSchema json.RawMessage `json:"inputSchema"`
			Definition  string          `json:"definition"` // for people
			Left        string          `json:"left"`       // about the part that is not shown
			Callable    bool            `json:"callable"`
			Fingerprint string          `json:"fingerprint"`
		}{h.view(e), input, definition, left, h.callable(e) == nil, fingerprint(e)}
		return write(w, answer)
	}
	return &requestError{status: http.StatusNotFound, text: "the tool no longer exists"}
}

// fingerprint identifies the current form of a tool: the server and the definition.
func fingerprint(e catalog.Entry) string {
	sum := sha256.Sum256(slices.Concat([]byte(kinds[e.Kind]+"\x00"+e.Server+"\x00"), e.Definition))
	return hex.EncodeToString(sum[:])
}

// callable returns why the page cannot call a tool; nil if it can.
func (h *Handler) callable(e catalog.Entry) error {
	switch {
	case !h.visible(e):
		return &requestError{status: http.StatusForbidden, text: "clients do not see this tool; only scripts can call it"}
	case e.Saves:
		return &requestError{status: http.StatusForbidden, text: "this page does not change saved tools"}
	}
	return nil
}
