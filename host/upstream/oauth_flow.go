package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// oauthName is how we register at authorization servers.
const oauthName = "mcp-metatool"

// Authorize gets tokens for the upstream of spec by the authorization code flow
// with PKCE (OAuth 2.1; revision 2025-11-25, basic/authorization) and writes
// them to spec.OAuth.TokenFile, from where running upstreams take them by
// themselves. It calls open with the address at which the user agrees, and
// waits for the user's browser to come back to a listener on 127.0.0.1, until
// ctx ends. Errors name no code and no token.
func Authorize(ctx context.Context, spec Spec, open func(url string) error) error {
	if err := authorize(ctx, spec, open); err != nil {
		return fmt.Errorf("upstream %q: not authorized: %w", spec.Name, err)
	}
	return nil
}

func authorize(ctx context.Context, spec Spec, open func(url string) error) error {
	if spec.URL == "" || spec.OAuth == nil {
		return errors.New("it is no HTTP server with oauth (set url and oauth)")
	}
	if spec.OAuth.TokenFile == "" {
		return errors.New("no token file is set")
	}
	peer, err := newHTTPPeer(spec)
	if err != nil {
		return err
	}
	defer peer.close()
	b, err := newBrowserWait(spec.OAuth.RedirectPort)
	if err != nil {
		return err
	}
	defer b.close()

	t := peer.auth
	h, err := t.prepare(ctx, b.redirect())
	if err != nil {
		return err
	}
	verifier, err1 := transport.GenerateCodeVerifier()
	state, err2 := transport.GenerateState()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	address, err := h.GetAuthorizationURL(ctx, state, transport.GenerateCodeChallenge(verifier))
	if err != nil {
		return t.hide(err)
	}
	b.expect(state)
	if err := open(address); err != nil {
		return fmt.Errorf("the browser did not open: %w", err)
	}
	back, err := b.wait(ctx)
	if err != nil {
		return err
	}
	return t.redeem(ctx, h, back, verifier)
}

// prepare finds the authorization server and makes sure that it knows us.
func (t *tokens) prepare(ctx context.Context, redirect string) (*transport.OAuthHandler, error) {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return nil, err
	}
	scopes := t.conf.Scopes
	if scopes == nil && challenge != nil {
		scopes = strings.Fields(challenged(challenge, "scope"))
	}
	h := t.handler(oauthClient{ID: t.conf.ClientID, Secret: t.conf.ClientSecret}, redirect, scopes...)
	h.HandleUnauthorizedResponse(challenge)
	meta, err := h.GetServerMetadata(ctx)
	if err != nil {
		return nil, t.hide(err)
	}
	if m := meta.CodeChallengeMethodsSupported; len(m) > 0 && !slices.Contains(m, "S256") {
		return nil, fmt.Errorf("the authorization server %s has no PKCE with S256", clip(meta.Issuer))
	}
	if t.conf.ClientID == "" {
		if err := h.RegisterClient(ctx, oauthName); err != nil {
			return nil, fmt.Errorf("registering as a client failed (set client_id if there is one for you): %w", t.hide(err))
		}
	}
	return h, nil
}

// redeem turns what the browser brought into tokens in the file.
func (t *tokens) redeem(ctx context.Context, h *transport.OAuthHandler, back url.Values, verifier string) error {
	if code := back.Get("error"); code != "" {
		return fmt.Errorf("the authorization server refused: %s", clip(transport.OAuthError{
			ErrorCode: code, ErrorDescription: back.Get("error_description")}.Error()))
	}
	code := back.Get("code")
	if code == "" {
		return errors.New("the browser came back without a code")
	}
	meta, err := h.GetServerMetadata(ctx)
	if err != nil {
		return t.hide(err)
	}
	if iss := back.Get("iss"); iss != "" && meta.Issuer != "" && iss != meta.Issuer { // RFC 9207
		return fmt.Errorf("the browser came back from %q, not from %q", clip(iss), clip(meta.Issuer))
	}
	unlock, err := t.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := h.ProcessAuthorizationResponse(ctx, code, back.Get("state"), verifier); err != nil {
		return t.hide(err, code, verifier, h.GetClientSecret())
	}
	return nil
}

// browserWait listens on the loopback interface for the user's browser
// (RFC 8252, 7.3).
type browserWait struct {
	listener net.Listener
	server   *http.Server
	back     chan url.Values // what the browser brought, once
	served   chan struct{}   // closed when the server has ended

	mu    sync.Mutex
	state string // what the browser must bring; "" for none
}

func newBrowserWait(port int) (*browserWait, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the browser could not come back (choose another redirect_port): %w", err)
	}
	b := &browserWait{
		listener: l,
		back:     make(chan url.Values, 1),
		served:   make(chan struct{}),
	}
	b.server = &http.Server{Handler: b, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l) // ends with close
	}()
	return b, nil
}

func (b *browserWait) redirect() string {
	return "http://" + b.listener.Addr().String() + "/callback"
}

// expect sets the state that the browser must bring.
func (b *browserWait) expect(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

func (b *browserWait) wait(ctx context.Context) (url.Values, error) {
	select {
	case back := <-b.back:
		return back, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the browser did not come back: %w", context.Cause(ctx))
	}
}

// close lets an answer that is under way go out.
func (b *browserWait) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		b.server.Close()
	}
	<-b.served
}

// ServeHTTP takes the first request with the right state. Any page can make a
// browser ask here, so others change nothing.
func (b *browserWait) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Connection", "close")
	if r.URL.Path != "/callback" || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	q := r.URL.Query()
	if !b.take(q.Get("state")) {
		http.Error(w, "This is not the authorization that mcp-metatool waits for.", http.StatusBadRequest)
		return
	}
	b.back <- q
	fmt.Fprintln(w, "mcp-metatool has got the answer. You can close this window; the terminal says how it went.")
}

// take tells, once, that state is the expected one.
func (b *browserWait) take(state string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == "" || state != b.state {
		return false
	}
	b.state = ""
	return true
}
