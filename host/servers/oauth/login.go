package oauth

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
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

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// Login says where the user has to log in.
type Login struct {
	// URL is the address to open in the user's browser.
	URL string
	// Issuer is the authorization server. Former is the issuer of the stored tokens if different
	// from Issuer; otherwise "".
	Issuer, Former string
	// Scopes are the requested scopes. The server may have named the scopes.
	Scopes []string
	// Elsewhere means: URL is at another host than Issuer, which was not configured. An
	// authorization server of an attacker can name the login page of an honest authorization
	// server, to get a code for the honest server (RFC 9207, 1), and not all honest servers send
	// the parameter that reveals the attack.
	Elsewhere bool
}

// Authorize gets tokens for a server by the authorization code flow with PKCE and writes the tokens
// to conf.TokenFile, for running upstreams. Authorize calls open with the address for the user's
// consent, and waits until the user's browser is redirected to a listener on 127.0.0.1, or ctx
// ends. Errors contain no code and no token.
func Authorize(ctx context.Context, server httpclient.Config, conf Config, open func(Login) error) error {
	if err := authorize(ctx, server, conf, open); err != nil {
		return fmt.Errorf("upstream %q: not authorized: %w", server.Name, err)
	}
	return nil
}

func authorize(ctx context.Context, config httpclient.Config, conf Config, open func(Login) error) error {
	if conf.TokenFile == "" {
		return errors.New("no token file is set")
	}
	server, err := httpclient.New(config)
	if err != nil {
		return err
	}
	defer server.Close()
	t, err := New(server, conf)
	if err != nil {
		return err
	}
	defer t.Close()
	b, err := newCallback(conf.RedirectPort)
	if err != nil {
		return err
	}
	defer b.close()

	f, err := t.begin(ctx, b.redirect())
	if err != nil {
		return err
	}
	b.expect(f.state)
	login, err := f.login()
	if err != nil {
		return err
	}
	if err := open(login); err != nil {
		return fmt.Errorf("the browser could not be opened: %w", err)
	}
	back, err := b.wait(ctx)
	if err != nil {
		return err
	}
	return f.redeem(ctx, back)
}

// flow is an authorization with the authorization server and the client. A flow has a separate
// verifier and state, and the issuer described by server, from before the browser is opened to the
// end.
type flow struct {
	*Tokens
	server *serverMetadata
	client client
	// scopes is the basis of later logins. requested are the scopes of this request, which may also
	// have offlineAccess.
	scopes, requested []string
	redirect          string
	verifier, state   string
}

// begin finds the authorization server, and our client at the authorization server.
func (t *Tokens) begin(ctx context.Context, redirect string) (*flow, error) {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return nil, err
	}
	before, err := t.file.entry(t.key)
	if err != nil {
		return nil, err
	}
	f := &flow{Tokens: t, redirect: redirect}
	if f.server, err = t.discover(ctx, challenge, before.Issuer); err != nil {
		return nil, withoutSecrets(err)
	}
	if err := f.selectScopes(challenge, before); err != nil {
		return nil, err
	}
	if err := f.identify(ctx, before); err != nil {
		return nil, err
	}
	var err1, err2 error
	f.verifier, err1 = transport.GenerateCodeVerifier()
	f.state, err2 = transport.GenerateState()
	return f, errors.Join(err1, err2)
}

