package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

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

// maxShown is how many bytes of a text in a result are shown, and maxImage how many of
// an image, in base64.
const (
	maxShown = 1 << 20
	maxImage = 8 << 20
)

// call calls a tool. The answer is a stream of JSON objects, a line each: progress notifications,
// then the result. When the page closes the stream, the call is cancelled.
//
// A tool without the read-only hint is called only after the person has confirmed the call: the
// page sends the fingerprint of the shown tool, since the name may meanwhile belong to another
// tool.
func (h *Handler) call(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	name, _ := wire.GetString(body, "name")
	arguments, _ := wire.Get(body, "arguments")
	if !wire.IsObject(arguments) {
		return badRequest("arguments are not a JSON object")
	}
	e, ok := h.opts.Catalog.Tool(name)
	if !ok {
		return &requestError{status: http.StatusNotFound, text: "the tool no longer exists"}
	}
	if err := h.callable(e); err != nil {
		return err
	}
	if confirmed, _ := wire.GetString(body, "confirmed"); confirmed != fingerprint(e) && !hintsOf(e.Definition).ReadOnly {
		return &requestError{status: http.StatusPreconditionRequired, code: "confirm",
			text: "this tool may change something, and has changed since it was confirmed (load the page again)"}
	}
	ctx, end := h.untilEnd(r)
	defer end()
	out := lines{w: w}
	out.begin()
	defer out.end()
	started := time.Now()
	reply, err := h.opts.Proxy.CallTool(ctx, name, arguments, func(params []byte) {
		out.write(map[string]any{"progress": json.RawMessage(params)})
	})
	took := milliseconds(time.Since(started))
	switch {
	case err != nil:
		out.write(map[string]any{"error": h.mask(err.Error()), "took": took})
	case reply.Error != nil:
		out.write(map[string]any{"error": h.mask(wire.ParseError(reply.Error).Error()), "took": took})
	default:
		out.write(map[string]any{"result": h.resultOf(reply.Result), "took": took})
	}
	return nil
}

// lines writes JSON objects, a line each. lines is safe for concurrent use, since progress of a
// task can arrive after the result.
type lines struct {
	mu    sync.Mutex
	w     http.ResponseWriter
	ended bool
}

func (l *lines) begin() {
	l.w.Header().Set("Content-Type", "application/x-ndjson")
	l.w.WriteHeader(http.StatusOK)
	l.flush()
}

func (l *lines) write(v any) {
	raw, err := json.Marshal(v)
	if err != nil { // progress whose params are not JSON
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	deadline(l.w)
	_, _ = l.w.Write(append(raw, '\n')) // fails only if the page is gone
	l.flush()
}

// end drops all later objects.
func (l *lines) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

func (l *lines) flush() { _ = http.NewResponseController(l.w).Flush() }

// result is a CallToolResult for people.
type result struct {
	IsError    bool    `json:"isError"`
	Blocks     []block `json:"blocks"`
	Structured string  `json:"structured"` // indented; "" for none
}

// block is a content block: text, an image, or the JSON of anything else.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"`
	Left string `json:"left,omitempty"` // how much is not shown
	MIME string `json:"mime,omitempty"`
	Data string `json:"data,omitempty"` // base64
}

// images are the types of images that the page shows. SVG is left out.
var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func (h *Handler) resultOf(raw []byte) result {
	flag, _ := wire.Get(raw, "isError")
	res := result{IsError: string(flag) == "true", Blocks: []block{}}
	content, _ := wire.Get(raw, "content")
	elements, _ := wire.Elements(content) // none if content is not an array
	for _, element := range elements {
		res.Blocks = append(res.Blocks, h.block(element, res.IsError))
	}
	if structured, ok := wire.Get(raw, "structuredContent"); ok {
		res.Structured, _ = shown(indent(structured))
	}
	return res
}

func (h *Handler) block(raw []byte, isError bool) block {
	b := block{}
	b.Type, _ = wire.GetString(raw, "type")
	text, isText := wire.GetString(raw, "text")
	switch {
	case b.Type == "text" && isText:
		if isError {
			text = h.mask(text)
		}
		if trimmed := strings.TrimSpace(text); trimmed != "" && strings.ContainsRune("{[", rune(trimmed[0])) {
			text = indent([]byte(text))
		}
		b.Text, b.Left = shown(text)
		return b
	case b.Type == "image":
		data, _ := wire.GetString(raw, "data")
		b.MIME, _ = wire.GetString(raw, "mimeType")
		for _, kind := range images {
			if b.MIME == kind && len(data) <= maxImage {
				b.Data = data
				return b
			}
		}
	}
	b.Text, b.Left = shown(indent(raw))
	return b
}

// shown returns the beginning of a text, and how much was left out.
func shown(text string) (head, left string) {
	if len(text) <= maxShown {
		return text, ""
	}
	head = display.Head(text, maxShown)
	return head, display.Size(uint64(len(text)-len(head))) + " more"
}
