package smoke

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/pins"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/change"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// offers gets the handshake and the lists of the server of a check.
func (l *live) offers(ctx context.Context, c *Check) (*answer, error) {
	h, err := l.start()
	if err != nil {
		return nil, err
	}
	if err := l.checkVariables(c.Server); err != nil {
		return nil, err
	}
	begun := time.Now()
	waiting, cancel := context.WithTimeout(ctx, l.file.Startup)
	defer cancel()
	o, err := h.Snapshot(waiting, c.Server)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := l.startError(c.Server, err); err != nil {
		return nil, err
	}
	if err := l.checkPins(ctx, c.Server, o); err != nil {
		return nil, err
	}
	a := &answer{took: time.Since(begun), server: c.Server, handshake: o.Handshake, lists: pins.Lists{}}
	if st, ok := h.Status(c.Server); ok {
		a.took = st.StartTime // the server may have started before the check
	}
	for surface, list := range o.Lists {
		a.lists[surface] = wire.Array(list.Items)
	}
	return a, nil
}

func readProtocol(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value, _ := s.String(key)
	got := func(a *answer) string {
		revision, _ := wire.GetString(a.handshake, "protocolVersion")
		return revision
	}
	return func(a *answer) *expect.Mismatch {
			if got(a) != value {
				return &expect.Mismatch{Message: "it speaks a different protocol revision", Want: value, Got: got(a)}
			}
			return nil
		}, func(a *answer) (string, error) {
			return tomlString(got(a)), nil
		}
}

// readCapabilities reads capabilities that the server must declare. More capabilities are no fault.
func readCapabilities(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	value := s.Object(key)
	got := func(a *answer) []byte {
		declared, ok := wire.Get(a.handshake, "capabilities")
		if !ok {
			return []byte("{}")
		}
		return declared
	}
	return func(a *answer) *expect.Mismatch { return expect.Subset(value, got(a)) },
		func(a *answer) (string, error) { return tomlValue(project(value, got(a))) }
}

// surfaceOf maps expectations of names to the surface they are about, and the noun for an
// item.
var surfaceOf = map[string]struct {
	surface wire.Surface
	item    string
}{
	"tools": {wire.Tools, "tool"}, "resources": {wire.Resources, "resource"},
	"templates": {wire.Templates, "resource template"}, "prompts": {wire.Prompts, "prompt"},
}

// readNames reads names or URIs that a server must list.
func readNames(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	names := s.Strings(key)
	list := surfaceOf[key]
	return func(a *answer) *expect.Mismatch { return expect.Names(list.item, names, a.names(list.surface)) },
		func(a *answer) (string, error) { return tomlStrings(a.names(list.surface)), nil }
}

// names returns the names or URIs in a server's list, in the server's order.
func (a *answer) names(surface wire.Surface) []string {
	items, _ := wire.Elements(a.lists[surface])
	names := make([]string, 0, len(items))
	for _, item := range items {
		if name, ok := wire.GetString(item, surface.Key()); ok {
			names = append(names, name)
		}
	}
	return names
}

// readLock reads the name of a lock file.
func readLock(r *fileReader, s *config.Section, key string) (matcher, updater) {
	name, ok := s.String(key)
	if !ok {
		return nil, nil
	}
	if name == "" {
		s.Problem(key, "is empty (name a file; --record writes it)")
	}
	path := r.path(s, key, name)
	return func(a *answer) *expect.Mismatch { return compareWithLock(r.context(), r.file.place(path), a) }, nil
}

// compareWithLock compares the lists of a server with a lock.
func compareWithLock(ctx context.Context, at regular.Place, a *answer) *expect.Mismatch {
	l, err := pins.Read(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return &expect.Mismatch{Message: "there is no " + at.String() + " (--record writes it)"}
	}
	if err != nil {
		return &expect.Mismatch{Message: err.Error()}
	}
	changes, err := l.Compare(a.server, a.lists)
	if err != nil {
		return &expect.Mismatch{Message: err.Error()}
	}
	changes = append(l.CompareAbout(a.server, a.handshake), changes...)
	if len(changes) == 0 {
		return nil
	}
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.String()
	}
	return &expect.Mismatch{
		Message: "definitions are not those of " + at.String() + " (--update accepts them)", Got: strings.Join(lines, "\n"),
	}
}

// writeLock replaces the definitions of a server in a lock. Other servers stay.
func writeLock(ctx context.Context, at regular.Place, a *answer) (changed bool, err error) {
	unlock, err := change.Lock(ctx, at.String()) // a proxy may write the same file
	if err != nil {
		return false, err
	}
	defer unlock()
	l, err := pins.Read(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		l, err = pins.New(), nil
	}
	if err != nil {
		return false, err
	}
	changes, err := l.Compare(a.server, a.lists)
	changes = append(changes, l.CompareAbout(a.server, a.handshake)...)
	if err != nil || len(changes) == 0 && l.Has(a.server) {
		return false, err
	}
	l.SetAbout(a.server, a.handshake)
	if err := l.Set(a.server, a.lists); err != nil {
		return false, err
	}
	return true, l.Write(at)
}