// login returns the address where the user consents.
func (f *flow) login() (Login, error) {
	u, err := url.Parse(f.server.AuthorizationEndpoint)
	if err != nil {
		return Login{}, withoutSecrets(err)
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": f.client.ID, "redirect_uri": f.redirect, "state": f.state,
		"code_challenge": transport.GenerateCodeChallenge(f.verifier), "code_challenge_method": "S256",
		"scope": strings.Join(f.requested, " "), "resource": f.server.resource,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	login := Login{URL: u.String(), Issuer: f.server.Issuer, Scopes: f.requested}
	issuer, err := url.Parse(f.server.Issuer)
	login.Elsewhere = f.conf.Issuer == "" && (err != nil || !strings.EqualFold(issuer.Host, u.Host))
	before, err := f.file.entry(f.key)
	if before.Issuer != "" && !sameIssuer(before.Issuer, login.Issuer) {
		login.Former = before.Issuer
	}
	return login, err
}

// code returns the authorization code in the callback. First code checks that the callback is from
// the authorization server (RFC 9207, 2.4), because otherwise not even the error may be shown.
func (f *flow) code(back url.Values) (string, error) {
	issuer := f.server.Issuer
	switch iss, has := back["iss"]; {
	case has && (len(iss) != 1 || iss[0] != issuer):
		return "", fmt.Errorf("the redirect of the browser is from the issuer %q, not %q", shown(strings.Join(iss, " ")), shown(issuer))
	case !has && f.server.SendsIssuer:
		return "", fmt.Errorf("the redirect of the browser lacks the issuer, which %q always sends", shown(issuer))
	case len(back["code"]) > 1 || len(back["error"]) > 1: // RFC 6749, 3.1
		return "", errors.New("the redirect of the browser has a parameter twice")
	}
	if code := back.Get("error"); code != "" {
		refusal := shown(transport.OAuthError{ErrorCode: code, ErrorDescription: back.Get("error_description")}.Error())
		if code == "invalid_scope" {
			return "", fmt.Errorf("the authorization server refused: %s (the login asked for the scopes %q; set scopes in oauth to ask for others)",
				refusal, shown(strings.Join(f.requested, " ")))
		}
		return "", fmt.Errorf("the authorization server refused: %s", refusal)
	}
	code := back.Get("code")
	if code == "" {
		return "", errors.New("the redirect of the browser has no code")
	}
	return code, nil
}

// redeem exchanges the code in the callback for tokens, and stores them.
func (f *flow) redeem(ctx context.Context, back url.Values) error {
	code, err := f.code(back)
	if err != nil {
		return err
	}
	unlock, err := f.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entry := credentials{Issuer: f.server.Issuer, TokenEndpoint: f.server.TokenEndpoint, Resource: f.server.resource, Scopes: f.scopes}
	if f.conf.ClientID != "" {
		entry.ClientID, entry.AuthMethod = f.client.ID, f.client.AuthMethod
	} else {
		entry.Client = &f.client
	}
	entry.Token, err = f.exchange(ctx, entry, f.client, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {f.redirect}, "code_verifier": {f.verifier},
	})
	if err != nil {
		return withoutSecrets(err, code, f.verifier, f.client.Secret)
	}
	return f.file.put(f.key, entry)
}

// callback listens on the loopback interface for the user's browser
// (RFC 8252, 7.3).
type callback struct {
	listener net.Listener
	server   *http.Server
	back     chan url.Values // receives the query of the callback, once
	served   chan struct{}   // closed when the server has ended

	mu    sync.Mutex
	state string // the state of the expected callback; "": no callback is accepted
}

func newCallback(port int) (*callback, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the redirect of the browser (choose another redirect_port): %w", err)
	}
	b := &callback{
		listener: l,
		back:     make(chan url.Values, 1),
		served:   make(chan struct{}),
	}
	b.server = &http.Server{Handler: b, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() {
		defer close(b.served)
		_ = b.server.Serve(l) // until close
	}()
	return b, nil
}

// redirect returns the redirect URI.
func (b *callback) redirect() string {
	return "http://" + b.listener.Addr().String() + callbackPath
}

// expect sets the state of the expected callback.
func (b *callback) expect(state string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = state
}

// wait returns the query of the callback.
func (b *callback) wait(ctx context.Context) (url.Values, error) {
	select {
	case back := <-b.back:
		return back, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the browser was not redirected back: %w", context.Cause(ctx))
	}
}

// close stops the server after an answer in progress has been sent.
func (b *callback) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b.server.Shutdown(ctx) != nil {
		b.server.Close()
	}
	<-b.served
}

