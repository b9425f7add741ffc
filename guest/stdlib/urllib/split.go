package urllib

import (
	"slices"
	"strconv"
	"strings"

	"go.starlark.net/starlark"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
)

// parts are the parts of a URL.
type parts struct{ scheme, netloc, path, params, query, fragment string }

var (
	splitResult = withHost("SplitResult", []string{"scheme", "netloc", "path", "query", "fragment"})
	parseResult = withHost("ParseResult", []string{"scheme", "netloc", "path", "params", "query", "fragment"})
)

// withHost returns a class of tuples with attributes for the parts of the second field, netloc.
func withHost(name string, fields []string) *collections.TupleType {
	t := collections.NewTupleType(name, fields)
	t.Extra = func(values starlark.Tuple, name string) (starlark.Value, error) {
		netloc := string(values[1].(starlark.String))
		user, host := "", netloc
		at := strings.LastIndexByte(netloc, '@')
		if at >= 0 {
			user, host = netloc[:at], netloc[at+1:]
		}
		switch name {
		case "geturl":
			return stdlib.NewFunc(name, func(c *stdlib.Call) (starlark.Value, error) {
				return starlark.String(partsOf(values).url()), c.Unpack()
			}), nil
		case "username", "password":
			first, second, ok := strings.Cut(user, ":")
			if at < 0 || name == "password" && !ok {
				return starlark.None, nil
			}
			if name == "password" {
				first = second
			}
			return starlark.String(first), nil
		case "hostname":
			host, _, _ = hostPort(host)
			if host == "" {
				return starlark.None, nil
			}
			address, zone, _ := strings.Cut(host, "%")
			if zone != "" {
				zone = "%" + zone
			}
			return starlark.String(strings.ToLower(address) + zone), nil
		case "port":
			_, port, ok := hostPort(host)
			if !ok || port == "" {
				return starlark.None, nil
			}
			n, err := strconv.Atoi(port)
			if err != nil || strings.Trim(port, "0123456789") != "" {
				return nil, stdlib.Errorf(stdlib.ValueError, "Port could not be cast to integer value as '%s'", port)
			}
			if n > 65535 {
				return nil, stdlib.Errorf(stdlib.ValueError, "Port out of range 0-65535")
			}
			return starlark.MakeInt(n), nil
		}
		return nil, nil
	}
	return t
}

// hostPort splits host:port, where the host may be in brackets.
func hostPort(s string) (host, port string, ok bool) {
	if at := strings.IndexByte(s, '['); at >= 0 {
		host, rest, _ := strings.Cut(s[at+1:], "]")
		_, port, ok = strings.Cut(rest, ":")
		return host, port, ok
	}
	return strings.Cut(s, ":")
}

func text(v starlark.Value) string {
	s, _ := starlark.AsString(v)
	return s
}

// partsOf returns the parts in the fields of a result.
func partsOf(v starlark.Tuple) parts {
	if len(v) == 5 {
		return parts{text(v[0]), text(v[1]), text(v[2]), "", text(v[3]), text(v[4])}
	}
	return parts{text(v[0]), text(v[1]), text(v[2]), text(v[3]), text(v[4]), text(v[5])}
}

// usesNetloc are schemes with a host.
const usesNetloc = " ftp http gopher nntp telnet imap wais file mms https shttp snews prospero rtsp rtsps rtspu rsync svn svn+ssh sftp nfs git git+ssh ws wss itms-services "

const usesRelative = " ftp http gopher nntp imap wais file https shttp mms prospero rtsp rtsps rtspu sftp svn svn+ssh ws wss "

const usesParams = " ftp hdl prospero http imap https shttp rtsp rtsps rtspu sip sips mms sftp tel "

func listed(list, scheme string) bool {
	return scheme == "" || strings.Contains(list, " "+scheme+" ")
}

