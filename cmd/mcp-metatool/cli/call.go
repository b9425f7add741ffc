package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ToolResult is a CallToolResult decoded for people.
type ToolResult struct {
	IsError bool
	Text    string   // the text blocks
	Others  []string // descriptions of the other blocks
	Value   []byte   // structured: the value that a script returned, or structuredContent; nil for none

	// Of composite calls only:
	Logs    []string
	Calls   []ToolCall
	Receipt Receipt
}

// ToolCall is an entry of structuredContent.toolCalls.
type ToolCall struct {
	Server string
	Tool   string
	Params json.RawMessage
	Result json.RawMessage // nil after a failure
}

// Receipt holds the measurements of the sandbox.
type Receipt struct {
	Run    string
	Memory uint64 // bytes
	Calls  int
	Time   float64 // milliseconds
}

func ReadResult(raw []byte) ToolResult {
	var r ToolResult
	flag, _ := wire.Get(raw, "isError")
	r.IsError = string(flag) == "true"
	content, _ := wire.Get(raw, "content")
	blocks, _ := wire.Elements(content)
	var texts []string
	for _, b := range blocks {
		kind, _ := wire.GetString(b, "type")
		if text, ok := wire.GetString(b, "text"); ok && kind == "text" {
			texts = append(texts, text)
			continue
		}
		if mime, ok := wire.GetString(b, "mimeType"); ok {
			kind += " " + mime
		}
		r.Others = append(r.Others, kind)
	}
	r.Text = strings.Join(texts, "\n")
	structured, _ := wire.Get(raw, "structuredContent")
	r.Value = structured
	if meta, ok := wire.Get(raw, "_meta", compose.ReceiptKey); ok {
		r.readRun(meta, structured)
	}
	return r
}

// readRun reads the report of a composite call about its run. A missing member stays empty.
func (r *ToolResult) readRun(meta, structured []byte) {
	r.Receipt.Run, _ = wire.GetString(meta, "run")
	Number(meta, "memory", &r.Receipt.Memory)
	Number(meta, "calls", &r.Receipt.Calls)
	Number(structured, "executionTime", &r.Receipt.Time)
	r.Value, _ = wire.Get(structured, "result")
	if raw, ok := wire.Get(structured, "logs"); ok {
		_ = jsonvalue.Unmarshal(raw, &r.Logs)
	}
	raw, _ := wire.Get(structured, "toolCalls")
	calls, _ := wire.Elements(raw)
	for _, c := range calls {
		var call ToolCall
		call.Server, _ = wire.GetString(c, "server")
		call.Tool, _ = wire.GetString(c, "tool")
		call.Params, _ = wire.Get(c, "params")
		call.Result, _ = wire.Get(c, "result")
		r.Calls = append(r.Calls, call)
	}
}

func Number[T any](obj []byte, name string, dst *T) {
	if raw, ok := wire.Get(obj, name); ok {
		_ = jsonvalue.Unmarshal(raw, dst)
	}
}

// Output returns the result for standard output.
func (r *ToolResult) Output() string {
	switch {
	case r.Value == nil:
		return strings.TrimSuffix(r.Text, "\n") + "\n"
	case r.Value[0] == '"':
		var s string
		if json.Unmarshal(r.Value, &s) == nil {
			return strings.TrimSuffix(s, "\n") + "\n"
		}
	}
	return fmt.Sprintf("%s\n", IndentJSON(r.Value))
}

// barSteps is the number of steps of a bar.
const barSteps = 1000

// ProgressView shows the progress of a call: on a terminal as a bar (a spinner while the total is
// unknown), elsewhere as lines. A ProgressView is safe for concurrent use.
type ProgressView struct {
	mu  sync.Mutex // held while writing
	w   io.Writer
	bar *progressbar.ProgressBar // nil: lines

	// Expect is the total for notifications without a total; 0: unknown.
	Expect float64
	Indent string    // in front of lines
	known  bool      // the bar has a total
	tenth  int       // of the total, shown in the last line
	shown  time.Time // when the last line was written
}

// NewProgressView makes a ProgressView and shows its initial state.
func NewProgressView(w io.Writer, terminal bool, what string, options ...progressbar.Option) *ProgressView {
	p := &ProgressView{w: w, tenth: -1}
	if !terminal {
		return p
	}
	options = append([]progressbar.Option{
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
		progressbar.OptionSetWidth(30),
		progressbar.OptionSetDescription(describe(what)),
		progressbar.OptionShowDescriptionAtLineEnd(),
		progressbar.OptionSetPredictTime(false),
		progressbar.OptionSetElapsedTime(true),
		progressbar.OptionSetRenderBlankState(true),
		progressbar.OptionClearOnFinish(),
	}, options...)
	p.bar = progressbar.NewOptions64(-1, options...)
	return p
}

