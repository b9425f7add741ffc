package ui

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

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
