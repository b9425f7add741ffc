package flow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// Rules tell the sources and sinks among the tools, for a run. Rules do not change: any number of
// goroutines may use them, and a server cannot change them during a run.
type Rules struct {
	Settings
	// Definition returns the raw definition of a tool at the beginning of the run; nil: no
	// definitions exist.
	Definition func(server, tool string) []byte
	// Odd gets a label of a server's _meta that is not understood and counts as a label; nil: no
	// report.
	Odd func(server string, ifc []byte)
	// Inherited are labels of servers from earlier runs.
	Inherited map[string]Labels
}

// Source returns the labels of an answer. meta is the raw _meta of the answer, nil for none.
func (r *Rules) Source(server, tool string, meta []byte) Labels {
	name := server + "." + tool
	said, _ := wire.Get(r.definition(server, tool), "_meta")
	set := r.Inherited[server]
	for _, from := range [][]byte{meta, said} {
		more, odd := FromMeta(from)
		if set |= more; odd != nil && r.Odd != nil {
			r.Odd(server, odd)
		}
	}
	if glob.Any(r.Private, name) {
		set |= Of(Private)
	}
	if glob.Any(r.Untrusted, name) {
		set |= Of(Untrusted)
	}
	return set
}

// Sinks returns the labels about which a call of a tool cares.
func (r *Rules) Sinks(server, tool string) Labels {
	name := server + "." + tool
	var set Labels
	if glob.Any(r.Public, name) {
		set |= Of(Private)
	}
	if glob.Any(r.Critical, name) {
		set |= Of(Untrusted)
	}
	return set
}

// ReadsOnly reports whether a tool changes nothing at its server, according to the configuration or
// to a server whose annotations count.
func (r *Rules) ReadsOnly(server, tool string) bool {
	if glob.Any(r.Reads, server+"."+tool) {
		return true
	}
	if !glob.Any(r.Trusted, server) {
		return false
	}
	hint, _ := wire.Get(r.definition(server, tool), "annotations", "readOnlyHint")
	return string(hint) == "true"
}

// Shape returns the raw JSON Schema of the values in the answers of a tool; nil if none is known.
// The schema never depends on an answer.
func (r *Rules) Shape(server, tool string) []byte {
	if shape := r.Shapes[server+"."+tool]; shape != nil {
		return shape
	}
	schema, _ := wire.Get(r.definition(server, tool), "outputSchema")
	return schema
}

func (r *Rules) definition(server, tool string) []byte {
	if r.Definition == nil {
		return nil
	}
	return r.Definition(server, tool)
}

// HasSinks reports whether any sinks care about a label.
func (s *Settings) HasSinks(l Label) bool { return len(s.sinks(l)) > 0 }

func (s *Settings) sinks(l Label) []string {
	if l == Untrusted {
		return s.Critical
	}
	return s.Public
}

// MayCall reports whether a target may be a sink that cares about a label. A target is SERVER.TOOL,
// or a pattern for the tools of a server; "*" is anything. MayCall is true if the patterns alone do
// not decide.
func (r *Rules) MayCall(l Label, targets []string) bool {
	for _, target := range targets {
		server, tool, ok := strings.Cut(target, ".")
		switch {
		case !ok:
			return true
		case !strings.ContainsAny(tool, `*?[\`):
			if r.Sinks(server, tool).Has(l) {
				return true
			}
			continue
		}
		for _, pattern := range r.sinks(l) {
			of, _, ok := strings.Cut(pattern, ".")
			if !ok || strings.ContainsAny(of, `*?[\`) || of == server {
				return true
			}
		}
	}
	return false
}

// AskRule returns the name of the rule under which people are asked about calls, and under which
// their decisions may be remembered. again is for a question because of an earlier attempt. The
// name has a digest of all settings, so a decision counts for the same settings only.
func (s *Settings) AskRule(l Label, again bool) string {
	raw, err := json.Marshal(s)
	if err != nil { // Settings always have a JSON form
		panic(err)
	}
	sum := sha256.Sum256(raw)
	name := "flow." + l.String()
	if again {
		name += ".again"
	}
	return name + "@" + hex.EncodeToString(sum[:6])
}

// IsAskRule reports whether AskRule returns the name. s may be nil.
func (s *Settings) IsAskRule(name string) bool {
	for _, l := range AllLabels {
		if s != nil && (name == s.AskRule(l, false) || name == s.AskRule(l, true)) {
			return true
		}
	}
	return false
}

// WithInherited returns a copy of the labels of servers with the labels of another server added.
func WithInherited(all map[string]Labels, server string, set Labels) map[string]Labels {
	more := maps.Clone(all)
	if more == nil {
		more = map[string]Labels{}
	}
	more[server] |= set
	return more
}

// The member of _meta with labels, as GitHub's MCP server writes labels: an object with integrity
// and confidentiality.
const (
	MetaKey         = "ifc"
	integrity       = "integrity"
	confidentiality = "confidentiality"
)

// FromMeta returns the labels in a raw _meta; nil has none. FromMeta adds labels, and never removes
// a label. Only the exact values for "no label" have none: every other value, for example a list of
// readers, counts as the label. odd is the value of MetaKey if the value is not understood; nil
// otherwise.
func FromMeta(meta []byte) (set Labels, odd []byte) {
	readable := eachMember(meta, func(name string, value []byte) {
		if wire.Fold(name) == MetaKey { // in any spelling, and each time
			more, known := fromIFC(value)
			if set |= more; !known {
				odd = bytes.Clone(value)
			}
		}
	})
	if !readable && odd == nil && bytes.Contains(meta, []byte(MetaKey)) {
		return Of(AllLabels[:]...), meta
	}
	return set, odd
}

// fromIFC returns the labels in the value of MetaKey, and whether the value is understood.
func fromIFC(ifc []byte) (set Labels, known bool) {
	known = true
	readable := eachMember(ifc, func(name string, value []byte) {
		switch text := string(bytes.TrimSpace(value)); wire.Fold(name) {
		case confidentiality:
			if text == `"public"` || isListOf(value, `"public"`) {
				return
			}
			set |= Of(Private)
			known = known && text == `"private"`
		case integrity:
			if text == `"trusted"` || text == `"high"` {
				return
			}
			set |= Of(Untrusted)
			known = known && (text == `"untrusted"` || text == `"low"`)
		}
	})
	if !readable {
		return Of(AllLabels[:]...), false
	}
	return set, known
}

// isListOf reports whether a raw value is a list with a single given element.
func isListOf(value []byte, element string) bool {
	if len(value) < 2 || value[0] != '[' {
		return false
	}
	return string(bytes.Trim(value[1:len(value)-1], " \t\r\n")) == element
}

// eachMember calls f with each member of a raw object, including members with equal names. The
// value is valid only during the call of f. eachMember reports whether raw is an object that could
// be read to the end.
func eachMember(raw []byte, f func(name string, value []byte)) bool {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		tok, err := d.ReadToken()
		if err != nil {
			return false
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return false
		}
		f(name, value)
	}
	_, err := d.ReadToken()
	return err == nil
}

// Meta returns the value of MetaKey for labels.
func (s Labels) Meta() []byte {
	var o wire.Object
	o.Text(integrity, map[bool]string{true: "untrusted", false: "trusted"}[s.Has(Untrusted)])
	o.Text(confidentiality, map[bool]string{true: "private", false: "public"}[s.Has(Private)])
	return o.Bytes()
}
