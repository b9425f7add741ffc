package cli

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// UnknownTools returns the tools that rules name and that their servers lacked at their last run.
func UnknownTools(ctx context.Context, cfg *config.Config, rules []config.PolicyRule) (found []policy.UnknownName) {
	servers := NewRemembered(ctx, cfg)
	namesOf := func(server string) ([]string, bool) {
		switch server {
		case policy.BuiltinTools:
			return builtin.Names(), true
		case policy.SavedTools:
			var names []string
			for _, d := range SavedDefinitions(cfg) {
				names = append(names, d.Name)
			}
			return names, true
		}
		if !slices.ContainsFunc(cfg.Upstreams, func(u config.Upstream) bool { return u.Name == server }) {
			return nil, false // the warnings of the configuration name the server
		}
		return servers.ServerTools(server)
	}
	for _, r := range rules {
		found = append(found, policy.UnknownTools(r.Name, r.Tools, namesOf)...)
	}
	return found
}

// Definitions returns the definitions of tools that are known without a start of servers: the
// definitions at the last run of each server.
func Definitions(ctx context.Context, cfg *config.Config, saved []tools.Definition) func(server, tool string) []byte {
	servers := NewRemembered(ctx, cfg)
	return func(server, tool string) []byte {
		switch server {
		case policy.BuiltinTools:
			return builtin.Definition(tool)
		case policy.SavedTools:
			for _, d := range saved {
				if d.Name == tool {
					return compose.DefinitionWith(d, servers)
				}
			}
			return nil
		}
		return servers.Definition(server, tool)
	}
}

// remembered holds the tools of servers at their last run, and implements permissions.Servers.
type remembered struct {
	ctx   context.Context
	cfg   *config.Config
	tools map[string]map[string][]byte // by server, once they are read
}

func NewRemembered(ctx context.Context, cfg *config.Config) *remembered {
	return &remembered{ctx: ctx, cfg: cfg, tools: map[string]map[string][]byte{}}
}

func (r *remembered) Of(server string) map[string][]byte {
	if r.tools[server] == nil {
		r.tools[server] = map[string][]byte{}
		for _, item := range supervise.RememberedDefinitions(r.ctx, filepath.Join(r.cfg.Store.Dir, "servers"), server) {
			name, _ := wire.GetString(item, "name")
			r.tools[server][name] = item
		}
	}
	return r.tools[server]
}

func (r *remembered) Definition(server, tool string) []byte { return r.Of(server)[tool] }

func (r *remembered) ServerTools(server string) ([]string, bool) {
	names := slices.Sorted(maps.Keys(r.Of(server)))
	return names, len(names) > 0
}

// SavedDefinitions returns the saved tools, none if they cannot be read.
func SavedDefinitions(cfg *config.Config) []tools.Definition {
	list, err := host.ReadTools(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	return list
}
