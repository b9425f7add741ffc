// Package serve has the verbs around a running server: serve, reload, ui and token. Root is the
// command without a verb, which serves over standard input and output.
//
// A reloader runs the host and replaces its configuration when the file changes or a command asks
// over the control socket.
package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
)

// Commands returns the verbs of a running server and its clients.
func Commands() []*cobra.Command {
	return []*cobra.Command{command("serve"), reloadCommand(), uiCommand(), tokenCommand()}
}

// Root returns the command without a verb.
func Root() *cobra.Command {
	root := command("mcp-metatool")
	root.Short = "Use many MCP servers through one, and combine their tools in sandboxed scripts"
	root.Long = root.Short + `.

Without a verb it serves MCP on standard input and output, or over HTTP (--http).

The configuration is the FILE of --config, else of $MCP_METATOOL_CONFIG, else
config.toml or config.json in $MCP_METATOOL_DIR or ~/.mcp-metatool. Some programs that
start MCP servers take --config for themselves, such as the command line of the MCP
Inspector. There, set MCP_METATOOL_CONFIG in the environment of the server.`
	cli.AddVersion(root)
	root.SilenceErrors = true
	root.SilenceUsage = true
	return root
}

func command(use string) *cobra.Command {
	s, f := &cli.Settings{}, &frontFlags{}
	cmd := &cobra.Command{
		Use:   use,
		Short: "Serve MCP on standard input and output (also without a verb), or over HTTP",
		Args:  f.takeAddress,
		RunE:  func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), s, f) },
	}
	s.AddFlags(cmd, slog.LevelInfo)
	f.add(cmd)
	return cmd
}

const terminalHint = `This is an MCP server: it reads JSON-RPC messages from standard input, one a line,
and is meant to be started by an MCP host. To register it, for instance:
  claude mcp add metatool -- mcp-metatool --config FILE
To see what it does: mcp-metatool demo. To end it: Ctrl-D.
`

// serve runs a front end to its end. Neither a signal nor a client that closes standard input is an
// error.
func serve(ctx context.Context, s *cli.Settings, f *frontFlags) error {
	r := newReloader(s, f)
	defer cli.OnHangup(ctx, r.hangup)()
	cfg, err := r.load()
	if err != nil {
		return err
	}
	if err := supervise.CheckNested(cfg); err != nil {
		return cli.Usage(err)
	}
	log := s.Logger(cfg)
	if cfg.Path == "" {
		log.Warn("no configuration file, so there are no upstream servers", "looked_for", cfg.Searched)
	}
	for _, p := range cfg.LeftOut() {
		log.Error("an upstream is left out", "err", p.Error())
	}
	if f.http.on {
		err = serveHTTP(ctx, cfg, log, f, r)
	} else {
		err = serveStdio(ctx, cfg, log, r)
	}
	if errors.Is(err, errDrained) {
		log.Info("ended", "reason", err)
		return nil
	}
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, cli.ErrSignal) { // the signal is the cause of any failure
		log.Info("ended", "reason", cause)
		return nil
	}
	return err
}

// input is standard input without Close, because a blocked read cannot be interrupted. If the
// terminal is closed, the input ends without an error.
type input struct{}

func (input) Read(p []byte) (int, error) {
	n, err := os.Stdin.Read(p)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// serveStdio runs a session on standard input and output.
func serveStdio(ctx context.Context, cfg *config.Config, log *slog.Logger, r *reloader) error {
	if cli.IsTerminal(os.Stdin) {
		fmt.Fprint(os.Stderr, terminalHint)
	}
	return r.withHost(ctx, cfg, log, host.OneClient, func(ctx context.Context, h *host.Host) error {
		return h.Serve(ctx, input{}, os.Stdout)
	})
}

// frontFlags says how clients connect.
type frontFlags struct {
	http            httpFlag
	unauthenticated bool
	page            bool
}

func (f *frontFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.http, "http", "serve streamable HTTP on `ADDRESS`, HOST:PORT or a port of 127.0.0.1 (default: listen of [http] in the configuration)")
	flags.Lookup("http").NoOptDefVal = switchedOn
	flags.BoolVar(&f.unauthenticated, "allow-unauthenticated", false, "with --http: let in every client that can connect, from other machines too")
	flags.BoolVar(&f.page, "ui", false, "with --http: serve the page of mcp-metatool ui too, like ui = true in [http] (its link: mcp-metatool ui --attach)")
}

