package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host/clients"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// Server is a small MCP server whose tools are functions. Package clients implements the protocol,
// as for agents.
type Server []Tool

// Tool is a tool of a Server.
type Tool struct {
	Definition string // raw JSON
	// Call returns the structured content of the result. progress may be called with
	// the number of steps done, the total number, and a message.
	Call func(ctx context.Context, args []byte, progress func(done, total int, message string)) (any, error)
}

func (t Tool) name() string {
	name, _ := wire.GetString([]byte(t.Definition), "name")
	return name
}

func names() []string { return slices.Sorted(maps.Keys(demoServers)) }

func serverCommand() *cobra.Command {
	names := names()
	return &cobra.Command{
		Use:       "demo-upstream NAME",
		Short:     "Serve one of the demo's upstream servers: " + strings.Join(names, ", "),
		Hidden:    true,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			return clients.ServeStdio(cmd.Context(), struct{ io.Reader }{os.Stdin}, os.Stdout, clients.Options{
				Backend: demoServers[args[0]], Name: args[0], Version: "1.0.0",
				Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
			})
		},
	}
}

// BeginSession implements clients.Backend.
func (s Server) BeginSession(context.Context, route.Session) (route.InitializeResult, error) {
	return route.InitializeResult{Capabilities: []byte(`{"tools":{}}`)}, nil
}

// AwaitServers implements clients.Backend.
func (Server) AwaitServers(context.Context, route.Session) {}

// Discover implements clients.Backend.
func (s Server) Discover(route.Session) route.InitializeResult {
	return route.InitializeResult{Capabilities: []byte(`{"tools":{}}`)}
}

// Begin implements clients.Backend.
func (s Server) Begin(route.Session) {}

// Hints implements clients.Backend. The tools never change.
func (s Server) Hints(call route.Call) *envelope.Hints {
	if call.Method == wire.Tools.ListMethod() {
		return &envelope.Hints{TTL: time.Hour.Milliseconds(), Scope: envelope.ScopePublic}
	}
	return nil
}

// HeaderParams implements clients.Backend.
func (s Server) HeaderParams(route.Session, string) envelope.Params { return envelope.Params{} }

// Notified implements clients.Backend.
func (s Server) Notified(route.Session, string, []byte) {}

// EndSession implements clients.Backend.
func (s Server) EndSession(route.Session) {}

// Handle implements clients.Backend.
func (s Server) Handle(ctx context.Context, call route.Call) wire.Reply {
	switch call.Method {
	case wire.Tools.ListMethod():
		definitions := make([]json.RawMessage, len(s))
		for i, t := range s {
			definitions[i] = json.RawMessage(t.Definition)
		}
		return wire.Reply{Result: wire.Marshal(toolList{definitions})}
	case protocol.MethodToolsCall:
		return s.call(ctx, call)
	}
	return wire.Reply{Error: wire.Errorf(wire.CodeMethodNotFound, "method not found: %s", call.Method).Raw()}
}

// call answers tools/call.
func (s Server) call(ctx context.Context, call route.Call) wire.Reply {
	name, _ := wire.GetString(call.Params, "name")
	i := slices.IndexFunc(s, func(t Tool) bool { return t.name() == name })
	if i < 0 {
		return wire.Reply{Error: wire.Errorf(wire.CodeInvalidParams, "unknown tool: %s", name).Raw()}
	}
	args, ok := wire.Get(call.Params, "arguments")
	if !ok {
		args = []byte("{}")
	}
	value, err := s[i].Call(ctx, args, func(done, total int, message string) {
		if call.Progress != nil {
			call.Progress(wire.Marshal(Progress{done, total, message}))
		}
	})
	if err != nil {
		return wire.Reply{Result: route.ErrorResult(err.Error())}
	}
	text := wire.Marshal(value)
	return wire.Reply{Result: wire.Marshal(callResult{
		Content:           []textContent{{"text", string(text)}},
		StructuredContent: value,
	})}
}

type toolList struct {
	Tools []json.RawMessage `json:"tools"`
}

type Progress struct {
	Progress int    `json:"progress"`
	Total    int    `json:"total"`
	Message  string `json:"message"`
}

type callResult struct {
	Content           []textContent `json:"content"`
	StructuredContent any           `json:"structuredContent"`
}

type textContent struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// demoServers are the upstream servers of the demo. Their answers are always the
// same.
var demoServers = map[string]Server{"harbour": harbour, "weather": weather}

type ship struct {
	Name    string `json:"name"`
	Berth   int    `json:"berth"`
	Route   string `json:"route"`    // the sea area of the destination
	ReadyAt int    `json:"ready_at"` // hour of the day
	MaxWind int    `json:"max_wind"` // knots; the strongest wind for the ship
}

var ships = []ship{
	{"Aurora", 1, "Dogger", 6, 34},
	{"Brise", 2, "Fisher", 5, 18},
	{"Cormorant", 4, "Humber", 8, 27},
	{"Dorothea", 5, "German Bight", 7, 9},
}

var harbour = Server{{
	Definition: `{"name":"list_ships","title":"List ships","description":"The ships in port: berth, route, the hour they are ready at, and the wind in knots they may sail in.","inputSchema":{"type":"object","properties":{}},"annotations":{"readOnlyHint":true}}`,
	Call: func(context.Context, []byte, func(int, int, string)) (any, error) {
		return map[string]any{"ships": ships}, nil
	},
}}

// areas maps sea areas to the phase of their wind.
var areas = map[string]float64{"Dogger": 0.0, "Fisher": 2.1, "German Bight": 3.7, "Humber": 4.9}

type hour struct {
	Hour      int     `json:"hour"`
	Time      string  `json:"time"`
	Wind      int     `json:"wind"` // knots
	Gusts     int     `json:"gusts"`
	Direction int     `json:"direction"` // degrees
	Waves     float64 `json:"waves"`     // metres
}

// A forecast takes forecastSteps steps of forecastStep, to have some progress to show.
const (
	forecastSteps = 8
	forecastStep  = 40 * time.Millisecond
)

var weather = Server{{
	Definition: `{"name":"forecast","title":"Forecast","description":"The wind in a sea area, hour by hour of today. It takes a moment and reports progress.","inputSchema":{"type":"object","properties":{"area":{"type":"string","description":"Dogger, Fisher, German Bight or Humber"}},"required":["area"]},"annotations":{"readOnlyHint":true}}`,
	Call:       forecast,
}}

func forecast(ctx context.Context, args []byte, progress func(int, int, string)) (any, error) {
	area, _ := wire.GetString(args, "area")
	phase, ok := areas[area]
	if !ok {
		return nil, fmt.Errorf("no sea area %q (there are Dogger, Fisher, German Bight, Humber)", area)
	}
	var hours []hour
	const perStep = 24 / forecastSteps
	for step := range forecastSteps {
		select {
		case <-time.After(forecastStep):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for h := range perStep {
			hours = append(hours, windAt(step*perStep+h, phase))
		}
		progress(step+1, forecastSteps, fmt.Sprintf("%s until %d:00", area, (step+1)*perStep))
	}
	return map[string]any{"area": area, "hours": slices.Clip(hours)}, nil
}

// windAt returns the wind at an hour of a day. The wind rises and falls.
func windAt(h int, phase float64) hour {
	wind := 22 + 11*math.Sin(phase+float64(h)/4)
	return hour{
		Hour: h, Time: fmt.Sprintf("%02d:00", h),
		Wind: int(wind), Gusts: int(wind * 1.4), Direction: (240 + 5*h) % 360,
		Waves: math.Round(wind) / 10,
	}
}
