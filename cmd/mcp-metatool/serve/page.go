package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli/control"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// pageView is a run of ui.
type pageView struct {
	cli.Settings
	open, attach bool
	port         uint16
	stderr       io.Writer
}

func uiCommand() *cobra.Command {
	v := &pageView{}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Show servers, tools, saved tools and runs on a page in the browser",
		Long: `Serve a page about the configured servers, their tools, the saved tools and the
runs in the journal, on this machine only, until Ctrl-C. The link that it prints has
a token, without which the page shows nothing.

Servers are started when they are needed: a server whose tools are known from an
earlier start is left asleep until the page calls or checks it. With --attach the
link is that of a running server instead, which was started with serve --http --ui.

The page changes no settings and no saved tools. It can call a tool, and asks before
it calls one that does not say that it only reads.`,
		Example: `  mcp-metatool ui --open
  mcp-metatool ui --port 8080 --config config.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.stderr = cmd.ErrOrStderr()
			return v.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	v.AddFlags(cmd, slog.LevelWarn)
	f := cmd.Flags()
	f.BoolVar(&v.open, "open", false, "open the page in the browser")
	f.BoolVar(&v.attach, "attach", false, "print the link of a running server (serve --http --ui) instead, and start nothing")
	f.Uint16Var(&v.port, "port", 0, "listen on `PORT` of 127.0.0.1 (default: any free one)")
	cmd.MarkFlagsMutuallyExclusive("attach", "port")
	return cmd
}

func (v *pageView) run(ctx context.Context, w io.Writer) error {
	cfg, err := v.Load()
	if err != nil {
		return err
	}
	if v.attach {
		return v.attachTo(ctx, w, cfg.Store.Dir)
	}
	for i := range cfg.Upstreams {
		cfg.Upstreams[i].Start = config.Lazy
	}
	var open net.ListenConfig
	ln, err := open.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(v.port))))
	if err != nil {
		return cli.Usage(fmt.Errorf("--port %d: cannot listen there: %w", v.port, listenReason(err)))
	}
	defer ln.Close() // harmless: ServePageOn closes the listener too
	access := ui.NewAccess()
	links := &pageLinks{"http://" + ln.Addr().String() + ui.Path, access}
	err = cli.WithHost(ctx, cfg, v.Logger(cfg), host.NoClient, func(ctx context.Context, h *host.Host) error {
		if _, err := fmt.Fprintln(w, links.lasting()); err != nil {
			return err
		}
		if v.open {
			openPage(v.stderr, links.once())
		}
		return h.ServePageOn(ctx, ln, access)
	})
	if errors.Is(context.Cause(ctx), cli.ErrSignal) { // the normal end
		return nil
	}
	return err
}

// attachTo prints the links of the pages of running servers, and opens the first with --open.
func (v *pageView) attachTo(ctx context.Context, w io.Writer, store string) error {
	none := cli.Failed(errors.New("no server with a page runs with this configuration (start one: mcp-metatool serve --http --ui)"))
	run, err := control.OpenFolder(store, false)
	if errors.Is(err, fs.ErrNotExist) { // no server has ever run
		return none
	}
	if err != nil {
		return cli.Usage(err)
	}
	defer run.Close()
	found, link := false, ""
	for _, name := range run.Sockets() {
		answer, err := run.Ask(ctx, name, control.Request{Config: cli.Absolute(v.Config), Page: true, Open: v.open})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || answer.Page == "" { // the server has ended, or has no page
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\n", display.Text(answer.Page)); err != nil {
			return err
		}
		found, link = true, cmp.Or(link, answer.Open)
	}
	if !found {
		return none
	}
	if v.open {
		openPage(v.stderr, link)
	}
	return nil
}

// pageLinks makes links of a page. Browsers do not send the part after #.
type pageLinks struct {
	address string
	access  *ui.Access
}

// lasting returns a link with the token, which is valid as long as the page is served.
func (l *pageLinks) lasting() string { return l.address + "#token=" + l.access.Token() }

// once returns a link with a code in place of the token. The link is valid once, and for a short
// time.
func (l *pageLinks) once() string { return l.address + "#code=" + l.access.Code() }

// openPage opens a single-use link in the browser. Other users of the machine can see the arguments
// of the browser's process.
func openPage(w io.Writer, link string) {
	if !cli.Launch(link) {
		fmt.Fprintln(w, "mcp-metatool: no browser could be started (open the link yourself)")
	}
}
