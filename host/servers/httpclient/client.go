// Package httpclient sends HTTP requests to the endpoint of an MCP server. The package adds the
// headers of every request (credentials, session id, protocol revision), renews access tokens that
// the server refuses, and follows redirects within the server's origin. Begin with Client.
package httpclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Media types of MCP over HTTP.
const (
	ContentJSON   = "application/json"
	ContentEvents = "text/event-stream"

	contentBoth = ContentJSON + ", " + ContentEvents
	lastEventID = "Last-Event-Id"
)

// Config is the address of a server with the headers and credentials of every request.
type Config struct {
	// Name of the upstream in the configuration, for errors.
	Name string
	// URL of the server's endpoint. A user and password in URL become Basic credentials, unless
	// Headers has an Authorization.
	URL string
	// Headers are sent with every request. They may be secrets and never appear in
	// errors.
	Headers map[string]string
}

// Authorizer provides access tokens for the server; see package oauth.
type Authorizer interface {
	// Header returns the value of the header Authorization. Errors: *AuthError; the
	// cause of ctx; or why no token is available now.
	Header(ctx context.Context) (string, error)
	// Renew gets another token after the server has refused the token in the header value used.
	// Errors as for Header.
	Renew(ctx context.Context, used string) error
	// StepUp is called when the server has refused the token in the header value used for lack of
	// scopes. StepUp returns nil if another token is available now. Errors as for Header.
	StepUp(ctx context.Context, used string, scopes []string) error
	// Close ends the work in progress and waits for the end.
	Close()
}

// Client sends requests to the endpoint of a server. It is safe for concurrent use, except for
// SetAuthorizer, which must be called first.
type Client struct {
	config    Config
	fixed     http.Header // the configured headers but Host
	host      string      // the configured Host; "" for none
	auth      Authorizer  // nil: none
	transport *http.Transport
	// url is the server's address. endpoint is the address for posting messages, nil if equal to
	// url. Both change when the server redirects within the origin.
	url, endpoint atomic.Pointer[url.URL]

	session atomic.Pointer[string] // Mcp-Session-Id; nil for none
	version atomic.Pointer[string] // MCP-Protocol-Version; nil if unknown yet
	cached  atomic.Pointer[cachedHeaders]
}

// cachedHeaders are the headers of requests. They are made once and shared;
// transports only read them.
type cachedHeaders struct {
	authorization    string
	session, version *string
	post, get        http.Header
}

// New returns a client for the server of config. The caller must call Close.
func New(config Config) (*Client, error) {
	u, err := url.Parse(config.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url must be an absolute http or https URL")
	}
	c := &Client{config: config, fixed: make(http.Header), transport: NewTransport(u.Scheme)}
	for name, value := range config.Headers {
		c.fixed.Set(name, value)
	}
	c.host = c.fixed.Get("Host")
	c.fixed.Del("Host")
	if u.User != nil && c.fixed.Get("Authorization") == "" {
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		c.fixed.Set("Authorization", "Basic "+basic)
	}
	c.url.Store(address(u))
	return c, nil
}

// SetAuthorizer adds the tokens of a to all requests. Close closes a. SetAuthorizer must be called
// before the first request.
func (c *Client) SetAuthorizer(a Authorizer) { c.auth = a }

// Config returns the Config passed to New.
func (c *Client) Config() Config { return c.config }

// URL returns the server's current address, without user and fragment.
func (c *Client) URL() *url.URL { return c.url.Load() }

// Transport returns the transport of the connections to the server.
func (c *Client) Transport() *http.Transport { return c.transport }

// SetEndpoint sets where messages are posted from now on.
func (c *Client) SetEndpoint(u *url.URL) { c.endpoint.Store(address(u)) }

// SetRevision sets the protocol revision in requests from now on.
func (c *Client) SetRevision(revision protocol.Revision) {
	name := revision.String()
	c.version.Store(&name)
}

// HasSession reports whether the server has assigned a session id.
func (c *Client) HasSession() bool { return c.session.Load() != nil }

// SetSession stores the session id from h, the headers of an answer to initialize. An
// id consists of visible ASCII characters (revision 2025-11-25, basic/transports).
func (c *Client) SetSession(h http.Header) error {
	id := h.Get(transport.HeaderKeySessionID)
	if id == "" {
		c.session.Store(nil)
		return nil
	}
	for _, b := range []byte(id) {
		if b < 0x21 || b > 0x7E {
			return fmt.Errorf("its session id %q is not of visible ASCII characters", display.Line(id, maxShown))
		}
	}
	c.session.Store(&id)
	return nil
}

// Close closes idle connections and the Authorizer.
func (c *Client) Close() {
	if c.auth != nil {
		c.auth.Close()
	}
	c.transport.CloseIdleConnections()
}

// address returns u without user and fragment.
func address(u *url.URL) *url.URL {
	a := *u
	a.User, a.Fragment, a.RawFragment = nil, "", ""
	return &a
}