// takeAddress checks the arguments of serve. The only allowed argument is the address of --http:
// because the address is optional, the parser of flags does not take the next word as the address.
func (f *frontFlags) takeAddress(cmd *cobra.Command, args []string) error {
	if f.http.on && f.http.address == "" && len(args) == 1 {
		if err := f.http.Set(args[0]); err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		return nil
	}
	if f.unauthenticated && !f.http.on {
		return errors.New("--allow-unauthenticated is for --http")
	}
	if f.page && !f.http.on {
		return errors.New("--ui is for --http (see also: mcp-metatool ui)")
	}
	return cli.OnlyVerbs(cmd, args)
}

// switchedOn is the value of a flag without an explicit value.
const switchedOn = "true"

// httpFlag is a switch with an optional address.
type httpFlag struct {
	on      bool
	address string // "": the address of the configuration
}

// String implements pflag.Value.
func (f *httpFlag) String() string { return f.address }

// Type implements pflag.Value. The flag is documented like a switch.
func (f *httpFlag) Type() string { return "bool" }

// Set implements pflag.Value.
func (f *httpFlag) Set(text string) error {
	if text == switchedOn {
		f.on = true
		return nil
	}
	address, err := config.ParseListen(text)
	if err != nil {
		return fmt.Errorf("%q %w", text, err)
	}
	f.on, f.address = true, address
	return nil
}

// serveHTTP serves any number of sessions over HTTP until ctx ends.
func serveHTTP(ctx context.Context, cfg *config.Config, log *slog.Logger, f *frontFlags, r *reloader) error {
	ln, err := listen(ctx, "--http", cfg.HTTP.Listen, len(cfg.HTTP.Tokens) > 0 || f.unauthenticated,
		"set tokens in [http], listen on 127.0.0.1, or give --allow-unauthenticated")
	if err != nil {
		return err
	}
	defer ln.Close() // harmless: ServeHTTPOn closes the listener too
	page := f.page || cfg.HTTP.UI
	if address, ok := ln.Addr().(*net.TCPAddr); page && cfg.HTTP.CertFile == "" && (!ok || !address.IP.IsLoopback()) {
		return cli.Usage(fmt.Errorf("%s: the token of the page could be read on the network (listen on 127.0.0.1, or set tls_cert and tls_key in [http])", map[bool]string{true: "--ui", false: "[http] ui"}[f.page]))
	}
	scheme := "http"
	if cfg.HTTP.CertFile != "" {
		scheme = "https"
		if ln, err = withTLS(ctx, ln, cfg.HTTP); err != nil {
			return err
		}
	}
	return r.withHost(ctx, cfg, log, host.ManyClients, func(ctx context.Context, h *host.Host) error {
		tell := func(what, address string) {
			if r.settings.FormatOf(cfg) == config.LogJSON {
				log.Info(what, "url", address)
				return
			}
			fmt.Fprintf(os.Stderr, "mcp-metatool: %s %s\n", what, address)
		}
		tell("serving MCP on", fmt.Sprintf("%s://%s%s", scheme, ln.Addr(), cfg.HTTP.Path))
		if page {
			access := ui.NewAccess()
			h.OfferPage(access)
			r.setPage(&pageLinks{scheme + "://" + ln.Addr().String() + ui.Path, access})
			tell("the page is at", fmt.Sprintf("%s://%s%s (its link with the token: mcp-metatool ui --attach)", scheme, ln.Addr(), ui.Path))
		}
		return h.ServeHTTPOn(ctx, ln)
	})
}

