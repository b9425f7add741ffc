package upstream

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

const (
	// maxIdleConns is how many connections are kept for the next calls.
	maxIdleConns = 256
	// maxHops is how many redirects are followed.
	maxHops = 5

	contentJSON   = "application/json"
	contentEvents = "text/event-stream"
	contentBoth   = contentJSON + ", " + contentEvents
	lastEventID   = "Last-Event-Id"
)

// httpPeer sends HTTP requests to the endpoint of one server, with all headers
// that they need. It is safe for concurrent use.
type httpPeer struct {
	name  string
	fixed http.Header // as configured
	host  string      // of a configured header Host; "" for none
	auth  *tokens     // nil: none
	rt    *http.Transport
	// url is the server's address, and endpoint where messages are posted if
	// that is elsewhere. They change when the server redirects within its origin.
	url, endpoint atomic.Pointer[url.URL]

	session  atomic.Pointer[string] // Mcp-Session-Id; nil for none
	revision atomic.Pointer[string] // MCP-Protocol-Version; nil before it is known
	made     atomic.Pointer[madeHeaders]
}

// madeHeaders are the headers of requests, made once and only read then.
type madeHeaders struct {
	authorization     string
	session, revision *string
	post, get         http.Header
}

func newHTTPPeer(spec Spec) (*httpPeer, error) {
	u, err := url.Parse(spec.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("url must be an absolute http or https URL")
	}
	if o := spec.OAuth; o != nil && o.ClientSecret != "" && o.Issuer == "" {
		return nil, errors.New("oauth has a client_secret, but not the issuer that may get it (set issuer)")
	}
	p := &httpPeer{name: spec.Name, fixed: make(http.Header), rt: newTransport(u.Scheme)}
	for name, value := range spec.Headers {
		p.fixed.Set(name, value)
	}
	p.host = p.fixed.Get("Host")
	p.fixed.Del("Host")
	if u.User != nil {
		password, _ := u.User.Password()
		basic := base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		if p.fixed.Get("Authorization") == "" {
			p.fixed.Set("Authorization", "Basic "+basic)
		}
	}
	p.url.Store(bare(u))
	if spec.OAuth != nil {
		p.auth = newTokens(spec, p)
	}
	return p, nil
}

// bare is u without what is no part of an address.
func bare(u *url.URL) *url.URL {
	b := *u
	b.User, b.Fragment, b.RawFragment = nil, "", ""
	return &b
}

// target is the address of requests with that method.
func (p *httpPeer) target(method string) *atomic.Pointer[url.URL] {
	if method == http.MethodPost && p.endpoint.Load() != nil {
		return &p.endpoint
	}
	return &p.url
}

// newTransport has no limit on a response's time or on connections: an answer
// may take as long as its call, and a stream whose reader is held up must not
// keep a cancellation from going out. Proxies are those of the environment, as
// everywhere in Go; there is none for loopback addresses.
func newTransport(scheme string) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	t.MaxIdleConns, t.MaxIdleConnsPerHost = maxIdleConns, maxIdleConns
	t.MaxResponseHeaderBytes = 1 << 20
	// A request on a connection that the server is just closing fails, and
	// whether it was acted on is not known. Node closes idle ones after 5 s.
	t.IdleConnTimeout = 4 * time.Second
	if scheme == "https" { // costly to make, and mostly behind patient proxies
		t.IdleConnTimeout = time.Minute
	}
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

func (p *httpPeer) close() {
	if p.auth != nil {
		p.auth.close()
	}
	p.rt.CloseIdleConnections()
}

// do sends a request and returns the response, whatever its status, save for
// want of authorization and redirects; the caller closes its body. from is the event id to resume behind,
// "" for none; permit is asked before each attempt. Errors: *AuthError, *redirectError, *wire.DeniedError, and what goes wrong on the
// network, where notDialed tells more.
func (p *httpPeer) do(ctx context.Context, method string, body []byte, from string, permit wire.Permit) (*http.Response, error) {
	renewed := false
	for hops := 0; ; {
		var authorization string
		if p.auth != nil {
			var err error
			if authorization, err = p.auth.header(ctx); err != nil {
				return nil, err
			}
		}
		if err := wire.Ask(permit); err != nil {
			return nil, err
		}
		resp, err := p.rt.RoundTrip(p.request(ctx, method, body, from, authorization))
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusUnauthorized && p.auth != nil && !renewed:
			renewed = true
			doneWith(resp.Body)
			if err := p.auth.renew(ctx, authorization); err != nil {
				return nil, err
			}
		case resp.StatusCode == http.StatusUnauthorized:
			return nil, p.unauthorized(resp)
		case resp.StatusCode == http.StatusForbidden && p.auth != nil && challenged(resp, "error") == "insufficient_scope":
			return nil, p.narrow(resp)
		case isRedirect(resp.StatusCode):
			if err := p.redirected(resp, method, hops); err != nil {
				return nil, err
			}
			hops++
		default:
			return resp, nil
		}
	}
}

