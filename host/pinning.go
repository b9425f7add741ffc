package host

import (
	"github.com/mcp-metatool/mcp-metatool/host/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/catalog"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/pins"
	"github.com/mcp-metatool/mcp-metatool/host/supervise"
)

// PinSettings returns what a configuration says about pins.
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
