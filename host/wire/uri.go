package wire

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// URIForms returns what servers are likely to take a URI for. forms begins with the URI
// itself. The others have escapes decoded, up to twice, backslashes as slashes, "." and ".."
// and empty segments resolved, scheme and host in lower case, no host in place of localhost
// for files, and none of the characters that URL parsers drop. bare are the same without
// query, fragment and the slash at the end.
//
// Who permits a URI must permit all forms. Who forbids it must forbid it for any of forms and
// bare.
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

// decoded returns text, and text with its escapes decoded once and twice. What is no escape
// stays as it is.
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
		value, _ := strconv.ParseUint(one[1:], 16, 8) // it has two hexadecimal digits
		return string([]byte{byte(value)})
	})
}

// resolved returns the forms of a URI in which nothing is escaped any more.
func resolved(uri string) []string {
	uri = strings.ReplaceAll(uri, `\`, "/")
	scheme, rest, ok := strings.Cut(uri, ":")
	if !ok {
		return []string{uri}
	}
	scheme = strings.ToLower(scheme)
	after, hasHost := strings.CutPrefix(rest, "//")
	if !hasHost {
		forms := []string{scheme + ":" + rest}
		if strings.HasPrefix(rest, "/") {
			forms = append(forms, scheme+"://"+cleanPath(rest))
		}
		return forms
	}
	host, file, hasPath := strings.Cut(after, "/")
	host = strings.ToLower(host)
	if !hasPath {
		return []string{scheme + "://" + host}
	}
	forms := []string{scheme + "://" + host + "/" + file, scheme + "://" + host + cleanPath("/"+file)}
	if scheme == "file" && host == "localhost" {
		forms = append(forms, scheme+"://"+cleanPath("/"+file))
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
