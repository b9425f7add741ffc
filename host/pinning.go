package host

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// PinSettings returns the settings of a configuration about pins.
func PinSettings(cfg *config.Config) pins.Settings {
	masker := cfg.NewMasker()
	s := pins.Settings{
		Path: cfg.PinsPath(), Reserved: builtin.Names(), Public: catalog.PublicName,
		Secret: func(definition []byte) bool { return masker.Mask(string(definition)) != string(definition) },
	}
	for _, u := range supervise.Enabled(cfg) {
		s.Servers = append(s.Servers, pins.ServerSettings{Name: u.Name, Prefix: u.Prefix, Mode: pins.Mode(cfg.PinsOf(u))})
	}
	return s
}

// pinSettings returns the settings of a configuration about the pins of the Host.
func (h *Host) pinSettings(cfg *config.Config) pins.Settings {
	s := PinSettings(cfg)
	if h.fleet != nil && cfg.PinsShared() {
		s.Shared, s.Seed = pins.InFleet(h.fleet.Store(), h.opts.Log), cfg.PinsBefore()
	}
	return s
}

// Pins are the pins of a configuration, for commands.
type Pins struct {
	// Data is the content of a file with the pins; nil without pins.
	Data []byte
	// Write replaces the pins. The error is change.ErrChanged if the pins have changed since
	// ReadPins. Nil: the pins are in the file cfg.PinsPath.
	Write func(ctx context.Context, after []byte) error
	end   func() error
}

// Close releases the store of Write.
func (p *Pins) Close() error {
	if p.end == nil {
		return nil
	}
	return p.end()
}

// ReadPins reads the pins of a configuration. The caller must Close them.
func ReadPins(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Pins, error) {
	if !cfg.PinsShared() {
		raw, err := regular.Read(ctx, cfg.PinsPath(), pins.MaxFile)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return &Pins{Data: raw}, err
	}
	docs, err := commandStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	source := pins.InFleet(docs, log)
	shared, err := source.Read(ctx)
	p := &Pins{Data: shared, end: docs.Close}
	if err == nil && shared == nil {
		p.Data, err = pins.ReadFleet(ctx, source, cfg.PinsPath(), cfg.PinsBefore())
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Write = func(ctx context.Context, after []byte) error {
		return source.Change(ctx, func(before []byte) ([]byte, error) {
			if !bytes.Equal(before, shared) {
				return nil, change.ErrChanged
			}
			return after, nil
		})
	}
	return p, nil
}