// ServeHTTP accepts the first request with the right state. Other requests have no
// effect, because any web page can make a browser send requests here. No answer redirects,
// or repeats a part of the request.
func (b *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Connection", "close")
	// A page with a name that was made to resolve to this machine sends the page's name as the
	// host.
	if r.URL.Path != callbackPath || r.Method != http.MethodGet || r.Host != b.listener.Addr().String() {
		http.NotFound(w, r)
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(q["state"]) != 1 || !b.take(q.Get("state")) {
		http.Error(w, "mcp-metatool is waiting for another authorization.", http.StatusBadRequest)
		return
	}
	b.back <- q
	fmt.Fprintln(w, "mcp-metatool has received the answer. You can close this window. The terminal shows the result.")
}

// take reports whether state is the expected state, and returns true only once.
func (b *callback) take(state string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == "" || subtle.ConstantTimeCompare([]byte(state), []byte(b.state)) == 0 {
		return false
	}
	b.state = ""
	return true
}

// clientName is the name under which we register at authorization servers.
const clientName = "mcp-metatool"

// callbackPath is the path of redirect URIs.
const callbackPath = "/callback"

// clientMetadata describes us to an authorization server (RFC 7591, 2).
type clientMetadata struct {
	ID            string   `json:"client_id,omitempty"`
	Name          string   `json:"client_name"`
	Redirects     []string `json:"redirect_uris"`
	AuthMethod    string   `json:"token_endpoint_auth_method"`
	GrantTypes    []string `json:"grant_types"`
	ResponseTypes []string `json:"response_types"`
	// ApplicationType tells OpenID providers to accept a redirect to this machine. The provider's
	// default is "web", which excludes this machine (OpenID Connect Dynamic Client Registration
	// 1.0, 2).
	ApplicationType string `json:"application_type"`
	Scope           string `json:"scope,omitempty"`
	Resource        string `json:"resource,omitempty"`
}

func newClientMetadata(redirects ...string) clientMetadata {
	return clientMetadata{
		Name: clientName, Redirects: redirects, AuthMethod: authNone, ApplicationType: "native",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
}

// ClientMetadata returns the document for address, if address is the Config.ClientMetadata of
// upstreams with these redirect ports. Authorization servers read the document at address
// (draft-ietf-oauth-client-id-metadata-document-00, 4).
func ClientMetadata(address string, redirectPorts []int) ([]byte, error) {
	var redirects []string
	for _, port := range redirectPorts {
		host := "127.0.0.1"
		if port != 0 { // without a port, servers should accept any port (RFC 8252, 7.3)
			host = net.JoinHostPort(host, strconv.Itoa(port))
		}
		redirects = append(redirects, "http://"+host+callbackPath)
	}
	m := newClientMetadata(redirects...)
	m.ID = address
	return json.MarshalIndent(m, "", "  ")
}

// errNoClient means that only the operator can make us a client of an authorization server.
type errNoClient struct {
	issuer, redirect string
	fixedPort        bool // redirect has a configured port
	readsMetadata    bool // client_metadata would help
}

func (e *errNoClient) Error() string {
	advice := "register one there yourself, with the redirect URI " + e.redirect + ", and set client_id in oauth"
	if !e.fixedPort {
		advice += " and redirect_port to that port"
	}
	if e.readsMetadata {
		advice += "; or set client_metadata"
	}
	return fmt.Sprintf("the authorization server %s does not register clients (%s)", shown(e.issuer), advice)
}

// identify determines our client for the login, in the order of revision 2026-07-28
// (basic/authorization/client-registration): the configured client, a document about us that the
// authorization server reads, a client that the authorization server registers for us.
func (f *flow) identify(ctx context.Context, before credentials) error {
	m := f.server
	switch {
	case f.conf.ClientID != "":
		if err := f.checkClient(before); err != nil {
			return err
		}
		f.client = client{ID: f.conf.ClientID, Secret: f.conf.ClientSecret}
		f.client.AuthMethod = authMethod(f.client, m.TokenEndpointAuthMethodsSupported)
	case f.conf.ClientMetadata != "" && m.ReadsClientMetadata:
		f.client = client{ID: f.conf.ClientMetadata, AuthMethod: authNone}
	case m.RegistrationEndpoint == "":
		return &errNoClient{m.Issuer, f.redirect, f.conf.RedirectPort != 0, m.ReadsClientMetadata}
	default:
		var err error
		if f.client, err = f.register(ctx, m, f.redirect, f.requested); err != nil {
			return fmt.Errorf("registering as a client failed (set client_id if you have one): %w", withoutSecrets(err))
		}
	}
	return nil
}

// checkClient returns an error if the configured client belongs to another issuer than the issuer
// that the server names now. A client with a secret has a configured issuer.
func (f *flow) checkClient(before credentials) error {
	if f.conf.Issuer != "" || before.Issuer == "" || sameIssuer(before.Issuer, f.server.Issuer) {
		return nil
	}
	if before.ClientID == f.conf.ClientID || before.ClientID == "" && before.Client == nil {
		return fmt.Errorf("the server names the authorization server %s, but the client_id belongs to %s (if the change is right, set issuer in oauth, and the client_id that is registered there)",
			shown(f.server.Issuer), shown(before.Issuer))
	}
	return nil
}

// register registers a client for us (RFC 7591).
func (t *Tokens) register(ctx context.Context, m *serverMetadata, redirect string, scopes []string) (client, error) {
	metadata := newClientMetadata(redirect)
	metadata.Scope, metadata.Resource = strings.Join(scopes, " "), m.resource
	body, err := json.Marshal(metadata)
	if err != nil {
		return client{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.RegistrationEndpoint, bytes.NewReader(body))
	if err != nil {
		return client{}, err
	}
	req.Header.Set("Content-Type", httpclient.ContentJSON)
	req.Header.Set("Accept", httpclient.ContentJSON)
	var got struct {
		ID         string `json:"client_id"`
		Secret     string `json:"client_secret"`
		AuthMethod string `json:"token_endpoint_auth_method"`
	}
	if err := t.answer(req, &got); err != nil {
		return client{}, err
	}
	if got.ID == "" {
		return client{}, errors.New("the authorization server gave us no client_id")
	}
	client := client(got)
	client.AuthMethod = authMethod(client, m.TokenEndpointAuthMethodsSupported)
	return client, nil
}

// maxScopes limits the scopes of a login, in bytes including spaces: servers choose the scopes, and
// the scopes are stored and sent in an address.
const maxScopes = 4 << 10

// offlineAccess is the scope for refresh tokens (OpenID Connect Core 1.0, 11).
const offlineAccess = "offline_access"

// union returns the distinct scopes of all sets, in order.
func union(sets ...[]string) []string {
	var all []string
	for _, set := range sets {
		for _, scope := range set {
			if !slices.Contains(all, scope) {
				all = append(all, scope)
			}
		}
	}
	return all
}

// without returns the scopes missing in excluded.
func without(scopes, excluded []string) []string {
	return slices.DeleteFunc(slices.Clone(scopes), func(s string) bool { return slices.Contains(excluded, s) })
}

// checkScopes returns an error for too many scopes.
func checkScopes(scopes []string) error {
	if len(strings.Join(scopes, " ")) > maxScopes {
		return fmt.Errorf("the server requires scopes of more than %d characters (set scopes in oauth)", maxScopes)
	}
	return nil
}

// selectScopes decides which scopes to ask for: the configured scopes; else the scopes of the
// server's challenge, or of the server's metadata if the challenge names none, together with the
// scopes of the previous login at the same issuer, and the scopes that the server has required
// since (revision 2026-07-28, basic/authorization, Scope Selection Strategy and Step-Up
// Authorization Flow).
func (f *flow) selectScopes(challenge *http.Response, before credentials) error {
	if f.conf.Scopes != nil {
		f.scopes, f.requested = f.conf.Scopes, f.conf.Scopes
		return nil
	}
	var named []string
	if challenge != nil {
		named = strings.Fields(httpclient.ChallengeParam(challenge.Header, "scope"))
	}
	if len(named) == 0 {
		named = f.server.resourceScopes
	}
	if before.Issuer != "" && sameIssuer(before.Issuer, f.server.Issuer) {
		f.scopes = union(before.requested(), named, before.Wanted)
	} else {
		f.scopes = union(named)
	}
	f.requested = f.scopes
	// Without any scope, the authorization server chooses; then we do not interfere.
	if len(f.scopes) > 0 && slices.Contains(f.server.ScopesSupported, offlineAccess) {
		f.requested = union(f.scopes, []string{offlineAccess})
	}
	return checkScopes(f.scopes)
}

// requested returns the scopes that the token was requested with, or the granted scopes if only the
// granted scopes are known (files of earlier versions).
func (c credentials) requested() []string {
	if c.Scopes != nil || c.Token == nil {
		return c.Scopes
	}
	return without(strings.Fields(c.Token.Scope), []string{offlineAccess})
}

// StepUp is called when the server has refused the token in the header value used because of the
// token's scopes, and requires the given scopes. StepUp returns nil if another token is available
// now, because a user has logged in again or the token was renewed. Otherwise StepUp stores the
// scopes for the next login. Errors as for Header.
func (t *Tokens) StepUp(ctx context.Context, used string, scopes []string) error {
	unlock, err := t.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entry, err := t.file.entry(t.key)
	if err != nil {
		return err
	}
	if t.adopt(entry, used) {
		return nil
	}
	list := shown(strings.Join(scopes, " "))
	missing := without(scopes, entry.requested())
	switch {
	case len(scopes) == 0:
		return t.final("the token lacks a scope, and the server does not say which (set scopes in oauth, and log in again)")
	case t.conf.Scopes != nil && len(without(scopes, t.conf.Scopes)) > 0:
		return t.refused(fmt.Sprintf("the token lacks the scope %q, which can be added to the scopes of oauth", list), nil)
	case len(missing) == 0:
		return t.final(fmt.Sprintf("the server requires the scope %q, which the last login asked for (perhaps the authorization server does not grant it to you)", list))
	}
	if wanted := union(entry.Wanted, missing); len(wanted) > len(entry.Wanted) {
		if err := checkScopes(union(entry.requested(), wanted)); err != nil {
			return t.final(err.Error())
		}
		entry.Wanted = wanted
		if err := t.file.put(t.key, entry); err != nil {
			return err
		}
	}
	return t.refused(fmt.Sprintf("the token lacks the scope %q, which the next login asks for", list), nil)
}

// adopt makes the token of entry the current token, unless the header value used has the same
// token.
func (t *Tokens) adopt(entry credentials, used string) bool {
	if t.conf.Issuer != "" && !sameIssuer(entry.Issuer, t.conf.Issuer) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.usable(entry.Token) || authorization(entry.Token) == used {
		return false
	}
	t.token = entry.Token
	return true
}

// final is like refused, for a reason that another login would not remove.
func (t *Tokens) final(reason string) error {
	return &httpclient.AuthError{Upstream: t.name, Reason: reason, OAuth: true, Final: true}
}