func describe(message string) string { return display.Line(message, 44) }

// Update shows the params of a progress notification.
func (p *ProgressView) Update(params []byte) {
	value, ok := float(params, "progress")
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	total, ok := float(params, "total")
	if !ok {
		total = p.Expect
	}
	message, _ := wire.GetString(params, "message")
	part := -1.0 // of the total
	if total > 0 {
		part = min(max(value/total, 0), 1)
	}
	if p.bar == nil {
		p.line(value, part, message)
		return
	}
	if part >= 0 && !p.known {
		p.known = true
		p.bar.ChangeMax64(barSteps)
	}
	p.bar.Describe(describe(message))
	if p.known && part >= 0 {
		_ = p.bar.Set64(int64(part * barSteps)) // an error of the terminal does not matter
	}
}

// line writes a line for every tenth of the total; without a total, at most once a second.
func (p *ProgressView) line(value, part float64, message string) {
	if part < 0 {
		if time.Since(p.shown) >= time.Second {
			p.shown = time.Now()
			fmt.Fprintf(p.w, "%sprogress %.4g %s\n", p.Indent, value, display.Line(message, 100))
		}
		return
	}
	if tenth := int(part * 10); tenth > p.tenth {
		p.tenth = tenth
		fmt.Fprintf(p.w, "%sprogress %3.0f%% %s\n", p.Indent, math.Floor(part*100), display.Line(message, 100))
	}
}

// Plain removes the bar before a question to the user. From then on, progress is shown as lines.
func (p *ProgressView) Plain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}

// End removes the bar.
func (p *ProgressView) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

func float(params []byte, name string) (float64, bool) {
	raw, ok := wire.Get(params, name)
	if !ok {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// maxParams is the largest input of --params, in bytes.
const maxParams = 64 << 20

// ReadParams returns the raw JSON object named by --params.
func ReadParams(ctx context.Context, flag string, stdin io.Reader) ([]byte, error) {
	from := "--params"
	raw := []byte(flag)
	var err error
	switch {
	case flag == "-":
		from = "standard input"
		raw, err = regular.ReadAll(ctx, stdin, maxParams)
	case strings.HasPrefix(flag, "@"):
		from = flag[1:]
		raw, err = regular.Read(ctx, from, maxParams)
	}
	if err != nil {
		return nil, fmt.Errorf("--params: %w", err)
	}
	if !wire.IsObject(raw) {
		return nil, fmt.Errorf(`%s: not a JSON object (write one like {"name": "value"})`, from)
	}
	return raw, nil
}

// WithClient runs f with a client session. The session outlives a signal until f has returned, so
// that f can cancel a call in the session.
func WithClient(ctx context.Context, h *host.Host, f func(*host.Client) error) error {
	c, err := h.Connect(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer c.Close() // an error at the end of the session does not affect the answer
	return f(c)
}

// CallTool makes a tools/call. When ctx ends, the call is cancelled, and the
// error is the cause.
func CallTool(ctx context.Context, c *host.Client, name string, arguments []byte, progress func([]byte)) ([]byte, error) {
	params := fmt.Appendf(nil, `{"name":%s,"arguments":%s}`, wire.Quote(name), arguments)
	reply, err := c.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: params, Progress: progress})
	if ctx.Err() != nil { // the end of the session must not overtake the cancellation
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = c.Call(late, wire.Call{Method: protocol.MethodPing})
	}
	switch {
	case err != nil:
		return nil, err
	case reply.Error != nil:
		return nil, fmt.Errorf("%s: %w", name, wire.ParseError(reply.Error))
	}
	return reply.Result, nil
}

// Script is a file to check.
type Script struct{ File, Name, Code string }

// ReadScript reads a script; "-" is standard input.
func ReadScript(ctx context.Context, file string, stdin io.Reader) (Script, error) {
	s := Script{File: file, Name: strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))}
	var raw []byte
	var err error
	if file == "-" {
		s.File, s.Name = "standard input", "stdin"
		raw, err = regular.ReadAll(ctx, stdin, builtin.MaxCode)
	} else {
		raw, err = regular.Read(ctx, file, builtin.MaxCode)
	}
	if sized := new(regular.SizeError); errors.As(err, &sized) {
		err = fmt.Errorf("%s: more than %s, which no saved tool can have", s.File, display.Size(builtin.MaxCode))
	}
	s.Code = string(raw)
	return s, err
}
