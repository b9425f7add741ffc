package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/smoke"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// ask starts the servers and asks what they offer.
func (v *smokeInit) ask(ctx context.Context) error {
	log := v.logger(v.cfg)
	for _, value := range v.given {
		v.masker.Add(value)
	}
	if len(v.cfg.Upstreams) > 0 {
		done := startingServers(v.cmd, v.cfg)
		defer done()
		err := withServers(ctx, v.cfg, log, func(ctx context.Context, h *host.Host) error {
			for _, st := range h.Upstreams(ctx) {
				if err := v.offered(ctx, h, st); err != nil {
					return err
				}
			}
			done()
			return cmp.Or(v.tryTools(ctx, h), context.Cause(ctx))
		})
		if err != nil {
			return err
		}
	}
	if len(v.draft.Servers) == 0 {
		return &exitError{exitFailed, errors.New("nothing was written: no server has started")}
	}
	return nil
}

// offered adds a server to the draft.
func (v *smokeInit) offered(ctx context.Context, h *host.Host, st servers.Status) error {
	snapshot, err := h.Snapshot(ctx, st.Name)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		why := cmp.Or(strings.TrimPrefix(st.Err, fmt.Sprintf("upstream %q: ", st.Name)), err.Error())
		v.leaveOut(st.Name, "it did not start: "+v.masker.Mask(why))
		return nil
	}
	server := smoke.DraftServer{Name: st.Name, Names: map[wire.Surface][]string{}}
	definitions := map[string][]byte{}
	for surface, list := range snapshot.Lists {
		for _, item := range list.Items {
			item = []byte(v.masker.Mask(string(item)))
			name, ok := wire.GetString(item, surface.Key())
			if !ok {
				continue
			}
			server.Names[surface] = append(server.Names[surface], name)
			if surface == wire.Tools {
				definitions[name] = item
			}
		}
	}
	for _, n := range h.Names() {
		if n.Server == st.Name && n.Surface == wire.Tools && definitions[n.Own] != nil {
			server.Tools = append(server.Tools, smoke.DraftTool{Name: n.Public, Definition: definitions[n.Own]})
		}
	}
	v.draft.Servers = append(v.draft.Servers, server)
	return nil
}

// callTime bounds one call of --call.
const callTime = 30 * time.Second

// tryTools calls the tools that only read, if that is wanted.
func (v *smokeInit) tryTools(ctx context.Context, h *host.Host) error {
	if !v.call {
		return nil
	}
	return withClient(ctx, h, func(c *host.Client) error {
		for i := range v.draft.Servers {
			for j := range v.draft.Servers[i].Tools {
				t := &v.draft.Servers[i].Tools[j]
				if args, ok := t.Arguments(); ok && t.ReadOnly() {
					t.Refused = v.tryTool(ctx, c, t.Name, args)
				}
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
			}
		}
		return nil
	})
}

// tryTool calls a tool and returns why a check of it would not pass, "" if it would.
func (v *smokeInit) tryTool(ctx context.Context, c *host.Client, name string, args []byte) string {
	defer busy(v.cmd, "calling "+name)()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	result, err := callTool(ctx, c, name, args, nil)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it did not answer within %s", callTime)
	case err != nil:
		return "it failed: " + display.Line(v.masker.Mask(err.Error()), 150)
	}
	if r := readResult(result); r.isError {
		return "it failed: " + display.Line(v.masker.Mask(r.text), 150)
	}
	return ""
}
