package wire

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// URIForms returns the readings of a URI by likely servers. forms begins with the URI itself. The
// further forms have escapes decoded, up to twice, backslashes as slashes, "." and ".." and empty
// segments resolved, scheme and host in lower case, no host for files, the scheme "file" for paths,
// neither user nor usual port, and none of the characters that URL parsers drop. bare are the same
// forms without query, fragment and the slash at the end.
//
// A rule that permits a URI must permit all forms. A rule that forbids a URI must match any of
// forms and bare.
func URIForms(uri string) (forms, bare []string) {
	add := func(to *[]string, form string) {
		if !slices.Contains(*to, form) {
			*to = append(*to, form)
		}
	}
	add(&forms, uri)
	kept := strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(uri)
	kept = strings.TrimFunc(kept, func(r rune) bool { return r <= ' ' })
	for _, whole := range decoded(kept) {
		add(&forms, whole)
		for _, form := range resolved(whole) {
			add(&forms, form)
		}
	}
	end := strings.IndexAny(kept, "?#")
	if end < 0 {
		end = len(kept)
	}
	for _, part := range decoded(kept[:end]) {
		for _, form := range append(resolved(part), part) {
			add(&forms, form+kept[end:])
			add(&bare, form)
			add(&bare, strings.TrimSuffix(form, "/"))
			if _, rest, ok := strings.Cut(form, "://"); ok && !strings.Contains(rest, "/") {
				add(&bare, form+"/")
			}
		}
	}
	return forms, bare
}

// decoded returns text, and text with its escapes decoded once and twice. Malformed escapes stay
// unchanged.
func decoded(text string) []string {
	all := []string{text}
	for range 2 {
		if text = unescape(text); text == all[len(all)-1] {
			break
		}
		all = append(all, text)
	}
	return all
}

// escape is an escaped byte.
var escape = lazyregexp.New(`%[0-9A-Fa-f]{2}`)

func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(one string) string {
		value, _ := strconv.ParseUint(one[1:], 16, 8) // cannot fail: escape matches two hexadecimal digits
		return string([]byte{byte(value)})
	})
}

// resolved returns the forms of a URI in which nothing is escaped.
func resolved(uri string) []string {
	uri = strings.ReplaceAll(uri, `\`, "/")
	scheme, rest, ok := strings.Cut(uri, ":")
	switch {
	case !ok || !isScheme(scheme):
		return append([]string{uri}, filePaths(uri)...) // servers of files may take a path, too
	case len(scheme) == 1: // a drive of Windows
		return append([]string{uri}, filePaths("/"+uri)...)
	}
	scheme = strings.ToLower(scheme)
	forms := []string{scheme + ":" + rest}
	if scheme == "file" {
		return append(forms, filePaths(rest)...)
	}
	after, hasHost := strings.CutPrefix(rest, "//")
	if port, special := defaultPorts[scheme]; special {
		after, hasHost = strings.TrimLeft(rest, "/"), true
		host, file, _ := strings.Cut(after, "/")
		host = host[strings.LastIndexByte(host, '@')+1:]
		host = strings.TrimSuffix(strings.TrimSuffix(host, ":"+port), ":")
		forms = append(forms, withHost(scheme, strings.TrimSuffix(host, "."), file, strings.Contains(after, "/"))...)
	}
	if !hasHost {
		if strings.HasPrefix(rest, "/") {
			forms = append(forms, scheme+"://"+cleanPath(rest))
		}
		return forms
	}
	host, file, hasPath := strings.Cut(after, "/")
	return append(forms, withHost(scheme, host, file, hasPath)...)
}

// defaultPorts maps the schemes of URIs that have a host after any number of slashes to their ports
// (WHATWG URL, "special scheme").
var defaultPorts = map[string]string{"ftp": "21", "http": "80", "https": "443", "ws": "80", "wss": "443"}

// isScheme reports whether text is a scheme (RFC 3986, section 3.1).
func isScheme(text string) bool {
	for i, c := range []byte(strings.ToLower(text)) {
		if (c < 'a' || c > 'z') && (i == 0 || !strings.ContainsRune("0123456789+-.", rune(c))) {
			return false
		}
	}
	return text != ""
}

// withHost returns a URI with an unchanged host, and with the path resolved.
func withHost(scheme, host, file string, hasPath bool) []string {
	start := scheme + "://" + strings.ToLower(host)
	if !hasPath {
		return []string{start}
	}
	return []string{start + "/" + file, start + cleanPath("/"+file)}
}

// filePaths returns the URIs of the files that servers may read for the text after "file:", or for
// a path. Many servers ignore the host, some take the host for the first segment of the path.
func filePaths(rest string) []string {
	after, hasHost := strings.CutPrefix(rest, "//")
	if !hasHost {
		return []string{"file://" + cleanPath("/"+rest)}
	}
	host, file, hasPath := strings.Cut(after, "/")
	forms := withHost("file", host, file, hasPath)
	if host != "" {
		forms = append(forms, "file://"+cleanPath("/"+file), "file://"+cleanPath("/"+after))
	}
	return forms
}

// cleanPath resolves the segments of a path. A slash at the end stays.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
