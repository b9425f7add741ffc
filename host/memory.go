package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/upstream"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// memory keeps what upstreams had when they ran last, in one file for each
// below the store, so that clients need not wait for them to know what there is.
// The parts of a file are the bytes that servers sent. Whoever can write there
// may have written it: it is read with the bounds of what servers send, and what
// is hidden is decided by the configuration, when it is shown.
type memory struct {
	dir string
	log *slog.Logger
}

// remembered is what an upstream said and listed.
type remembered struct {
	Handshake []byte // raw result of initialize; nil before the first
	Lists     map[wire.Surface]list
}

type list struct {
	Items [][]byte
	Meta  []byte // nil for none
}

func (r remembered) clone() remembered {
	r.Lists = maps.Clone(r.Lists)
	if r.Lists == nil {
		r.Lists = map[wire.Surface]list{}
	}
	return r
}

// identity tells whether an upstream is still the one that is remembered: it is
// a hash of how it is reached. Secrets do not count, so that a token can be
// renewed.
func identity(spec upstream.Spec, secrets *config.Masker) string {
	client, scopes := "", []string(nil)
	if spec.OAuth != nil {
		client, scopes = spec.OAuth.ClientID, spec.OAuth.Scopes
		if spec.OAuth.Issuer != "" {
			client += " at " + spec.OAuth.Issuer
		}
	}
	how := wire.Marshal([]any{
		spec.Transport, spec.Command, spec.Args, spec.Env, spec.Dir, spec.URL, spec.Headers, client, scopes,
	})
	sum := sha256.Sum256([]byte(secrets.Mask(string(how))))
	return hex.EncodeToString(sum[:])
}

func (m *memory) path(name string) string { return filepath.Join(m.dir, name+".json") }

// load is what is remembered of the upstream called name, if it is of that
// identity. What cannot be read counts as nothing.
func (m *memory) load(name, identity string) (remembered, bool) {
	_, err := owner.Check(m.dir)
	var data []byte
	if err == nil {
		data, err = regular.Read(context.Background(), m.path(name), maxRemembered)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return remembered{}, false
	}
	var r remembered
	same := false
	if err == nil {
		r, same, err = recall(data, identity)
	}
	if err != nil {
		m.log.Warn("what is remembered of an upstream cannot be used", "upstream", name, "err", err)
	}
	return r, same && err == nil
}

// recall reads a file; same tells whether it is of that identity.
func recall(data []byte, identity string) (r remembered, same bool, err error) {
	if !wire.IsObject(data) {
		return r, false, errors.New("the file is damaged")
	}
	if of, _ := wire.GetString(data, "of"); of != identity {
		return r, false, nil
	}
	r.Handshake, _ = wire.Get(data, "handshake")
	if !wire.IsObject(r.Handshake) {
		return r, true, errors.New("the file is damaged: it has no handshake")
	}
	r.Lists = map[wire.Surface]list{}
	for _, surface := range wire.Surfaces {
		raw, ok := wire.Get(data, "lists", string(surface))
		if !ok {
			continue
		}
		l, err := recallList(surface, raw)
		if err != nil {
			return r, true, fmt.Errorf("the file is damaged: %s: %w", surface, err)
		}
		r.Lists[surface] = l
	}
	return r, true, nil
}

func recallList(surface wire.Surface, raw []byte) (list, error) {
	var l list
	items, _ := wire.Get(raw, "items")
	var err error
	if l.Items, err = wire.Elements(items); err != nil {
		return l, err
	}
	seen := make(map[string]bool, len(l.Items))
	for _, item := range l.Items {
		key, ok := wire.GetString(item, surface.Key())
		if !ok || key == "" || seen[key] {
			return l, fmt.Errorf("an item has no %s, or that of another", surface.Key())
		}
		seen[key] = true
	}
	l.Meta, _ = wire.Get(raw, "_meta")
	if l.Meta != nil && !wire.IsObject(l.Meta) {
		return l, errors.New("_meta is no object")
	}
	return l, nil
}

// save replaces the file of an upstream. A failure is logged: nothing depends on
// it.
func (m *memory) save(name string, file []byte) {
	if err := m.write(name, file); err != nil {
		m.log.Warn("what an upstream has cannot be remembered", "upstream", name, "err", err)
	}
}

// file is what the file has in it.
func (r remembered) file(identity string) []byte {
	b := append([]byte(`{"of":`), wire.Quote(identity)...)
	b = append(append(b, `,"handshake":`...), r.Handshake...)
	b = append(b, `,"lists":{`...)
	comma := ""
	for _, surface := range wire.Surfaces {
		l, ok := r.Lists[surface]
		if !ok {
			continue
		}
		b = append(append(append(b, comma...), wire.Quote(string(surface))...), `:{"items":[`...)
		for i, item := range l.Items {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, item...)
		}
		b = append(b, ']')
		if l.Meta != nil {
			b = append(append(b, `,"_meta":`...), l.Meta...)
		}
		b, comma = append(b, '}'), ","
	}
	return append(b, "}}\n"...)
}

// maxRemembered is the size of the largest file that is read and written, in
// bytes.
const maxRemembered = 256 << 20

// write replaces the file as a whole: others may read it at any moment.
func (m *memory) write(name string, data []byte) error {
	if len(data) > maxRemembered {
		return &regular.SizeError{Limit: maxRemembered}
	}
	if _, err := owner.Check(m.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(m.dir, "."+name+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync() // the name must not come before the content
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), m.path(name))
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
