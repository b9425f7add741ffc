package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

// oauthName is how we register at authorization servers.
const oauthName = "mcp-metatool"

// Login is where a user logs in.
type Login struct {
	// URL is to be opened in the user's browser.
	URL string
	// Issuer is the authorization server that URL is of, and gets the tokens'
	// secrets. Former is the one that the stored tokens are from, if it is
	// another; "" for none.
	Issuer, Former string
}

// Authorize gets tokens for the upstream of spec by the authorization code flow
// with PKCE (OAuth 2.1; revision 2025-11-25, basic/authorization) and writes
// them to spec.OAuth.TokenFile, from where running upstreams take them by
// themselves. It calls open with where the user agrees, and waits for the
// user's browser to come back to a listener on 127.0.0.1, until ctx ends.
// Errors name no code and no token.
func Authorize(ctx context.Context, spec Spec, open func(Login) error) error {
	if err := authorize(ctx, spec, open); err != nil {
		return fmt.Errorf("upstream %q: not authorized: %w", spec.Name, err)
	}
	return nil
}

func authorize(ctx context.Context, spec Spec, open func(Login) error) error {
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

	f, err := peer.auth.begin(ctx, b.redirect())
	if err != nil {
		return err
	}
	b.expect(f.state)
	login, err := f.login()
	if err != nil {
		return err
	}
	if err := open(login); err != nil {
		return fmt.Errorf("the browser did not open: %w", err)
	}
	back, err := b.wait(ctx)
	if err != nil {
		return err
	}
	return f.redeem(ctx, back)
}

// flow is one authorization: the server that it is asked of, and who asks.
type flow struct {
	*tokens
	server          *serverMetadata
	client          oauthClient
	scopes          []string
	redirect        string
	verifier, state string
}

// begin finds the authorization server and makes sure that it knows us.
func (t *tokens) begin(ctx context.Context, redirect string) (*flow, error) {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return nil, err
	}
	f := &flow{tokens: t, redirect: redirect, scopes: t.conf.Scopes}
	if f.scopes == nil && challenge != nil {
		f.scopes = strings.Fields(challenged(challenge, "scope"))
	}
	if f.server, err = t.discover(ctx, challenge); err != nil {
		return nil, t.hide(err)
	}
	f.client = oauthClient{ID: t.conf.ClientID, Secret: t.conf.ClientSecret}
	f.client.AuthMethod = authMethod(f.client, f.server.TokenEndpointAuthMethodsSupported)
	if t.conf.ClientID == "" {
		if f.client, err = t.register(ctx, f.server, redirect, f.scopes); err != nil {
			return nil, fmt.Errorf("registering as a client failed (set client_id if there is one for you): %w", t.hide(err))
		}
	}
	var err1, err2 error
	f.verifier, err1 = transport.GenerateCodeVerifier()
	f.state, err2 = transport.GenerateState()
	return f, errors.Join(err1, err2)
}

// login is where the user agrees.
func (f *flow) login() (Login, error) {
	u, err := url.Parse(f.server.AuthorizationEndpoint)
	if err != nil {
		return Login{}, f.hide(err)
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.client.ID, "redirect_uri": f.redirect, "state": f.state,
		"code_challenge": transport.GenerateCodeChallenge(f.verifier), "code_challenge_method": "S256",
		"scope": strings.Join(f.scopes, " "), "resource": f.server.resource,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	login := Login{URL: u.String(), Issuer: f.server.Issuer}
	before, err := f.file.entry(f.key)
	if before.Issuer != "" && !sameIssuer(before.Issuer, login.Issuer) {
		login.Former = before.Issuer
	}
	return login, err
}

// redeem turns what the browser brought into tokens in the file.
func (f *flow) redeem(ctx context.Context, back url.Values) error {
	issuer := f.server.Issuer
	switch iss, has := back["iss"]; { // RFC 9207, 2.4, for refusals too
	case has && (len(iss) != 1 || iss[0] != issuer):
		return fmt.Errorf("the browser came back from %q, not from %q", clip(strings.Join(iss, " ")), clip(issuer))
	case !has && f.server.SendsIssuer:
		return fmt.Errorf("the browser came back without the issuer, which %q always sends", clip(issuer))
	}
	if code := back.Get("error"); code != "" {
		return fmt.Errorf("the authorization server refused: %s", clip(transport.OAuthError{
			ErrorCode: code, ErrorDescription: back.Get("error_description")}.Error()))
	}
	code := back.Get("code")
	if code == "" {
		return errors.New("the browser came back without a code")
	}
	unlock, err := f.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entry := tokenEntry{Issuer: issuer, TokenEndpoint: f.server.TokenEndpoint, Resource: f.server.resource}
	if f.conf.ClientID != "" {
		entry.AuthMethod = f.client.AuthMethod
	} else {
		entry.Client = &f.client
	}
	entry.Token, err = f.exchange(ctx, entry, f.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.redirect}, "code_verifier": {f.verifier},
	})
	if err != nil {
		return f.hide(err, code, f.verifier, f.client.Secret)
	}
	return f.file.put(f.key, entry)
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