// split takes a URL apart, as Python does.
func split(url, scheme string, fragments bool) (parts, error) {
	url = strings.TrimLeftFunc(url, func(r rune) bool { return r <= ' ' })
	scheme = strings.TrimFunc(scheme, func(r rune) bool { return r <= ' ' })
	clean := strings.NewReplacer("\t", "", "\r", "", "\n", "")
	url = clean.Replace(url)
	p := parts{scheme: clean.Replace(scheme)}
	if i := strings.IndexByte(url, ':'); i > 0 && 'a' <= url[0]|0x20 && url[0]|0x20 <= 'z' {
		ok := true
		for _, c := range []byte(url[:i]) {
			ok = ok && ('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("+-.", c) >= 0)
		}
		if ok {
			p.scheme, url = strings.ToLower(url[:i]), url[i+1:]
		}
	}
	if strings.HasPrefix(url, "//") {
		end := strings.IndexAny(url[2:], "/?#")
		if end < 0 {
			end = len(url) - 2
		}
		p.netloc, url = url[2:2+end], url[2+end:]
		if strings.Contains(p.netloc, "[") != strings.Contains(p.netloc, "]") {
			return p, stdlib.Errorf(stdlib.ValueError, "Invalid IPv6 URL")
		}
	}
	if fragments {
		url, p.fragment, _ = strings.Cut(url, "#")
	}
	p.path, p.query, _ = strings.Cut(url, "?")
	return p, nil
}

// cutParams takes the parameters off the path.
func (p parts) cutParams() parts {
	if !listed(usesParams, p.scheme) || !strings.Contains(p.path, ";") {
		return p
	}
	slash := strings.LastIndexByte(p.path, '/')
	at := strings.IndexByte(p.path[max(slash, 0):], ';')
	if at >= 0 {
		at += max(slash, 0)
		p.path, p.params = p.path[:at], p.path[at+1:]
	}
	return p
}

// url puts a URL together.
func (p parts) url() string {
	path := p.path
	if p.params != "" {
		path += ";" + p.params
	}
	out := path
	if p.netloc != "" || p.scheme != "" && listed(usesNetloc, p.scheme) && !strings.HasPrefix(path, "//") {
		if path != "" && path[0] != '/' {
			path = "/" + path
		}
		out = "//" + p.netloc + path
	}
	if p.scheme != "" {
		out = p.scheme + ":" + out
	}
	if p.query != "" {
		out += "?" + p.query
	}
	if p.fragment != "" {
		out += "#" + p.fragment
	}
	return out
}

func splitFunc(c *stdlib.Call) (starlark.Value, error) {
	var url, scheme string
	fragments := true
	if err := c.Unpack("url", &url, "scheme?", &scheme, "allow_fragments?", &fragments); err != nil {
		return nil, err
	}
	p, err := split(url, scheme, fragments)
	if err != nil {
		return nil, err
	}
	s := func(v string) starlark.Value { return starlark.String(v) }
	if c.Name == "urlsplit" {
		return splitResult.Make(s(p.scheme), s(p.netloc), s(p.path), s(p.query), s(p.fragment)), nil
	}
	p = p.cutParams()
	return parseResult.Make(s(p.scheme), s(p.netloc), s(p.path), s(p.params), s(p.query), s(p.fragment)), nil
}

func unsplitFunc(c *stdlib.Call) (starlark.Value, error) {
	var v starlark.Value
	if err := c.Unpack("components", &v); err != nil {
		return nil, err
	}
	if like, ok := v.(stdlib.TupleLike); ok {
		v = like.AsTuple()
	}
	values, err := c.Elements(v)
	if err != nil {
		return nil, err
	}
	want := 5
	if c.Name == "urlunparse" {
		want = 6
	}
	if len(values) != want {
		return nil, stdlib.Errorf(stdlib.ValueError, "%s takes %d parts, got %d", c.Name, want, len(values))
	}
	for _, x := range values {
		if _, ok := starlark.AsString(x); !ok && x != starlark.None {
			return nil, stdlib.Errorf(stdlib.TypeError, "Cannot mix str and non-str arguments")
		}
	}
	return starlark.String(partsOf(values).url()), nil
}

func joinFunc(c *stdlib.Call) (starlark.Value, error) {
	var base, url string
	fragments := true
	if err := c.Unpack("base", &base, "url", &url, "allow_fragments?", &fragments); err != nil {
		return nil, err
	}
	out, err := join(base, url, fragments)
	return starlark.String(out), err
}

// join is urljoin.
func join(base, url string, fragments bool) (string, error) {
	if base == "" {
		return url, nil
	}
	if url == "" {
		return base, nil
	}
	b, err := split(base, "", fragments)
	if err != nil {
		return "", err
	}
	b = b.cutParams()
	u, err := split(url, b.scheme, fragments)
	if err != nil {
		return "", err
	}
	u = u.cutParams()
	if u.scheme != b.scheme || !listed(usesRelative, u.scheme) {
		return url, nil
	}
	if listed(usesNetloc, u.scheme) {
		if u.netloc != "" {
			return u.url(), nil
		}
		u.netloc = b.netloc
	}
	if u.path == "" && u.params == "" {
		u.path, u.params = b.path, b.params
		if u.query == "" {
			u.query = b.query
		}
		return u.url(), nil
	}
	baseParts := strings.Split(b.path, "/")
	if baseParts[len(baseParts)-1] != "" {
		baseParts = baseParts[:len(baseParts)-1]
	}
	var segments []string
	if strings.HasPrefix(u.path, "/") {
		segments = strings.Split(u.path, "/")
	} else {
		segments = append(slices.Clone(baseParts), strings.Split(u.path, "/")...)
		if len(segments) > 2 { // empty ones in the middle
			middle := slices.DeleteFunc(slices.Clone(segments[1:len(segments)-1]), func(s string) bool { return s == "" })
			segments = append(append([]string{segments[0]}, middle...), segments[len(segments)-1])
		}
	}
	var resolved []string
	for _, s := range segments {
		switch s {
		case "..":
			if len(resolved) > 0 {
				resolved = resolved[:len(resolved)-1]
			}
		case ".":
		default:
			resolved = append(resolved, s)
		}
	}
	if last := segments[len(segments)-1]; last == "." || last == ".." {
		resolved = append(resolved, "")
	}
	if u.path = strings.Join(resolved, "/"); u.path == "" {
		u.path = "/"
	}
	return u.url(), nil
}

var defragResult = collections.NewTupleType("DefragResult", []string{"url", "fragment"})

func defragFunc(c *stdlib.Call) (starlark.Value, error) {
	var url string
	if err := c.Unpack("url", &url); err != nil {
		return nil, err
	}
	fragment := ""
	if strings.Contains(url, "#") {
		p, err := split(url, "", true)
		if err != nil {
			return nil, err
		}
		p = p.cutParams()
		fragment, p.fragment = p.fragment, ""
		url = p.url()
	}
	return defragResult.Make(starlark.String(url), starlark.String(fragment)), nil
}
