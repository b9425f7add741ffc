package pins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// version is the version of the file format. Version 1 can be read, too: files of version 1 have
// no handshakes and no accepted similar names, and other digests where a definition has characters
// that encoding/json escapes.
const version = 2

// MaxFile is the largest file that Read accepts and Write writes, in bytes.
const MaxFile = 64 << 20

// document is the file: JSON with members sorted by name, so that a changed definition changes only
// its own lines.
//
//	{"version": 2, "servers": {"everything": {
//	  "server": {"sha256": "…", "definition": {"name": "…", "instructions": "…"}},
//	  "tools": {"get-sum": {"sha256": "…", "definition": {"name": "get-sum", …}}}}}}
type document struct {
	Version int                       `json:"version"`
	Servers map[string]documentServer `json:"servers"`
}

// documentServer has the definitions of a server. A list without a record is nil.
type documentServer struct {
	About     *documentEntry           `json:"server,omitempty"`
	Tools     map[string]documentEntry `json:"tools,omitzero"`
	Prompts   map[string]documentEntry `json:"prompts,omitzero"`
	Resources map[string]documentEntry `json:"resources,omitzero"`
	Templates map[string]documentEntry `json:"resourceTemplates,omitzero"`
}

// surfaces returns the lists by surface.
func (s *documentServer) surfaces() map[wire.Surface]*map[string]documentEntry {
	return map[wire.Surface]*map[string]documentEntry{
		wire.Tools: &s.Tools, wire.Prompts: &s.Prompts, wire.Resources: &s.Resources, wire.Templates: &s.Templates,
	}
}

// documentEntry is a definition with its digest, which reveals manual edits and bad merges.
type documentEntry struct {
	SHA256 string `json:"sha256"`
	// Similar are the similar tools or prompts of other servers, as "server.name", for which this
	// definition may be taken.
	Similar    []string       `json:"beside,omitempty"`
	Definition jsontext.Value `json:"definition"`
}

// FileError reports an unusable lock file.
type FileError struct {
	Path, Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("lock file %s: %s (record it again, or restore it from version control)", e.Path, e.Reason)
}

// Read reads a file that Write wrote. The error is fs.ErrNotExist for a missing file, and a
// [*FileError] for wrong content.
func Read(ctx context.Context, at regular.Place) (*Lock, error) {
	raw, err := at.Read(ctx, MaxFile)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	return Decode(raw, at.String())
}

// Decode reads the content of a file; path is for messages. The error is a [*FileError].
func Decode(raw []byte, path string) (*Lock, error) {
	l, err := decode(raw)
	if err != nil {
		return nil, &FileError{path, err.Error()}
	}
	return l, nil
}

func decode(raw []byte) (*Lock, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("is empty")
	}
	var doc document
	if err := jsonv2.Unmarshal(raw, &doc, jsonv2.RejectUnknownMembers(true)); err != nil {
		var head struct {
			Version int `json:"version"`
		}
		if jsonv2.Unmarshal(raw, &head) != nil || head.Version <= version {
			return nil, err
		}
		doc.Version = head.Version
	}
	if doc.Version < 1 || doc.Version > version {
		return nil, fmt.Errorf("has version %d, and this program knows versions up to %d", doc.Version, version)
	}
	l := New()
	for name, lists := range doc.Servers {
		l.servers[name] = server{}
		if lists.About != nil {
			e, err := lists.About.decode(doc.Version)
			if err != nil {
				return nil, fmt.Errorf("server %q %w", name, err)
			}
			l.servers[name][About] = definitions{"": e}
		}
		for surface, entries := range lists.surfaces() {
			if *entries == nil && (doc.Version > 1 || surface != wire.Resources) {
				continue
			}
			defs := definitions{} // also for the resources of version 1, which recorded all lists
			for key, e := range *entries {
				def, err := e.decode(doc.Version)
				if err != nil {
					return nil, fmt.Errorf("server %q, %s %q %w", name, noun(surface), key, err)
				}
				defs[key] = def
			}
			l.servers[name][surface] = defs
		}
	}
	return l, nil
}

// decode reads an entry. The error continues the name of the entry.
func (e *documentEntry) decode(version int) (entry, error) {
	d := NewDefinition(e.Definition)
	if err := d.Ambiguous(); err != nil {
		return entry{}, fmt.Errorf("has a definition that cannot be used: %w", err)
	}
	digest := d.Digest()
	if version == 1 {
		def, err := jsonvalue.Decode(e.Definition)
		if err != nil {
			return entry{}, fmt.Errorf("has a definition that cannot be used: %w", err)
		}
		sum := sha256.Sum256(compact(def))
		digest = hex.EncodeToString(sum[:])
	}
	if digest != e.SHA256 {
		return entry{}, errors.New("is not what its sha256 says")
	}
	return entry{canonical: d.canonical(), digest: d.Digest(), similar: slices.Sorted(slices.Values(e.Similar))}, nil
}

// Write replaces the file atomically. The same definitions give the same bytes. A new file is
// readable for everyone, like other files in a repository. After an error the old file is
// unchanged.
func (l *Lock) Write(at regular.Place) error {
	raw, err := l.Encode()
	if err == nil {
		err = at.Replace(raw, Perm)
	}
	if err != nil {
		return fmt.Errorf("lock file %s: %w", at, err)
	}
	return nil
}

// Perm is the mode of a new file.
const Perm = 0o644

// Encode returns the content of the file. The only error is a content that is too large.
func (l *Lock) Encode() ([]byte, error) {
	doc := document{Version: version, Servers: map[string]documentServer{}}
	for name, lists := range l.servers {
		var s documentServer
		for surface, entries := range s.surfaces() {
			if defs, recorded := lists[surface]; recorded {
				*entries = map[string]documentEntry{}
				for key, e := range defs {
					(*entries)[key] = e.document()
				}
			}
		}
		if e, ok := lists[About][""]; ok {
			about := e.document()
			s.About = &about
		}
		doc.Servers[name] = s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	if b.Len() > MaxFile {
		return nil, &regular.SizeError{Limit: MaxFile}
	}
	return b.Bytes(), nil
}

func (e entry) document() documentEntry {
	return documentEntry{SHA256: e.digest, Definition: e.canonical, Similar: e.similar}
}