// listen opens the address of a setting. An address that other machines can reach is refused,
// unless clients are authenticated or the user has allowed clients without authentication. remedy
// says how to allow the address.
func listen(ctx context.Context, setting, address string, guarded bool, remedy string) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("%s %s: %w", setting, address, err))
	}
	if !guarded && !resolved.IP.IsLoopback() {
		return nil, cli.Usage(fmt.Errorf("%s %s: other machines could connect, and the configuration has no tokens (%s)", setting, address, remedy))
	}
	var open net.ListenConfig
	ln, err := open.Listen(ctx, "tcp", resolved.String())
	if err != nil {
		return nil, fmt.Errorf("%s %s: cannot listen there: %w", setting, address, listenReason(err))
	}
	return ln, nil
}

// listenReason returns why an address cannot be listened on, without the address.
func listenReason(err error) error {
	var reason *os.SyscallError
	if errors.As(err, &reason) {
		return reason.Err
	}
	return err
}

// withTLS adds TLS to the connections of ln.
func withTLS(ctx context.Context, ln net.Listener, settings config.HTTP) (net.Listener, error) {
	certificate, err := streamable.KeyPair(ctx, settings.CertFile, settings.KeyFile)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("[http] tls_cert and tls_key: %w", err))
	}
	return tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}), nil
}

// Bounds on sending pending telemetry at the end: from the end of the host on, and from the
// beginning of its end on, so that the shutdown takes less than five seconds in all.
const (
	flushTime    = time.Second
	shutdownTime = 3300 * time.Millisecond
)

// serving holds the parts of serve next to the front end: telemetry and its pages.
type serving struct {
	log       *slog.Logger
	telemetry *telemetry.Telemetry // nil: switched off
	pages     net.Listener         // nil: no pages
}

// startTelemetry starts telemetry as configured. masker gets the secrets of each reloaded
// configuration. The caller must close the result.
func startTelemetry(ctx context.Context, cfg *config.Config, masker *config.Masker, log *slog.Logger, clients host.Clients) (*serving, error) {
	w := &serving{log: log}
	settings := cfg.Telemetry
	if settings.Listen != "" {
		ln, err := listen(ctx, "[telemetry] listen", settings.Listen, len(settings.Tokens) > 0,
			"set tokens in [telemetry], or listen on 127.0.0.1")
		switch {
		case err == nil:
			w.pages = ln
		case clients == host.OneClient && !isUsage(err):
			// Each MCP host starts a process of its own, and only one process can have the address.
			log.Warn("no metrics are served", "err", err)
			settings.Listen = ""
		default:
			return nil, err
		}
	}
	var err error
	w.telemetry, err = telemetry.New(ctx, settings, telemetry.Options{
		Name: host.Name, Version: cli.CurrentVersion(), Log: log, Mask: masker.Mask,
	})
	if err != nil {
		if w.pages != nil {
			w.pages.Close()
		}
		return nil, cli.Usage(err)
	}
	return w, nil
}

// serve serves the pages until the returned function is called. h must have the telemetry.
func (w *serving) serve(ctx context.Context, h *host.Host) (stop func()) {
	if w.pages == nil {
		return func() {}
	}
	w.log.Info("serving metrics", "url", fmt.Sprintf("http://%s/metrics", w.pages.Addr()))
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := h.ServePagesOn(ctx, w.pages); err != nil {
			w.log.Error("metrics are no longer served", "err", err)
		}
	}()
	return func() {
		cancel()
		<-served
	}
}

// close sends pending telemetry. ending is the time when the end of the host began.
func (w *serving) close(ending time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), min(flushTime, time.Until(ending.Add(shutdownTime))))
	defer cancel()
	if err := w.telemetry.Close(ctx); err != nil {
		w.log.Warn("end of telemetry", "err", err)
	}
}

// isUsage reports whether an error is about wrong usage or configuration.
func isUsage(err error) bool {
	var exit *cli.ExitError
	return errors.As(err, &exit) && exit.Code == cli.ExitUsage
}
