package config

import (
	"cmp"
	"path/filepath"
)

// PinMode says what is done about definitions of servers that are not as they were pinned;
// see package pins.
type PinMode string

// The values of PinMode.
const (
	PinsOff     PinMode = "off"
	PinsWarn    PinMode = "warn"
	PinsEnforce PinMode = "enforce"
)

// PinModes returns the values of PinMode.
func PinModes() []PinMode { return []PinMode{PinsOff, PinsWarn, PinsEnforce} }

// defaultPinsFile is the name of the file with the pins, beside the configuration.
const defaultPinsFile = "tools.lock"

// PinsOf returns what is done about the definitions of an upstream.
func (c *Config) PinsOf(u *Upstream) PinMode { return cmp.Or(u.Pins, c.Pins) }

// PinsPath returns the absolute path of the file with the pins: the one that is set, else
// tools.lock beside the configuration, or in the store's folder if there is no configuration or
// if the pins are those of a fleet.
func (c *Config) PinsPath() string {
	return cmp.Or(c.PinsFile, filepath.Join(c.Store.Dir, defaultPinsFile))
}

// decodePins reads the top-level settings of pins, after those of the store.
func decodePins(top *table, c *Config) {
	choice(top, "pins", &c.Pins, PinModes()...)
	if file, ok := top.file(top.key("pins_file")); ok {
		c.PinsFile = file
	}
	if c.PinsFile == "" && len(c.Store.NATS) == 0 {
		c.PinsFile = filepath.Join(top.r.base, defaultPinsFile)
	}
}

// PinsShared reports whether the pins are those of the fleet: no file for them is set. Then
// PinsPath is a copy.
func (c *Config) PinsShared() bool { return len(c.Store.NATS) > 0 && c.PinsFile == "" }

// PinsBefore returns the path of the file with the pins from before there was a fleet: the
// default one beside the configuration.
func (c *Config) PinsBefore() string {
	path, err := filepath.Abs(c.Path)
	if err != nil || c.Path == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(path), defaultPinsFile)
}
