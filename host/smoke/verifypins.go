package smoke

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
)

// verifyPins is the value of pins in [smoke] that requires servers to match their pins.
const verifyPins = "verify"

// readPins reads pins of [smoke].
func (r *fileReader) readPins(s *config.Section) {
	value, ok := s.String("pins")
	r.file.verifyPins = value == verifyPins
	if ok && value != verifyPins && value != string(config.PinsOff) {
		s.Problem("pins", "is neither %q nor %q", verifyPins, config.PinsOff)
	}
}

// PinsError is the error for a check that needs a server with a difference from its pins.
type PinsError struct {
	Server string
	// Pinned reports whether the server has pins.
	Pinned   bool
	Findings []*pins.Finding
	Path     string // of the file with the pins
}

func (e *PinsError) Error() string {
	if !e.Pinned {
		return fmt.Sprintf("server %q is not pinned in %s (mcp-metatool pins accept %s)", e.Server, e.Path, e.Server)
	}
	lines := []string{fmt.Sprintf("server %q is not as it was pinned in %s:", e.Server, e.Path)}
	for _, f := range e.Findings {
		lines = append(lines, f.Text())
	}
	return strings.Join(lines, "\n")
}

// checkPins returns an error if the file requires pins and a started server differs from its pins.
func (l *live) checkPins(ctx context.Context, server string, offers supervise.Snapshot) error {
	if !l.file.verifyPins {
		return nil
	}
	cfg := l.file.Config
	path := cfg.PinsPath()
	lock := pins.New()
	kept, err := host.ReadPins(ctx, cfg, l.log)
	if err == nil && kept.Data != nil {
		lock, err = pins.Decode(kept.Data, path)
	}
	if kept != nil {
		err = errors.Join(err, kept.Close())
	}
	if err != nil {
		return broken(err, "%v", err)
	}
	offer := pins.Offer{Handshake: offers.Handshake, Lists: map[wire.Surface][][]byte{}}
	for surface, list := range offers.Lists {
		offer.Lists[surface] = list.Items
	}
	status := pins.Inspect(lock, host.PinSettings(cfg), server, offer)
	if status.Pinned && len(status.Findings) == 0 {
		return nil
	}
	drift := &PinsError{Server: server, Pinned: status.Pinned, Findings: status.Findings, Path: path}
	return broken(drift, "%v", drift)
}

// checkAllPins is checkPins for all started servers.
func (l *live) checkAllPins(ctx context.Context, h *host.Host) error {
	if !l.file.verifyPins {
		return nil
	}
	for _, u := range l.file.Config.Upstreams {
		if u.Disabled || l.file.unset[u.Name] != nil || !l.needed(&u) {
			continue
		}
		offers, err := h.Snapshot(ctx, u.Name)
		if err != nil {
			continue // the call itself reports the error, if the call needs the server
		}
		if err := l.checkPins(ctx, u.Name, offers); err != nil {
			return err
		}
	}
	return nil
}
