package config

import (
	"slices"
	"sync"
	"sync/atomic"
)

// maxFetched is how many values of one reference are masked: the newest, and those before
// it. A command may give each process of a server a value of its own.
const maxFetched = 64

// fetched are the secrets that were fetched after a configuration was read. Nothing but
// the maskers of the configuration uses them.
type fetched struct {
	mu     sync.Mutex
	values map[Reference][]string // the newest last
	finder atomic.Pointer[finder]
}

// Learn makes all maskers of c, those that exist and later ones, mask the value of a
// reference. The last maxFetched values of each reference are masked.
func (c *Config) Learn(r Reference, value string) {
	f := c.fetched
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.values[r]
	if at := slices.Index(known, value); at >= 0 {
		f.values[r] = append(slices.Delete(known, at, at+1), value) // it is in use again
		return
	}
	if f.values == nil {
		f.values = map[Reference][]string{}
	}
	known = append(known, value)
	f.values[r] = slices.Clone(known[max(0, len(known)-maxFetched):])
	var m Masker
	for _, values := range f.values {
		m.Add(values...)
	}
	f.finder.Store(m.secrets.Load())
}
