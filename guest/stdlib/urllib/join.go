package urllib

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib/collections"
	"go.starlark.net/starlark"
)

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
