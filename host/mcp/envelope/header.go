package envelope

import (
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Headers of a request over HTTP (revision 2026-07-28, basic/transports/streamable-http,
// "Request Metadata"), as http.Header spells them.
const (
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderParam   = "Mcp-Param-" // prefix of the headers for arguments of tools
)

// nameMember maps methods to the member of their params repeated in Mcp-Name. The methods for tasks
// are of the extension [protocol.ExtensionTasks].
var nameMember = map[string]string{
	protocol.MethodToolsCall: "name", protocol.MethodPromptsGet: "name", protocol.MethodResourcesRead: "uri",
	protocol.MethodTasksGet: "taskId", protocol.MethodTasksUpdate: "taskId", protocol.MethodTasksCancel: "taskId",
}

// NameOf returns the value that a request repeats in Mcp-Name. needed is false if the method has no
// Mcp-Name header.
func NameOf(method string, params []byte) (name string, needed bool) {
	member, needed := nameMember[method]
	if !needed {
		return "", false
	}
	name, _ = wire.GetString(params, member)
	return name, true
}

// Encoding of values not allowed in a header (revision 2026-07-28,
// basic/transports/streamable-http, "Value Encoding").
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeValue returns the value of Mcp-Name or of a header for an argument.
func EncodeValue(value string) string {
	if isPlain(value) {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

// isPlain reports whether a header can have the value unchanged. An empty value is plain.
func isPlain(value string) bool {
	if isEncoded(value) || strings.Trim(value, " \t") != value {
		return false
	}
	return !strings.ContainsFunc(value, func(c rune) bool { return (c < 0x20 || c > 0x7e) && c != '\t' })
}

func isEncoded(value string) bool {
	return strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix) &&
		len(value) >= len(encodedPrefix)+len(encodedSuffix)
}

// DecodeValue is the reverse of EncodeValue. ok is false if the value of the header has forbidden
// characters, or is encoded wrongly.
func DecodeValue(header string) (value string, ok bool) {
	if !isEncoded(header) {
		return header, isPlain(header)
	}
	if strings.ContainsAny(header, "\r\n") { // which the decoder would skip
		return "", false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(header[len(encodedPrefix) : len(header)-len(encodedSuffix)])
	return string(raw), err == nil && utf8.Valid(raw)
}

// SetHeaders sets the headers of a request, except headers for arguments; see [Params.SetHeaders].
func SetHeaders(h http.Header, revision protocol.Revision, method string, params []byte) {
	h.Set(HeaderVersion, revision.String())
	h.Set(HeaderMethod, method)
	if name, needed := NameOf(method, params); needed {
		h.Set(HeaderName, EncodeValue(name))
	}
}

// CheckHeaders compares the headers of a request over HTTP with the body. Headers for arguments are
// ignored; see [Params.CheckHeaders]. The error is the server's refusal of the request.
func CheckHeaders(h http.Header, method string, params []byte) *wire.RPCError {
	if bad := compare(h, HeaderVersion, Version(params), false); bad != nil {
		return bad
	}
	if bad := compare(h, HeaderMethod, method, false); bad != nil {
		return bad
	}
	if name, needed := NameOf(method, params); needed {
		return compare(h, HeaderName, name, true)
	}
	return nil
}

// compare checks that a header appears once, and with the value of the body.
func compare(h http.Header, header, want string, encoded bool) *wire.RPCError {
	values := h[header]
	switch {
	case len(values) == 0:
		return Mismatch("the header %s is missing", header)
	case len(values) > 1:
		return Mismatch("the header %s appears more than once", header)
	}
	got, ok := values[0], true
	if encoded {
		got, ok = DecodeValue(got)
	}
	switch {
	case !ok:
		return Mismatch("the header %s has characters that need base64, or bad base64", header)
	case got != want:
		return Mismatch("the header %s does not match the body", header)
	}
	return nil
}

// Mismatch returns an error about the headers of a request.
func Mismatch(format string, args ...any) *wire.RPCError {
	return wire.Errorf(protocol.CodeHeaderMismatch, format, args...)
}
