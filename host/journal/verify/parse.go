package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// event is a line.
type event struct {
	line      []byte
	kind, run string
	parts     seal.Parts
	digest    seal.Digest
	members   map[string][]byte // raw
}

// The kinds of events known to this package.
const (
	kindBegin      = "begin"
	kindAnswer     = "answer"
	kindEnd        = "end"
	kindProxied    = "proxied"
	kindCheckpoint = "checkpoint"
)

// isOfRun reports whether e is an event of a run.
func (e *event) isOfRun() bool { return e.kind != kindProxied && e.kind != kindCheckpoint }

// text returns a string member, or "".
func (e *event) text(name string) string {
	s, _ := wire.Text(e.members[name])
	return s
}

var errNoEvent = errors.New("is no event of a journal")

// parse reads a line that all readers read in the same way: the line is valid JSON in UTF-8, and no
// object of the format has a member twice. Values from clients and servers are not inspected: all
// readers take them as whole values.
func parse(line []byte) (*event, error) {
	if !utf8.Valid(line) || bytes.ContainsAny(line, "\r\x00") {
		return nil, fmt.Errorf("%w: it is not UTF-8, or has control characters", errNoEvent)
	}
	e := &event{line: line}
	var err error
	if e.kind, e.run, err = readHead(line); err != nil {
		return nil, err
	}
	if e.isOfRun() && !journal.IsKind(e.kind) {
		return nil, fmt.Errorf("run %s: it has an event of the kind %q, which this version does not understand (use the version that has written it)", e.run, e.kind)
	}
	if e.members, err = members(line); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if err := e.checkNested(); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if e.parts, err = seal.Cut(line); err != nil {
		return nil, fmt.Errorf("run %s: %w", e.run, err)
	}
	if err := e.checkEnds(); err != nil {
		return nil, fmt.Errorf("run %s: its event %q %w", e.run, e.kind, err)
	}
	e.digest = seal.Event(e.parts.Body)
	return e, nil
}

// readHead reads the first two members, which are always written in the same way.
func readHead(line []byte) (kind, run string, err error) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"t":"`))
	if !ok {
		return "", "", errNoEvent
	}
	k, rest, ok := bytes.Cut(rest[:min(len(rest), 256)], []byte(`","run":"`))
	r, _, whole := bytes.Cut(rest, []byte{'"'})
	if !ok || !whole || !isName(k, 32) || !isName(r, 64) {
		return "", "", errNoEvent
	}
	return string(k), string(r), nil
}

// isName reports whether b can be a kind or an id.
func isName(b []byte, most int) bool {
	for _, c := range b {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return len(b) > 0 && len(b) <= most
}

// checkEnds checks the members of digests: none is left after the cut, and only events of the
// proper kinds have them.
func (e *event) checkEnds() error {
	if has := e.members["seal"] != nil; has != (e.parts.Seal != nil) || has && e.kind != kindEnd && e.kind != kindCheckpoint {
		return errors.New("has a seal in a place without seals, or an unreadable seal")
	}
	if has := e.members["link"] != nil; has != (e.parts.Link.Number > 0) || has && e.kind != kindEnd && e.isOfRun() {
		return errors.New("has a link in a place without links, or an unreadable link")
	}
	for _, name := range []string{"prev", "below", "continuesHead"} {
		if e.members[name] == nil {
			continue
		}
		if _, err := seal.ParseDigest(e.text(name)); err != nil {
			return fmt.Errorf("has a member %s that %w", name, err)
		}
	}
	return nil
}

// checkNested checks the objects of ours in an event.
func (e *event) checkNested() error {
	for _, path := range []string{
		"parent", "client", "plan", "definition", "definition.limits", "definition.permissions", "limits", "asked", "error",
		"decision", "decision.approval", "seal",
	} {
		raw, ok := e.members[strings.Split(path, ".")[0]], true
		for _, name := range strings.Split(path, ".")[1:] {
			raw, ok = wire.Get(raw, name)
		}
		if !ok || len(raw) == 0 || raw[0] != '{' {
			continue
		}
		if _, err := members(raw); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	list, err := wire.Elements(e.members["entries"])
	if err != nil && e.members["entries"] != nil {
		return errors.New("entries are no array")
	}
	for _, raw := range list {
		if _, err := members(raw); err != nil {
			return fmt.Errorf("entries: %w", err)
		}
	}
	return nil
}

// members returns the members of an object. Two names that differ only in case, or are forms of the
// same member, count as a single name: some readers do not tell them apart.
func members(raw []byte) (map[string][]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if d.PeekKind() != '{' {
		return nil, errors.New("is no JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	all, folded := map[string][]byte{}, map[string]bool{}
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("is no JSON: %w", err)
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("is no JSON: %w", err)
		}
		one := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(name, "Text"), "Base64"))
		if folded[one] {
			return nil, fmt.Errorf("has the member %.50q twice", name)
		}
		folded[one] = true
		all[name] = bytes.Clone(value)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text behind the object")
	}
	return all, nil
}