// target returns the address of requests with a method.
func (c *Client) target(method string) *atomic.Pointer[url.URL] {
	if method == http.MethodPost && c.endpoint.Load() != nil {
		return &c.endpoint
	}
	return &c.url
}

// Do sends a request and returns the response with any status; a refused authorization and an
// unusable redirect are errors. The caller closes the body. eventID is the event to resume after,
// or "". permit is asked before each attempt. Errors: *AuthError, *RedirectError,
// *wire.DeniedError, the cause of ctx, and network errors; see NotDialed.
func (c *Client) Do(ctx context.Context, method string, body []byte, eventID string, permit wire.Permit) (*http.Response, error) {
	var more http.Header
	if eventID != "" {
		more = http.Header{lastEventID: {eventID}}
	}
	return c.do(ctx, method, body, more, permit)
}

// Post is Do for a POST with more headers.
func (c *Client) Post(ctx context.Context, body []byte, more http.Header, permit wire.Permit) (*http.Response, error) {
	return c.do(ctx, http.MethodPost, body, more, permit)
}

// do is Do with more headers, which replace other headers of the same names.
func (c *Client) do(ctx context.Context, method string, body []byte, more http.Header, permit wire.Permit) (*http.Response, error) {
	renewed, stepUps := false, 0
	for hops := 0; ; {
		var authorization string
		if c.auth != nil {
			var err error
			if authorization, err = c.auth.Header(ctx); err != nil {
				return nil, err
			}
		}
		if err := wire.CheckPermit(permit); err != nil {
			return nil, err
		}
		resp, err := c.transport.RoundTrip(c.newRequest(ctx, method, body, more, authorization))
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusUnauthorized && c.auth != nil && !renewed:
			renewed = true
			Discard(resp.Body)
			if err := c.auth.Renew(ctx, authorization); err != nil {
				return nil, err
			}
		case resp.StatusCode == http.StatusUnauthorized:
			return nil, c.unauthorized(resp)
		case c.auth != nil && lacksScopes(resp):
			if err := c.stepUp(ctx, resp, authorization, stepUps); err != nil {
				return nil, err
			}
			stepUps++
		case IsRedirect(resp.StatusCode):
			if err := c.redirected(resp, method, hops); err != nil {
				return nil, err
			}
			hops++
		default:
			return resp, nil
		}
	}
}

// NewRequest returns a POST of body without an access token. The server responds with a challenge.
func (c *Client) NewRequest(ctx context.Context, body []byte) *http.Request {
	return c.newRequest(ctx, http.MethodPost, body, nil, "")
}

func (c *Client) newRequest(ctx context.Context, method string, body []byte, more http.Header, authorization string) *http.Request {
	headers := c.headers(authorization)
	u := c.target(method).Load()
	req := &http.Request{
		Method: method, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: headers.get,
	}
	if c.host != "" {
		req.Host = c.host
	}
	if body != nil {
		req.Header = headers.post
		req.ContentLength = int64(len(body))
		// net/http recognizes this type, and sends headers and body with a single write.
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	if more != nil {
		req.Header = req.Header.Clone()
		maps.Copy(req.Header, more)
	}
	return req.WithContext(ctx)
}

// headers returns the headers of a request made now.
func (c *Client) headers(authorization string) *cachedHeaders {
	session, version := c.session.Load(), c.version.Load()
	if m := c.cached.Load(); m != nil && m.authorization == authorization && m.session == session && m.version == version {
		return m
	}
	h := c.fixed.Clone()
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	if session != nil {
		h.Set(transport.HeaderKeySessionID, *session)
	}
	if version != nil {
		h.Set(transport.HeaderKeyProtocolVersion, *version)
	}
	h.Set("Accept", ContentEvents)
	m := &cachedHeaders{authorization: authorization, session: session, version: version, get: h, post: h.Clone()}
	m.post.Set("Accept", contentBoth)
	m.post.Set("Content-Type", ContentJSON)
	c.cached.Store(m)
	return m
}

// ContentType returns the media type of a response in lower case, without
// parameters.
func ContentType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

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

// maxIdleConns is how many idle connections are kept for later requests.
const maxIdleConns = 256

// NewTransport returns a transport for a server with a URL scheme. The transport limits neither the
// time of a response nor the number of connections: an answer may take as long as the call, and a
// stream that is read slowly must not delay a cancellation. The transport uses the proxies of the
// environment (http.ProxyFromEnvironment), and none for loopback addresses.
func NewTransport(scheme string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	t.MaxResponseHeaderBytes = 1 << 20
	// A request on a connection that the server is just closing fails, and the server may have
	// acted on the request. Node closes idle connections after 5 s.
	t.IdleConnTimeout = 4 * time.Second
	if scheme == "https" { // TLS is costly to set up, and most servers are behind proxies that wait longer
		t.IdleConnTimeout = time.Minute
	}
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

// NotDialed reports whether err means that no connection was made for a request, so the server cannot
// have seen the request.
func NotDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
