package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/telemetry"
)

// Bounds on sending what telemetry has not sent yet, at the end: from the end of the host
// on, and from the beginning of its end on, so that the shutdown takes less than five
// seconds in all.
const (
	flushTime    = time.Second
	shutdownTime = 3300 * time.Millisecond
)

// serving is what serve has beside its front end: telemetry and the pages about it.
type serving struct {
	log       *slog.Logger
	telemetry *telemetry.Telemetry // nil: it is switched off
	pages     net.Listener         // nil: there are none
}

// startTelemetry starts telemetry as configured. masker gets the secrets of each
// configuration that is reloaded. The caller must close it.
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
			// Each MCP host starts a process of its own, and only one of them can have the address.
			log.Warn("no metrics are served", "err", err)
			settings.Listen = ""
		default:
			return nil, err
		}
	}
	var err error
	w.telemetry, err = telemetry.New(ctx, settings, telemetry.Options{
		Name: host.Name, Version: currentVersion(), Log: log, Mask: masker.Mask,
	})
	if err != nil {
		if w.pages != nil {
			w.pages.Close()
		}
		return nil, &exitError{exitUsage, err}
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
			w.log.Error("no metrics are served any more", "err", err)
		}
	}()
	return func() {
		cancel()
		<-served
	}
}

// close sends what has not been sent yet. ending is when the end of the host began.
func (w *serving) close(ending time.Time) {
	ctx, cancel := context.WithTimeout(context.Background(), min(flushTime, time.Until(ending.Add(shutdownTime))))
	defer cancel()
	if err := w.telemetry.Close(ctx); err != nil {
		w.log.Warn("end of telemetry", "err", err)
	}
}

// isUsage reports whether an error is about wrong usage or configuration.
func isUsage(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && exit.code == exitUsage
}
