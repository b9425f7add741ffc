package flow

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

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
