package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// verifyTimeout is how long the start may take. Servers that npx installs first take long.
const verifyTimeout = 2 * time.Minute

// verify starts mcp-metatool as the host will, and asks for its tools and for the state of
// its servers.
func (c *connection) verify(ctx context.Context) error {
	if c.noVerify {
		return nil
	}
	out := c.cmd.OutOrStdout()
	launch := c.launch.With(&c.entry, os.Environ())
	if missing := c.missing(ctx, launch); len(missing) > 0 {
		return fmt.Errorf("connect: the configuration needs %s, which %s does not have: %s (--env NAME gives mcp-metatool the value that it has here; --no-verify writes the entry as it is)",
			strings.Join(missing, ", "), c.host.Title, c.unwritten())
	}
	u := servers.Start(servers.Spec{
		Name: c.entry.Name, Command: c.entry.Command, Args: c.entry.Args, Env: launch.Env, Dir: launch.Dir,
		Timeout: verifyTimeout, Restart: servers.RestartNever, Protocol: servers.ProtocolLegacy,
	}, servers.Options{ClientName: "mcp-metatool connect", ClientVersion: currentVersion(), Log: slog.New(slog.DiscardHandler)})
	defer u.Close(context.WithoutCancel(ctx))
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	defer busy(c.cmd, "starting mcp-metatool as "+c.host.Title+" will")()
	if err := u.Ready(ctx); err != nil {
		if state := u.Status(); state.Err != "" {
			err = errors.New(state.Err)
		}
		return fmt.Errorf("connect: mcp-metatool does not work when it is started as %s starts it: %s. To write the entry without this check, give --no-verify. The error: %w", c.host.Title, c.unwritten(), err)
	}
	status := u.Status()
	fmt.Fprintf(out, "started as %s will start it: %s, %s in %s\n", c.host.Title,
		strings.TrimSpace(status.ServerName+" "+status.ServerVersion), count(status.Tools, "tool"), status.StartTime.Round(time.Millisecond))
	for _, problem := range unhealthy(ctx, u) {
		fmt.Fprintf(out, "warning: %s\n", display.EscapeLine(problem))
	}
	return nil
}

// missing returns the variables that the configuration needs and the launch does not have.
func (c *connection) missing(ctx context.Context, launch clientconfig.Launch) []string {
	_, err := config.Load(config.LoadOptions{Policies: compile.Policy, Context: ctx, Flag: c.config, Getenv: launch.Getenv})
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil // any other problem is found by starting it
	}
	var names []string
	for _, e := range joined.Unwrap() {
		if unset := new(config.UnsetError); errors.As(e, &unset) {
			names = append(names, unset.Var)
		}
	}
	return names
}

// unhealthy returns what does not work of the servers behind a running mcp-metatool.
func unhealthy(ctx context.Context, u *servers.Upstream) []string {
	reply, err := u.Call(ctx, wire.Call{Method: protocol.MethodToolsCall, Params: []byte(`{"name":"health_check","arguments":{}}`)})
	if err != nil || reply.Error != nil {
		return nil // it has started, which is what was to be shown
	}
	var result struct {
		StructuredContent struct {
			Servers []health.Report `json:"servers"`
		} `json:"structuredContent"`
	}
	if jsonvalue.Unmarshal(reply.Result, &result) != nil {
		return nil
	}
	var problems []string
	for _, r := range result.StructuredContent.Servers {
		if r.Check == health.Failed {
			problems = append(problems, fmt.Sprintf("server %s does not work: %s", r.Server, cmp.Or(r.Error, r.LastError, string(r.State))))
		}
	}
	return problems
}

// addPath adds our PATH to the entry if a server of the configuration would not be found
// with that of the host.
func (c *connection) addPath() {
	here := os.Getenv("PATH")
	there, _ := c.launch.Getenv("PATH") // perhaps that of an entry that is there already
	if there == here || c.planned == nil {
		return
	}
	for _, u := range c.planned.Upstreams {
		if !u.Disabled && u.Transport == config.Stdio && u.Env["PATH"] == "" && !findable(u.Command, there) && findable(u.Command, here) {
			c.entry.Env = append(c.entry.Env, clientconfig.Setting{Name: "PATH", Value: cleanPath(here)})
			return
		}
	}
}

// findable reports whether a command, and the interpreter that its first line names, are
// found with a PATH.
func findable(command, path string) bool {
	if filepath.Base(command) == command {
		found, ok := clientconfig.Find(command, path)
		if !ok {
			return false
		}
		command = found
	}
	f, err := regular.Open(command)
	if err != nil {
		return false
	}
	f.Close()
	interpreter := clientconfig.Interpreter(command)
	if interpreter == "" {
		return true
	}
	_, ok := clientconfig.Find(interpreter, path)
	return ok
}

// cleanPath returns a PATH with each folder once, and without relative ones.
func cleanPath(path string) string {
	var dirs []string
	seen := map[string]bool{}
	for _, dir := range filepath.SplitList(path) {
		if filepath.IsAbs(dir) && !seen[dir] {
			seen[dir] = true
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(filepath.ListSeparator))
}
