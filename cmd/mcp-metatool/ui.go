package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// pageView is one run of ui.
type pageView struct {
	settings
	open, attach bool
	port         uint16
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
		RunE: func(cmd *cobra.Command, _ []string) error { return v.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	v.addFlags(cmd, slog.LevelWarn)
	f := cmd.Flags()
	f.BoolVar(&v.open, "open", false, "open the page in the browser")
	f.BoolVar(&v.attach, "attach", false, "print the link of a running server (serve --http --ui) instead, and start nothing")
	f.Uint16Var(&v.port, "port", 0, "listen on `PORT` of 127.0.0.1 (default: any free one)")
	cmd.MarkFlagsMutuallyExclusive("attach", "port")
	return cmd
}

func (v *pageView) run(ctx context.Context, w io.Writer) error {
	cfg, err := v.load()
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
		return &exitError{exitUsage, fmt.Errorf("--port %d: cannot listen there: %w", v.port, listenReason(err))}
	}
	defer ln.Close() // ServePageOn closes it too, which does no harm
	token := rand.Text()
	err = withHost(ctx, cfg, v.logger(cfg), host.NoClient, func(ctx context.Context, h *host.Host) error {
		done, err := v.show(w, cfg.Store.Dir, pageLink("http", ln.Addr().String(), token))
		if err != nil {
			return err
		}
		defer done()
		return h.ServePageOn(ctx, ln, token)
	})
	if errors.Is(context.Cause(ctx), errSignal) { // that is how it ends
		return nil
	}
	return err
}

// attachTo prints the links of the pages of running servers, and opens the first if that is
// asked for.
func (v *pageView) attachTo(ctx context.Context, w io.Writer, store string) error {
	none := &exitError{exitFailed, errors.New("no server with a page runs with this configuration (start one: mcp-metatool serve --http --ui)")}
	run, err := openRunDir(store, false)
	if errors.Is(err, fs.ErrNotExist) { // no server has ever run
		return none
	}
	if err != nil {
		return &exitError{exitUsage, err}
	}
	defer run.close()
	link := ""
	for _, name := range run.sockets() {
		answer, err := run.ask(ctx, name, controlRequest{Config: absolute(v.config), Page: true})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil || answer.Page == "" { // it has ended, or has no page
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\n", display.Text(answer.Page)); err != nil {
			return err
		}
		link = cmp.Or(link, answer.Page)
	}
	if link == "" {
		return none
	}
	if v.open {
		// The file stays, since this process does not know when the browser has read it.
		_, err = openPage(store, link)
	}
	return err
}

// pageLink returns the address of the page with its token. Browsers do not send the part
// after #.
func pageLink(scheme, address, token string) string {
	return scheme + "://" + address + ui.Path + "#token=" + token
}

// show prints the link, and opens it if that is asked for. done must be called when the
// page ends.
func (v *pageView) show(w io.Writer, dir, link string) (done func(), err error) {
	if _, err := fmt.Fprintf(w, "%s\n", link); err != nil {
		return nil, err
	}
	if !v.open {
		return func() {}, nil
	}
	return openPage(dir, link)
}

// openPage opens a link with a token in the browser. Other users of the machine can see the
// arguments of a process, so the browser gets a file that only this user may read and that
// sends it to the link.
func openPage(dir, link string) (done func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "ui.html")
	page := fmt.Sprintf("<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n<meta http-equiv=\"refresh\" content=\"0; url=%[1]s\">\n<title>mcp-metatool</title>\n<a href=\"%[1]s\">Continue</a>\n", html.EscapeString(link))
	if err := regular.Write(file, []byte(page), 0o600); err != nil {
		return nil, err
	}
	launch(file)
	return func() { os.Remove(file) }, nil
}
