package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// maxParams is the largest input of --params, in bytes.
const maxParams = 64 << 20

func runCommand() *cobra.Command {
	s := &settings{}
	var params string
	var raw bool
	var approve approveFlag
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Call a saved tool, or any other tool that agents see",
		Long: `Call a saved tool, or any other tool that agents see, as an agent would.

The result goes to standard output: text as it is, every other value as JSON.
Progress, what the script prints, and errors go to standard error. The exit code
is 1 when the tool fails, and 130 after Ctrl-C, which cancels the call.

If policy asks for the approval of a call, you are asked at the terminal. Without one
it is denied; --approve allow allows it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			arguments, err := readParams(cmd.Context(), params, cmd.InOrStdin())
			if err != nil {
				return &exitError{exitUsage, err}
			}
			return run(cmd, s, args[0], arguments, raw, &approve)
		},
	}
	s.addFlags(cmd, slog.LevelWarn)
	cmd.ValidArgsFunction = choices(s.callable).complete(1)
	cmd.Flags().StringVar(&params, "params", "{}", "arguments: a `JSON` object, @FILE to read it from a file, - from standard input")
	approve.addFlag(cmd)
	cmd.Flags().BoolVar(&raw, "raw", false, "print the whole MCP result as JSON")
	return cmd
}

// readParams returns the raw JSON object that --params names.
func readParams(ctx context.Context, flag string, stdin io.Reader) ([]byte, error) {
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

func run(cmd *cobra.Command, s *settings, name string, arguments []byte, raw bool, approve *approveFlag) error {
	cfg, err := s.load()
	if err != nil {
		return err
	}
	log := s.logger(cfg)
	cfg.Debug = true // for the backtrace
	var result []byte
	defer during(cmd.Context(), "the call of "+name)()
	view := newProgressView(os.Stderr, isTerminal(os.Stderr), name)
	opts := hostOptions(log, host.NoClient)
	opts.Person = approve.person(cmd, view.plain)
	opts.Idle = strings.Contains(name, "__") // probably the tool of a server
	err = withHostOf(cmd.Context(), cfg, opts, func(ctx context.Context, h *host.Host) error {
		defer view.end()
		return withClient(ctx, h, func(c *host.Client) error {
			h.AwaitOwner(ctx, name)
			result, err = callTool(ctx, c, name, arguments, view.update)
			return err
		})
	})
	if err != nil {
		return err
	}
	if raw {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", indentJSON(result)); err != nil {
			return err
		}
	}
	r := readResult(result)
	if r.isError { // the text of a failing server may contain a secret
		r.text = cfg.NewMasker().Mask(r.text)
	}
	return report(cmd, name, r, raw)
}

// report prints a result; raw says that it is already on standard output.
func report(cmd *cobra.Command, name string, r toolResult, raw bool) error {
	stderr := cmd.ErrOrStderr()
	for _, line := range r.logs {
		fmt.Fprintln(stderr, display.Text(line))
	}
	if r.isError {
		return &exitError{exitFailed, fmt.Errorf("%s: %s", name, r.text)}
	}
	if raw {
		return nil
	}
	for _, kind := range r.others {
		fmt.Fprintf(stderr, "not shown: %s (--raw prints the whole result)\n", display.Text(kind))
	}
	_, err := io.WriteString(cmd.OutOrStdout(), r.output())
	return err
}

// withClient runs f with a client session. The session outlives a signal until
// f has returned, so that a call can be cancelled in it.
func withClient(ctx context.Context, h *host.Host, f func(*host.Client) error) error {
	c, err := h.Connect(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	defer c.Close() // an error at the end of the session does not affect the answer
	return f(c)
}

// callTool makes a tools/call. When ctx ends, the call is cancelled, and the
// error is the cause.
func callTool(ctx context.Context, c *host.Client, name string, arguments []byte, progress func([]byte)) ([]byte, error) {
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
