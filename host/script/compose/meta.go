package compose

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// maxMeta limits a script's additions to the _meta of a call, in bytes.
const maxMeta = 64 << 10

// forwardMeta returns the _meta for calls made for a request: the _meta of the request without the
// progress token; nil if nothing is left.
func forwardMeta(params []byte) []byte {
	meta, ok := wire.Get(params, "_meta")
	if !ok {
		return nil
	}
	meta, err := wire.Delete(meta, "progressToken")
	if err != nil || isEmptyObject(meta) {
		return nil
	}
	return meta
}

// joinMeta returns the _meta of a call: the _meta of the request with the members added by the
// script, which win. Scripts cannot set a progress token.
func joinMeta(request, script []byte) []byte {
	var added wire.Object
	names := map[string]bool{"progressToken": true}
	eachMember(script, func(name string, value []byte) {
		if !names[name] {
			names[name] = true
			added.Raw(name, value)
		}
	})
	if added.IsEmpty() {
		return request
	}
	var joined wire.Object
	eachMember(request, func(name string, value []byte) {
		if !names[name] {
			joined.Raw(name, value)
		}
	})
	eachMember(added.Bytes(), joined.Raw)
	return joined.Bytes()
}

// eachMember calls f with the members of a JSON object, in order; nil has none.
func eachMember(raw []byte, f func(name string, value []byte)) {
	d := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if tok, err := d.ReadToken(); err != nil || tok.Kind() != '{' {
		return
	}
	for d.PeekKind() == '"' {
		tok, err := d.ReadToken()
		if err != nil {
			return
		}
		name := tok.String()
		value, err := d.ReadValue()
		if err != nil {
			return
		}
		f(name, bytes.Clone(value))
	}
}
