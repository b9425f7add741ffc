package smoke

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// anyObject is the inputSchema of a script without a definition.
const anyObject = `{"type":"object"}`

// savedTools are the tools in the store of the file's configuration, read once. The store is
// neither created nor changed.
type savedTools struct {
	ctx      context.Context // of the run
	cfg      *config.Config
	disabled bool // do not read the store
	log      *slog.Logger

	once  sync.Once
	tools []tools.Definition
	err   error
}

// all returns the saved tools; none without a store.
func (s *savedTools) all() ([]tools.Definition, error) {
	s.once.Do(func() { s.tools, s.err = s.read() })
	return s.tools, s.err
}

func (s *savedTools) read() ([]tools.Definition, error) {
	if s.disabled {
		return nil, nil
	}
	return host.ListTools(s.ctx, s.cfg, s.log)
}

// List implements compose.Saved.
func (s *savedTools) List() []tools.Definition {
	list, _ := s.all() // after an error, no saved tool can be called
	return list
}

// Get implements compose.Saved.
func (s *savedTools) Get(name string) (tools.Definition, error) {
	list, err := s.all()
	if err != nil {
		return tools.Definition{}, err
	}
	for _, d := range list {
		if d.Name == name {
			return d, nil
		}
	}
	return tools.Definition{}, fmt.Errorf("tool %q: %w", name, tools.ErrNotFound)
}

// scripts are the tools that scripts of a file can call as tools.NAME: the scripts of its checks,
// and saved tools.
type scripts struct {
	*savedTools
	checks []*Check

	once    sync.Once
	defined map[string]tools.Definition
}

// own returns the tools of the checks, by name. A check with an unreadable script has none. Of two
// equal names, the first wins.
func (s *scripts) own() map[string]tools.Definition {
	s.once.Do(func() {
		s.defined = map[string]tools.Definition{}
		for _, c := range s.checks {
			if c.Code.none() {
				continue
			}
			def, err := c.definition(s.savedTools)
			if _, twice := s.defined[def.Name]; err == nil && !twice {
				s.defined[def.Name] = def
			}
		}
	})
	return s.defined
}

// List implements compose.Saved.
func (s *scripts) List() []tools.Definition {
	own := s.own()
	list := slices.Collect(maps.Values(own))
	for _, d := range s.savedTools.List() {
		if _, over := own[d.Name]; !over {
			list = append(list, d)
		}
	}
	return list
}

// Get implements compose.Saved.
func (s *scripts) Get(name string) (tools.Definition, error) {
	if def, ok := s.own()[name]; ok {
		return def, nil
	}
	return s.savedTools.Get(name)
}

// mentions reports whether the code of a script, or of a script within its reach, contains a name.
// An unknown script counts as containing every name.
func (s *scripts) mentions(script, name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	waiting, seen := []string{script}, map[string]bool{script: true}
	for len(waiting) > 0 {
		def, err := s.Get(waiting[0])
		waiting = waiting[1:]
		if err != nil || word.MatchString(def.Code) {
			return true
		}
		for _, other := range s.List() {
			if !seen[other.Name] && strings.Contains(def.Code, abi.Ident(other.Name)) {
				seen[other.Name] = true
				waiting = append(waiting, other.Name)
			}
		}
	}
	return false
}

// definition returns the composite tool of a check: its script, or a saved tool. The error is a
// *BrokenError.
func (c *Check) definition(s *savedTools) (tools.Definition, error) {
	plain := tools.Definition{Name: c.toolName(), InputSchema: json.RawMessage(anyObject)}
	switch code := c.Code; {
	case code.Inline != "":
		plain.Code = code.Inline
		return plain, nil
	case code.File != "" && filepath.Ext(code.File) == ".json":
		return c.fromFile(s.ctx, c.place(code.File))
	case code.File != "":
		text, err := readFile(s.ctx, c.place(code.File))
		plain.Code = string(text)
		return plain, err
	}
	name := cmp.Or(c.Code.Saved, c.Call)
	def, err := s.Get(name)
	if s.disabled {
		return def, broken(err, "the saved tool %q is not read with --offline (give the check a script's file)", name)
	}
	if errors.Is(err, tools.ErrNotFound) {
		var names []string
		for _, d := range s.List() {
			names = append(names, d.Name)
		}
		return def, broken(err, "no saved tool is called %q in %s%s", name, filepath.Join(host.SavedTools(s.cfg, "").Folder(), "tools"), hint(name, names))
	}
	if err != nil {
		return def, broken(err, "%v", err)
	}
	def.Name = cmp.Or(c.Call, def.Name)
	return def, nil
}

// fromFile reads a definition in the format of `tools export`.
func (c *Check) fromFile(ctx context.Context, at regular.Place) (tools.Definition, error) {
	text, err := readFile(ctx, at)
	if err != nil {
		return tools.Definition{}, err
	}
	def, err := tools.ParseFile(text)
	if err != nil {
		return def, broken(err, "%s is not the definition of a tool: %v", at, err)
	}
	def.Name = cmp.Or(c.Call, def.Name)
	return def, nil
}

// writeTool writes a tool's file into a store.
func writeTool(dir, name string, text []byte) error {
	dir = filepath.Join(dir, "tools")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600)
}

// readFile reads a script or a definition. The size limit is the limit of a saved tool.
func readFile(ctx context.Context, at regular.Place) ([]byte, error) {
	text, err := at.Read(ctx, tools.MaxFileBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, broken(err, "there is no file %s", at)
	case err != nil:
		return nil, broken(err, "%s cannot be read: %v", at, reason(err))
	case len(text) == 0:
		return nil, broken(nil, "%s is empty", at)
	}
	return text, nil
}
