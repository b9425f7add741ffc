package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/ui"
)

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

// takeAddress checks the arguments of serve. The only one allowed is the address of
// --http: because the address is optional, the parser of flags does not take the next
// word for it.
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
	return onlyVerbs(cmd, args)
}

// switchedOn is the value of a flag that is given without a value.
const switchedOn = "true"

// httpFlag is a switch with an optional address.
type httpFlag struct {
	on      bool
	address string // "": that of the configuration
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
	defer ln.Close() // ServeHTTPOn closes it too, which does no harm
	page := f.page || cfg.HTTP.UI
	if address, ok := ln.Addr().(*net.TCPAddr); page && cfg.HTTP.CertFile == "" && (!ok || !address.IP.IsLoopback()) {
		return &exitError{exitUsage, fmt.Errorf("%s: the token of the page could be read on the network (listen on 127.0.0.1, or set tls_cert and tls_key in [http])", map[bool]string{true: "--ui", false: "[http] ui"}[f.page])}
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
			if r.settings.formatOf(cfg) == config.LogJSON {
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

// listen opens an address, which setting says. An address that other machines can reach is
// refused, unless clients are authenticated or the user has allowed clients without
// authentication. remedy says what to do then.
func listen(ctx context.Context, setting, address string, guarded bool, remedy string) (net.Listener, error) {
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("%s %s: %w", setting, address, err)}
	}
	if !guarded && !resolved.IP.IsLoopback() {
		return nil, &exitError{exitUsage, fmt.Errorf("%s %s: other machines could connect, and the configuration has no tokens (%s)", setting, address, remedy)}
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

// withTLS adds TLS to the connections that ln accepts.
func withTLS(ctx context.Context, ln net.Listener, settings config.HTTP) (net.Listener, error) {
	certificate, err := streamable.KeyPair(ctx, settings.CertFile, settings.KeyFile)
	if err != nil {
		return nil, &exitError{exitUsage, fmt.Errorf("[http] tls_cert and tls_key: %w", err)}
	}
	return tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}), nil
}
