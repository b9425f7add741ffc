// Package demo has the verb demo, which shows a composite tool with two upstream servers of its own.
// A Server is an MCP server whose tools are functions.
package demo

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Commands returns the verb demo, and the hidden verb that serves its upstream servers.
func Commands() []*cobra.Command {
	return []*cobra.Command{command(), serverCommand()}
}

func command() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show what mcp-metatool is for: two small servers, and a saved tool that combines them",
		Long: `Show what mcp-metatool is for, in a few seconds, without configuration or network:
start two small upstream servers (processes of this program), save a composite tool
that combines them, and call it. Only the compiled sandbox is kept.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), os.Stdout) },
	}
}

// The demo is an MCP client of its own host.
func demo(ctx context.Context, out *os.File) error {
	dir, err := os.MkdirTemp("", "mcp-metatool-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg, err := demoConfig(dir)
	if err != nil {
		return err
	}
	log := cli.NewLogger(cfg.NewMasker(), os.Stderr, slog.LevelWarn, cfg.LogFormat)
	return cli.WithHost(ctx, cfg, log, host.NoClient, func(ctx context.Context, h *host.Host) error {
		return cli.WithClient(ctx, h, func(c *host.Client) error {
			d := &demonstration{ctx: ctx, out: out, file: out, client: c}
			d.servers(h)
			d.save()
			d.call()
			d.bug()
			d.end()
			return d.err
		})
	})
}

// demoConfig writes and loads a configuration like a user's.
func demoConfig(dir string) (*config.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	// A JSON string is also a TOML string; $$ stands for $.
	quote := func(s string) string { return strings.ReplaceAll(string(wire.Quote(s)), "${", "$${") }
	fmt.Fprintf(&text, "[store]\ndir = %s\n", quote(dir))
	for _, name := range names() {
		fmt.Fprintf(&text, "[upstream.%s]\ncommand = %s\nargs = [\"demo-upstream\", \"%s\"]\n", name, quote(self), name)
	}
	file := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return nil, err
	}
	return config.Load(config.LoadOptions{
		Flag:   file,
		Getenv: func(string) (string, bool) { return "", false }, // the user's settings must not affect the demo
	})
}

// demonstration is a run of the demo. After an error its methods do nothing.
type demonstration struct {
	ctx    context.Context
	out    io.Writer
	file   *os.File // the same, for the progress bar
	client *host.Client
	err    error
}

func (d *demonstration) printf(format string, args ...any) {
	if d.err == nil {
		_, d.err = fmt.Fprintf(d.out, format, args...)
	}
}

// servers shows the upstreams and their tools.
func (d *demonstration) servers(h *host.Host) {
	d.printf("1. Two MCP servers, each a process of its own on stdio\n\n")
	for _, st := range h.Upstreams(d.ctx) {
		if d.err == nil && st.State != servers.Ready {
			d.err = errors.Join(context.Cause(d.ctx), fmt.Errorf("upstream %q did not start: %s", st.Name, st.Err))
		}
		d.printf("   %-8s ready after %v, %d tool\n", st.Name, st.StartTime.Round(time.Millisecond), st.Tools)
	}
	if d.err != nil {
		return
	}
	reply, err := d.client.Call(d.ctx, wire.Call{Method: wire.Tools.ListMethod()})
	if err != nil {
		d.err = err
		return
	}
	list, _ := wire.Get(reply.Result, "tools")
	tools, _ := wire.Elements(list)
	var names []string
	for _, t := range tools {
		name, _ := wire.GetString(t, "name")
		names = append(names, name)
	}
	d.printf("   An agent sees: %s\n\n", strings.Join(names, ", "))
}

// save saves the composite tool over MCP.
func (d *demonstration) save() {
	d.printf("2. save_tool %q: a Starlark script that joins them\n\n%s\n\n", Name, cli.Indented(cli.Indented(Code)))
	d.printf("   saving (the first time on a machine, the sandbox is compiled: a few seconds) ...\n")
	start := time.Now()
	r := d.tool("save_tool", fmt.Sprintf(`{"name":%s,"description":%s,"inputSchema":%s,"code":%s}`,
		wire.Quote(Name), wire.Quote(description), schema, wire.Quote(Code)), nil)
	if d.err == nil && r.IsError {
		d.err = errors.New(r.Text)
	}
	d.printf("   saved after %v\n\n", time.Since(start).Round(time.Millisecond))
}

// call calls the saved tool like an agent.
func (d *demonstration) call() {
	d.printf("3. Call %s %s\n\n", Name, Arguments)
	if d.err != nil {
		return
	}
	view := cli.NewProgressView(d.out, cli.IsTerminal(d.file), Name)
	view.Expect, view.Indent = calls, "   "
	r := d.tool(Name, Arguments, view.Update)
	view.End()
	if d.err == nil && r.IsError {
		d.err = errors.New(r.Text)
	}
	d.printf("\n   Result:\n")
	for _, ship := range elements(r.Value) {
		name, _ := wire.GetString(ship, "ship")
		berth, _ := wire.Get(ship, "berth")
		leaves, _ := wire.GetString(ship, "leaves")
		d.printf("     %-10s berth %s  leaves %s\n", name, berth, leaves)
	}
	d.printf("   What the script printed:\n")
	for _, line := range r.Logs {
		d.printf("     %s\n", display.Text(line))
	}
	d.printf("   The calls it made:\n")
	var answers int
	for _, c := range r.Calls {
		answers += len(c.Result)
		d.printf("     %s.%s %s -> %s\n", c.Server, c.Tool, display.Line(string(c.Params), 60), display.Size(uint64(len(c.Result))))
	}
	d.printf("   What the sandbox measured: %.0f ms, %d calls, peak memory %s\n",
		r.Receipt.Time, r.Receipt.Calls, display.Size(r.Receipt.Memory))
	d.printf("   What came back: %s of text, out of %s of answers\n\n",
		display.Size(uint64(len(r.Text))), display.Size(uint64(answers)))
}

// bug shows an error.
func (d *demonstration) bug() {
	d.printf("4. The same script with a bug (eval_starlark)\n\n")
	r := d.tool("eval_starlark", fmt.Sprintf(`{"code":%s,"params":%s}`, wire.Quote(Bug()), Arguments), nil)
	if d.err == nil && !r.IsError {
		d.err = errors.New("demo: the script with a bug did not fail")
	}
	d.printf("%s\n\n", cli.Indented(" "+strings.ReplaceAll(r.Text, "\n", "\n ")))
}

func (d *demonstration) end() {
	d.printf("Next: register it in an MCP host, see README.md; mcp-metatool help lists the verbs.\n")
}

// tool makes a call. After an error the result is empty.
func (d *demonstration) tool(name, arguments string, progress func([]byte)) cli.ToolResult {
	if d.err != nil {
		return cli.ToolResult{}
	}
	raw, err := cli.CallTool(d.ctx, d.client, name, []byte(arguments), progress)
	if err != nil {
		d.err = err
		return cli.ToolResult{}
	}
	return cli.ReadResult(raw)
}

func elements(raw []byte) [][]byte {
	items, _ := wire.Elements(raw) // other values have no items
	return items
}

// The composite tool of the demo.
const (
	Name        = "departures"
	description = "Which ships can leave port today, and when: those with enough hours of calm weather on their route."
	schema      = `{"type":"object","properties":{"hours_at_sea":{"type":"integer","minimum":1,"default":6}},"required":["hours_at_sea"]}`
	Arguments   = `{"hours_at_sea":6}`
	// calls is how many calls demoCode makes.
	calls = 5
)

//go:embed departures.star
var Code string

// Bug is demoCode with a misspelt name.
func Bug() string { return strings.Replace(Code, "ship.max_wind", "ship.max_winds", 1) }
