package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Health checks upstreams.
type Health interface {
	// CheckHealth checks the upstreams of the session of origin: all, or the one called server,
	// which is started if asleep. The reports contain no secrets. CheckHealth takes as long as the
	// slowest check, which has a time limit. The error is a *health.UnknownError.
	CheckHealth(ctx context.Context, origin route.Origin, server string) ([]health.Report, error)
}

// healthReport is the answer of health_check.
type healthReport struct {
	Healthy bool            `json:"healthy"`
	Servers []health.Report `json:"servers"`
	// Problems are faults of other parts than servers.
	Problems []string `json:"problems,omitempty"`
}

func healthTool(name string, _ []byte) mcp.Tool {
	return define(name, "Check servers",
		"Check whether the servers behind this one work now. Servers that start on first use are left asleep unless you name one.",
		`{
			"type": "object",
			"properties": {"server": {"type": "string", "description": "Only this one."}},
			"additionalProperties": false
		}`,
		`{
			"type": "object",
			"properties": {
				"healthy": {"type": "boolean", "description": "No check failed, and there are no problems."},
				"problems": {"type": "array", "items": {"type": "string"}, "description": "What does not work apart from servers."},
				"servers": {"type": "array", "items": {
					"type": "object",
					"properties": {
						"server": {"type": "string"},
						"state": {"enum": ["starting", "ready", "failed", "closed", "asleep", "disabled"]},
						"since": {"type": "string"},
						"check": {"enum": ["ok", "failed", "skipped"]},
						"method": {"type": "string", "description": "What was asked."},
						"latency": {"type": "number", "description": "Of the answer, in milliseconds."},
						"error": {"type": "string", "description": "Why the check failed."},
						"probe": {
							"type": "object",
							"properties": {
								"tool": {"type": "string"},
								"check": {"enum": ["ok", "failed"]},
								"latency": {"type": "number"},
								"error": {"type": "string"}
							},
							"required": ["tool", "check"]
						},
						"slowedSince": {"type": "string", "description": "Since when it is read slowly, because it sends more than it is asked for."},
						"pins": {"type": "array", "items": {"type": "string"}, "description": "What is not as it was pinned."},
						"items": {"type": "array", "items": {"type": "string"}, "description": "What it lists that strict clients refuse: left out, or shown in part."},
						"lastError": {"type": "string", "description": "May be over."},
						"restarts": {"type": "integer"},
						"restartAt": {"type": "string", "description": "When it is started again."}
					},
					"required": ["server", "state", "check", "restarts"]
				}}
			},
			"required": ["healthy", "servers"]
		}`,
		hints{readOnly: true, idempotent: true, openWorld: true})
}

func (h *Handler) health(ctx context.Context, args []byte, call route.Call) (wire.Reply, error) {
	server, _ := wire.GetString(args, "server")
	reports, err := h.cfg.Health.CheckHealth(ctx, call.Origin, server)
	var unknown *health.UnknownError
	switch {
	case errors.As(err, &unknown):
		return wire.Reply{}, unknownServer(unknown)
	case err != nil:
		return wire.Reply{}, err
	}
	text := health.Table(reports)
	if len(reports) == 0 {
		text = "No servers are configured."
	}
	c := healthReport{Healthy: health.Healthy(reports), Servers: append([]health.Report{}, reports...)}
	if h.cfg.Problems != nil {
		c.Problems = h.cfg.Problems()
	}
	for _, p := range c.Problems {
		c.Healthy = false
		text += "\n! " + p
	}
	return wire.Reply{Result: compose.TextResult(text, wire.Marshal(c))}, nil
}

func unknownServer(unknown *health.UnknownError) error {
	f := &compose.Failure{Type: abi.ErrValidation, Message: unknown.Error()}
	if f.Nearest = nearest.Names(unknown.Server, unknown.Known); f.Nearest != nil {
		f.Message += fmt.Sprintf(" (did you mean %s?)", strings.Join(f.Nearest, ", "))
	} else if len(unknown.Known) > 0 {
		f.Message += fmt.Sprintf(" (there are %s)", strings.Join(unknown.Known, ", "))
	}
	return f
}
