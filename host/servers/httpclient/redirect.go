package httpclient

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// MaxRedirects is the maximum number of followed redirects of a request.
const MaxRedirects = 5

// IsRedirect reports whether a status redirects to another address.
func IsRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirected makes the client use the redirect's target. redirected follows redirects only within
// the origin, because credentials are sent with every request, and only redirects that keep the
// method, because the server has not got the message of a POST yet.
func (c *Client) redirected(resp *http.Response, method string, hops int) error {
	Discard(resp.Body)
	target := c.target(method)
	from := target.Load()
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return &StatusError{Status: resp.StatusCode, Body: "without a usable Location"}
	}
	if resp.StatusCode == http.StatusSeeOther || !SameOrigin(from, to) || hops == MaxRedirects {
		shown := url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
		return &RedirectError{To: display.Line(shown.String(), maxShown)}
	}
	target.Store(address(to))
	return nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}
