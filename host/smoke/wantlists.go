package smoke

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// readProgress reads true, or the minimum number of notifications.
func readProgress(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	least := uint64(1)
	if !s.IsTrue(key) {
		s.Number(key, &least, 0, math.MaxInt32)
	}
	return func(a *answer) *expect.Mismatch { return expect.Progress(int(least), a.progress) },
		func(a *answer) (string, error) {
			if m := expect.Progress(0, a.progress); m != nil {
				return "", notUpdatable("%s", m.Message)
			}
			return fmt.Sprint(len(a.progress)), nil
		}
}

// readImage reads true, or properties of the image.
func readImage(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	var w expect.ImageWant
	if s.IsTrue(key) {
		s.Know(key)
	} else if sub := s.Section(key); sub != nil {
		w.MIME, _ = sub.String("mime")
		for name, v := range map[string]*int{"width": &w.Width, "height": &w.Height, "count": &w.Count} {
			n := uint64(0)
			sub.Number(name, &n, 1, 1<<20)
			*v = int(n)
		}
		sub.Close(map[string]string{"mimetype": "mime", "type": "mime", "number": "count"})
	}
	return func(a *answer) *expect.Mismatch { return expect.Image(w, a.result) }, nil
}

func readLogs(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	patterns := readPatterns(s, key)
	literal := true
	for _, p := range patterns {
		literal = literal && !isRegexp(p)
	}
	return func(a *answer) *expect.Mismatch {
			if m := a.requireScript(); m != nil {
				return m
			}
			return expect.Logs(patterns, a.logs())
		}, func(a *answer) (string, error) {
			if !literal || !s.IsArray(key) {
				return "", notUpdatable("a pattern cannot be derived from an answer")
			}
			return tomlStrings(a.logs()), nil
		}
}

func readCalls(_ *fileReader, s *config.Section, key string) (matcher, updater) {
	names := s.Strings(key)
	return func(a *answer) *expect.Mismatch {
			if m := a.requireScript(); m != nil {
				return m
			}
			return expect.Calls(names, a.calls(names))
		}, func(a *answer) (string, error) {
			return tomlStrings(a.calls(names)), nil
		}
}

// requireScript returns a mismatch if the answer is not from a script.
func (a *answer) requireScript() *expect.Mismatch {
	_, script := a.script()
	_, class := wire.GetString(a.result, "structuredContent", "error", "type")
	if script || class {
		return nil
	}
	return &expect.Mismatch{Message: "only scripts have this, and the answer is not from a script"}
}

// project returns the part of got in want: the members of objects with the same names.
func project(want, got []byte) []byte {
	var w, g map[string]json.RawMessage
	if jsonvalue.Unmarshal(want, &w) != nil || w == nil || jsonvalue.Unmarshal(got, &g) != nil || g == nil {
		return got
	}
	out := []byte("{}")
	for _, name := range memberNames(want) {
		value, ok := g[name]
		if !ok {
			continue
		}
		if next, err := wire.Set(out, project(w[name], value), name); err == nil {
			out = next
		}
	}
	return out
}