func (p *httpPeer) request(ctx context.Context, method string, body []byte, from, authorization string) *http.Request {
	made := p.headers(authorization)
	u := p.target(method).Load()
	req := &http.Request{
		Method: method, URL: u, Host: u.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: made.get,
	}
	if p.host != "" {
		req.Host = p.host
	}
	if body != nil {
		req.Header = made.post
		req.ContentLength = int64(len(body))
		req.Body = &bodyReader{Reader: *bytes.NewReader(body)}
		req.GetBody = func() (io.ReadCloser, error) { return &bodyReader{Reader: *bytes.NewReader(body)}, nil }
	}
	if from != "" {
		req.Header = req.Header.Clone()
		req.Header.Set(lastEventID, from)
	}
	return req.WithContext(ctx)
}

// bodyReader is the body of a request.
type bodyReader struct{ bytes.Reader }

func (*bodyReader) Close() error { return nil }

// headers are those of requests right now. Transports only read them.
func (p *httpPeer) headers(authorization string) *madeHeaders {
	session, revision := p.session.Load(), p.revision.Load()
	if m := p.made.Load(); m != nil && m.authorization == authorization && m.session == session && m.revision == revision {
		return m
	}
	h := p.fixed.Clone()
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	if session != nil {
		h.Set(transport.HeaderKeySessionID, *session)
	}
	if revision != nil {
		h.Set(transport.HeaderKeyProtocolVersion, *revision)
	}
	h.Set("Accept", contentEvents)
	m := &madeHeaders{authorization: authorization, session: session, revision: revision, get: h, post: h.Clone()}
	m.post.Set("Accept", contentBoth)
	m.post.Set("Content-Type", contentJSON)
	p.made.Store(m)
	return m
}

// setSession keeps the id of the session that an answer to initialize came
// with. An id is visible ASCII (revision 2025-11-25, basic/transports).
func (p *httpPeer) setSession(h http.Header) error {
	id := h.Get(transport.HeaderKeySessionID)
	if id == "" {
		p.session.Store(nil)
		return nil
	}
	for _, c := range []byte(id) {
		if c < 0x21 || c > 0x7E {
			return fmt.Errorf("its session id %q is not of visible ASCII characters", clip(id))
		}
	}
	p.session.Store(&id)
	return nil
}

func (p *httpPeer) unauthorized(resp *http.Response) error {
	err := statusError(resp)
	return &AuthError{Upstream: p.name, Reason: "it answered " + err.Error(), OAuth: p.auth != nil, Err: err}
}

func challenged(resp *http.Response, name string) string {
	return challengeParam(resp.Header.Values("WWW-Authenticate"), name)
}

// narrow is the error of a token with too few scopes (RFC 6750, 3.1).
func (p *httpPeer) narrow(resp *http.Response) error {
	err := statusError(resp)
	return &AuthError{Upstream: p.name, OAuth: true, Err: err,
		Reason: fmt.Sprintf("the token lacks the scope %q, which can be added to the scopes of oauth", clip(challenged(resp, "scope")))}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// redirected moves the peer to where resp redirects. Only within the origin,
// because credentials go with every request; and with the same method, because
// a message that was posted is not there yet.
func (p *httpPeer) redirected(resp *http.Response, method string, hops int) error {
	doneWith(resp.Body)
	target := p.target(method)
	from := target.Load()
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil || resp.Header.Get("Location") == "" {
		return &StatusError{Status: resp.StatusCode, Body: "without a usable Location"}
	}
	if resp.StatusCode == http.StatusSeeOther || !sameOrigin(from, to) || hops == maxHops {
		shown := url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}
		return &redirectError{to: clip(shown.String())}
	}
	target.Store(bare(to))
	return nil
}

func sameOrigin(a, b *url.URL) bool {
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

// notDialed tells whether err is of a request that got no connection, so that
// the server cannot have seen it.
func notDialed(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// contentType is the media type of a response in lower case.
func contentType(h http.Header) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
