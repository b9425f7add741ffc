// Package pins keeps the definitions that servers had in a file, so that a check can tell
// when they change.
//
//	digest.go   Digest: the digest of a definition; its canonical form
//	lock.go     Lock, Read, Write
//	compare.go  Compare: what changed, property by property
//	describe.go a change in words
package pins

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/expect"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Lists are the lists of one server: raw JSON arrays of definitions, with all pages joined.
// A surface that is missing was not requested.
type Lists map[wire.Surface][]byte

// Lock holds the definitions of servers. It is not safe for concurrent use.
type Lock struct {
	servers map[string]server
}

type server map[wire.Surface]definitions

// definitions are values of expect.Parse, by name or URI.
type definitions map[string]any

// New returns a lock without servers.
func New() *Lock { return &Lock{servers: map[string]server{}} }

// Has reports whether the lock has definitions of the server.
func (l *Lock) Has(name string) bool { return l.servers[name] != nil }

// Set replaces the definitions of a server. Surfaces that are not in lists stay as they
// are. After an error nothing has changed.
func (l *Lock) Set(name string, lists Lists) error {
	read := server{}
	for surface, raw := range lists {
		defs, err := readList(surface, raw)
		if err != nil {
			return err
		}
		read[surface] = defs
	}
	if l.servers[name] == nil {
		l.servers[name] = server{}
	}
	for surface, defs := range read {
		l.servers[name][surface] = defs
	}
	return nil
}

// ListError says why a server's list cannot be stored.
type ListError struct {
	Surface wire.Surface
	Reason  string
}

func (e *ListError) Error() string { return fmt.Sprintf("list of %s: %s", e.Surface, e.Reason) }

func readList(surface wire.Surface, raw []byte) (definitions, error) {
	if !slices.Contains(wire.Surfaces, surface) {
		return nil, &ListError{surface, "there is no such surface"}
	}
	v, err := expect.Parse(raw)
	if err != nil {
		return nil, &ListError{surface, err.Error()}
	}
	items, ok := v.([]any)
	if !ok {
		return nil, &ListError{surface, "it is not an array"}
	}
	defs := definitions{}
	for i, item := range items {
		def, _ := item.(map[string]any)
		key, ok := def[surface.Key()].(string)
		if !ok {
			return nil, &ListError{surface, fmt.Sprintf("item %d has no %s", i, surface.Key())}
		}
		if _, twice := defs[key]; twice {
			return nil, &ListError{surface, fmt.Sprintf("it contains %q twice", key)}
		}
		defs[key] = def
	}
	return defs, nil
}

// version is the version of the file format.
const version = 1

// maxFile is the largest file that Read accepts, in bytes.
const maxFile = 64 << 20

// document is the file: JSON with members sorted by name, so that a change of one
// definition changes only its lines.
//
//	{"version": 1, "servers": {"everything": {"tools": {"get-sum": {
//	  "sha256": "…", "definition": {"name": "get-sum", …}}}}}}
type document struct {
	Version int                                                  `json:"version"`
	Servers map[string]map[wire.Surface]map[string]documentEntry `json:"servers"`
}

// documentEntry is one definition and the hash (SHA-256, lower-case hex) of its compact
// JSON with members sorted by name. The hash reveals manual edits and bad merges.
type documentEntry struct {
	SHA256     string          `json:"sha256"`
	Definition json.RawMessage `json:"definition"`
}

// FileError reports a lock file that cannot be used.
type FileError struct {
	Path, Reason string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("lock file %s: %s (record it again, or restore it from version control)", e.Path, e.Reason)
}

// Read reads a file that Write wrote. The error is fs.ErrNotExist if the file does not
// exist, and a [*FileError] if its content is wrong.
func Read(ctx context.Context, at regular.Place) (*Lock, error) {
	raw, err := at.Read(ctx, maxFile)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	l, err := decode(raw)
	if err != nil {
		return nil, &FileError{at.String(), err.Error()}
	}
	return l, nil
}

func decode(raw []byte) (*Lock, error) {
	var doc document
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if doc.Version != version {
		return nil, fmt.Errorf("has version %d, and only version %d is known", doc.Version, version)
	}
	l := New()
	for name, surfaces := range doc.Servers {
		l.servers[name] = server{}
		for surface, entries := range surfaces {
			if !slices.Contains(wire.Surfaces, surface) {
				return nil, fmt.Errorf("server %q has unknown %q", name, surface)
			}
			defs := definitions{}
			for key, e := range entries {
				def, err := expect.Parse(e.Definition)
				if err != nil {
					return nil, fmt.Errorf("server %q, %s %q: %w", name, noun(surface), key, err)
				}
				if hash(def) != e.SHA256 {
					return nil, fmt.Errorf("server %q, %s %q is not what its sha256 says", name, noun(surface), key)
				}
				defs[key] = def
			}
			l.servers[name][surface] = defs
		}
	}
	return l, nil
}

// Write replaces the file atomically. The same definitions give the same bytes. A new file
// is readable for everyone, like other files in a repository.
func (l *Lock) Write(at regular.Place) error {
	raw, err := l.encode()
	if err == nil {
		err = at.Replace(raw, 0o644)
	}
	if err != nil {
		return fmt.Errorf("lock file %s: %w", at, err)
	}
	return nil
}

func (l *Lock) encode() ([]byte, error) {
	doc := document{Version: version, Servers: map[string]map[wire.Surface]map[string]documentEntry{}}
	for name, surfaces := range l.servers {
		doc.Servers[name] = map[wire.Surface]map[string]documentEntry{}
		for surface, defs := range surfaces {
			entries := map[string]documentEntry{}
			for key, def := range defs {
				entries[key] = documentEntry{SHA256: hash(def), Definition: compact(def)}
			}
			doc.Servers[name][surface] = entries
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(doc)
	return b.Bytes(), err
}

// compact encodes a definition as JSON with members sorted by name.
func compact(def any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(def); err != nil {
		panic(err) // the value was decoded from JSON
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func hash(def any) string {
	sum := sha256.Sum256(compact(def))
	return hex.EncodeToString(sum[:])
}

// noun returns the name of one item of the surface.
func noun(s wire.Surface) string {
	if s == wire.Templates {
		return "resource template"
	}
	return string(s[:len(s)-1])
}
