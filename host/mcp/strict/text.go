package strict

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// describe reads a value and names its kind.
func describe(r *reader) string {
	kind := r.d.PeekKind()
	r.skip()
	return map[byte]string{
		'n': "null", 't': "true", 'f': "false", '"': "a string", '0': "a number", '{': "an object", '[': "a list",
	}[byte(kind)]
}

// string reads a string.
func (r *reader) string() (text string, ok bool) {
	if r.d.PeekKind() != '"' {
		return "", false
	}
	token, _ := r.d.ReadToken()
	return token.String(), true
}

func text(r *reader) string {
	if r.d.PeekKind() != '"' {
		return " is " + describe(r)
	}
	r.skip()
	return ""
}

func boolean(r *reader) string {
	if kind := r.d.PeekKind(); kind != 't' && kind != 'f' {
		return " is " + describe(r)
	}
	r.skip()
	return ""
}

func anyObject(r *reader) string {
	if r.d.PeekKind() != '{' {
		return " is " + describe(r)
	}
	return decoded(r)
}

func number(r *reader) (literal, wrong string) {
	if r.d.PeekKind() != '0' {
		return "", " is " + describe(r)
	}
	token, _ := r.d.ReadToken()
	return token.String(), ""
}

// integer reads an integer of 64 bits. Readers in Go refuse 1e3 and 1.0.
func integer(r *reader) string {
	literal, wrong := number(r)
	if wrong != "" {
		return wrong
	}
	if _, err := strconv.ParseInt(literal, 10, 64); err != nil {
		return " is not an integer"
	}
	return ""
}

// fraction reads a number from 0 to 1.
func fraction(r *reader) string {
	literal, wrong := number(r)
	if wrong != "" {
		return wrong
	}
	if f, err := strconv.ParseFloat(literal, 64); err != nil || f < 0 || f > 1 {
		return " is not from 0 to 1"
	}
	return ""
}

// oneOf returns a check for the given texts.
func oneOf(texts ...string) func(r *reader) string {
	return func(r *reader) string {
		if r.d.PeekKind() != '"' {
			return " is " + describe(r)
		}
		got, _ := r.string()
		for _, text := range texts {
			if got == text {
				return ""
			}
		}
		return ` is not "` + strings.Join(texts, `" or "`) + `"`
	}
}

// listOf returns a check for a list of values.
func listOf(check func(r *reader) string) func(r *reader) string {
	return func(r *reader) string {
		if r.d.PeekKind() != '[' {
			return " is " + describe(r)
		}
		_, _ = r.d.ReadToken()
		for i := 0; r.d.PeekKind() != ']'; i++ {
			if why := check(r); why != "" {
				return "[" + strconv.Itoa(i) + "]" + why
			}
		}
		_, _ = r.d.ReadToken()
		return ""
	}
}

// properties reads the properties of a schema. Readers of the handshake era want objects, and get
// objects equivalent to true and false.
func properties(r *reader) string {
	if r.d.PeekKind() != '{' {
		return " is " + describe(r)
	}
	_, _ = r.d.ReadToken()
	for r.d.PeekKind() != '}' {
		token, _ := r.d.ReadToken()
		name, start := token.String(), r.next()
		switch kind := r.d.PeekKind(); kind {
		case '{':
			if why := decoded(r); why != "" {
				return "." + display.Line(name, maxName) + why
			}
		case 't', 'f':
			r.skip()
			if r.modern {
				break
			}
			with := "{}"
			if kind == 'f' {
				with = `{"not":{}}`
			}
			r.cuts = append(r.cuts, cut{start, r.at(), with})
			if !r.stateless {
				r.note(name, "")
			}
		default:
			return "." + display.Line(name, maxName) + " is " + describe(r)
		}
	}
	_, _ = r.d.ReadToken()
	return ""
}

// instant is a point in time in the form accepted by the SDKs for TypeScript.
var instant = lazyregexp.New(`^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$`)

func moment(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		return " is not a date with a time and a zone"
	}
	if _, err := time.Parse(time.DateOnly, parts[1]); err != nil {
		return " is not a date with a time and a zone"
	}
	return ""
}

// uri splits a URI into scheme and rest.
var uri = lazyregexp.New(`(?s)^([A-Za-z][A-Za-z0-9+.-]*):(.*)$`)

// addressed are the schemes of URIs with a mandatory host.
var addressed = map[string]bool{"http": true, "https": true, "ws": true, "wss": true, "ftp": true}

// address reads a URI. Readers in Python take the URI apart.
func address(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	parts := uri.FindStringSubmatch(text)
	if parts == nil {
		return " is not a URI: the scheme is missing"
	}
	scheme, rest := strings.ToLower(parts[1]), parts[2]
	if addressed[scheme] {
		rest = "//" + strings.TrimLeft(strings.ReplaceAll(rest, `\`, "/"), "/")
	}
	if rest, ok = strings.CutPrefix(rest, "//"); !ok {
		return ""
	}
	host := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host = rest[:end]
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host, port = host[:i], host[i+1:]
	}
	if !validHost(host, addressed[scheme]) {
		return " is not a URI: the host is not valid"
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return " is not a URI: the port is not valid"
	}
	return ""
}

func validHost(host string, needed bool) bool {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		return err == nil && ip.Is6() && strings.HasSuffix(inner, "]")
	}
	if host == "" {
		return !needed
	}
	return !strings.ContainsAny(host, "\x00\t\n\r #/:<>?@[\\]^|") && !(needed && strings.ContainsAny(host, "%{}`\"\x7f"))
}

// uriTemplate is a URI template (RFC 6570). mcp-go refuses the list for any other.
var uriTemplate = lazyregexp.New(`^(?:[!#$&-;=?-\[\]_a-z~\x{A0}-\x{D7FF}\x{E000}-\x{FDCF}\x{FDF0}-\x{FFEF}\x{10000}-\x{1FFFD}\x{20000}-\x{2FFFD}\x{30000}-\x{3FFFD}\x{40000}-\x{4FFFD}\x{50000}-\x{5FFFD}\x{60000}-\x{6FFFD}\x{70000}-\x{7FFFD}\x{80000}-\x{8FFFD}\x{90000}-\x{9FFFD}\x{A0000}-\x{AFFFD}\x{B0000}-\x{BFFFD}\x{C0000}-\x{CFFFD}\x{D0000}-\x{DFFFD}\x{E1000}-\x{EFFFD}\x{F0000}-\x{FFFFD}\x{100000}-\x{10FFFD}]` +
	`|%[0-9A-Fa-f]{2}|\{[+#./;?&]?` +
	`(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*(?:\*|:[1-9][0-9]{0,3})?` +
	`(?:,(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*(?:\*|:[1-9][0-9]{0,3})?)*\})*$`)

func addressTemplate(r *reader) string {
	text, ok := r.string()
	if !ok {
		return " is " + describe(r)
	}
	if !uriTemplate.MatchString(text) {
		return " is not a URI template (RFC 6570)"
	}
	return ""
}
