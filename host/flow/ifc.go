package flow

import "github.com/mcp-metatool/mcp-metatool/host/wire"

// The member of _meta that holds labels, as GitHub's MCP server writes it: an object with
// integrity and confidentiality.
const (
	MetaKey         = "ifc"
	integrity       = "integrity"
	confidentiality = "confidentiality"
)

// FromMeta returns the labels in a raw _meta; nil has none. What is not one of the known values
// is no label: _meta adds labels, and never removes one.
func FromMeta(meta []byte) Labels {
	if len(meta) == 0 {
		return 0
	}
	raw, ok := wire.Get(meta, MetaKey)
	if !ok {
		return 0
	}
	var set Labels
	if v, _ := wire.GetString(raw, confidentiality); v == "private" {
		set |= Of(Private)
	}
	if v, _ := wire.GetString(raw, integrity); v == "untrusted" {
		set |= Of(Untrusted)
	}
	return set
}

// Meta returns the value of MetaKey for labels.
func (s Labels) Meta() []byte {
	var o wire.Object
	o.Text(integrity, map[bool]string{true: "untrusted", false: "trusted"}[s.Has(Untrusted)])
	o.Text(confidentiality, map[bool]string{true: "private", false: "public"}[s.Has(Private)])
	return o.Bytes()
}
