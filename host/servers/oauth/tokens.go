// Package oauth gets and renews the access tokens of an MCP server (OAuth 2.1; revision 2026-07-28,
// basic/authorization). Begin with Tokens, which provides the HTTP client of a server with a token
// for each request, and with a new token when the server refuses the last token. Authorize is the
// login flow of the user.
//
// Tokens, codes and secrets of an authorization server are sent only to the authorization server's
// token endpoint; an access token is also sent to the MCP server. A server cannot make us send
// requests to addresses more private than the server's own.
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

const (
	// requestTimeout limits a request to an authorization server.
	requestTimeout = 30 * time.Second
	// renewTimeout limits a renewal, including discovery.
	renewTimeout = time.Minute
	// maxMargin is the longest time before the expiry at which a token is renewed.
	maxMargin = 30 * time.Second
)

// Config is the configuration for getting access tokens for a server. Unset fields are discovered.
type Config struct {
	// Issuer is the issuer of the tokens: an https URL (RFC 8414, 2), or an http URL if both the
	// server and the issuer are on this machine. "": the issuer that the server names at login.
	// Issuer is required with a ClientSecret.
	Issuer string
	// ClientID and ClientSecret identify an already registered client. Both are "" to register a
	// client (RFC 7591). A public client has no secret. The secret is sent only to the issuer's
	// token endpoint.
	ClientID, ClientSecret string
	// ClientMetadata is an https URL with the document returned by the function ClientMetadata for
	// the URL. Without a ClientID, ClientMetadata is our client id at authorization servers that
	// read the documents of clients.
	ClientMetadata string
	// AssumePKCE assumes PKCE at an authorization server that does not declare whether PKCE is
	// supported.
	AssumePKCE bool
	// Scopes are the scopes to ask for; nil: the scopes in the server's challenges, else in the
	// server's metadata.
	Scopes []string
	// RedirectPort is the port on 127.0.0.1 that the browser is redirected to, at the path
	// /callback; 0: any.
	RedirectPort int
	// TokenFile holds the tokens of any number of upstreams, by name and URL. TokenFile is created
	// with mode 0600, like the adjacent lock file.
	TokenFile string

	network *network // nil: the system's
}

// Tokens provides the access tokens of a server. It is an httpclient.Authorizer, and safe for
// concurrent use.
type Tokens struct {
	name string // of the upstream
	conf Config
	file tokenFile
	key  string // of the upstream's entry in file
	// server makes the request without a token that the server answers with a challenge. The
	// request has the configured headers.
	server *httpclient.Client
	// resource sends requests to the server itself, and issuer to
	// authorization servers.
	resource, issuer *http.Client
	guard            *guard

	ctx context.Context // of renewals, which may outlive the caller that started them
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	token    *transport.Token // last seen; nil for none
	rejected string           // an access token refused by the server
	renewal  *renewal         // in progress; nil for none
}

var _ httpclient.Authorizer = (*Tokens)(nil)

// renewal is shared by all callers in need of a new token, because a refresh token may be valid
// only once.
type renewal struct {
	done  chan struct{}
	token *transport.Token // set before done is closed, or err is
	err   error
}

// New returns the tokens of server. New watches the connections to the server to learn how public
// the server's address is. The caller passes the Tokens to server.SetAuthorizer, so that
// server.Close closes them, or closes them directly.
func New(server *httpclient.Client, conf Config) (*Tokens, error) {
	if conf.ClientSecret != "" && conf.Issuer == "" {
		return nil, errors.New("oauth has a client_secret, but no issuer that it may be sent to (set issuer)")
	}
	g := newGuard(server.URL(), conf)
	g.watch(server.Transport())
	t := &Tokens{
		name:     server.Config().Name,
		conf:     conf,
		file:     tokenFile{conf.TokenFile},
		key:      entryKey(server.Config().Name, server.Config().URL),
		server:   server,
		resource: &http.Client{Timeout: requestTimeout, Transport: server.Transport(), CheckRedirect: sameOriginOnly},
		issuer:   &http.Client{Timeout: requestTimeout, Transport: g, CheckRedirect: sameOriginOnly},
		guard:    g,
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t, nil
}

// Close ends renewals and waits for them.
func (t *Tokens) Close() {
	t.end()
	t.wg.Wait()
	t.guard.close()
}

// Header returns the value of the header Authorization, and renews a token that is about to expire.
// Errors: *httpclient.AuthError; the cause of ctx; or the reason why the token could not be renewed
// now.
func (t *Tokens) Header(ctx context.Context) (string, error) {
	if h, ok := t.current(); ok {
		return h, nil
	}
	token, err := t.renewed(ctx)
	if err != nil {
		return "", err
	}
	return authorization(token), nil
}

// Renew gets another token after the server has refused the token in the header value used. Errors
// as for Header.
func (t *Tokens) Renew(ctx context.Context, used string) error {
	t.mu.Lock()
	if t.token != nil && authorization(t.token) == used {
		t.rejected = t.token.AccessToken
	}
	t.mu.Unlock()
	_, err := t.Header(ctx)
	return err
}

func (t *Tokens) current() (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.usable(t.token) {
		return "", false
	}
	return authorization(t.token), true
}

// usable reports whether a token can be used. The caller holds t.mu.
func (t *Tokens) usable(token *transport.Token) bool {
	return token != nil && token.AccessToken != "" && token.AccessToken != t.rejected && !expiresSoon(token)
}

// expiresSoon reports whether a token is in the last tenth of the token's lifetime, or in the last
// maxMargin if maxMargin is shorter.
func expiresSoon(token *transport.Token) bool {
	if token.ExpiresAt.IsZero() {
		return false
	}
	margin := min(maxMargin, time.Duration(token.ExpiresIn)*time.Second/10)
	return !time.Now().Before(token.ExpiresAt.Add(-margin))
}

func authorization(token *transport.Token) string {
	if token.TokenType == "" || strings.EqualFold(token.TokenType, "bearer") {
		return "Bearer " + token.AccessToken
	}
	return token.TokenType + " " + token.AccessToken
}

// renewed waits for a renewal, and starts a renewal if none is in progress. The token is used even
// if the server has refused the token to another caller in the meantime.
func (t *Tokens) renewed(ctx context.Context) (*transport.Token, error) {
	t.mu.Lock()
	r := t.renewal
	if r == nil {
		r = &renewal{done: make(chan struct{})}
		t.renewal = r
		t.wg.Go(func() { t.run(r) })
	}
	t.mu.Unlock()
	select {
	case <-r.done:
		return r.token, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (t *Tokens) run(r *renewal) {
	ctx, cancel := context.WithTimeout(t.ctx, renewTimeout)
	defer cancel()
	token, err := t.next(ctx)
	t.mu.Lock()
	if err == nil && !t.usable(token) { // perhaps because clocks differ
		err = t.refused("the new token is refused or has already expired", nil)
	}
	if err == nil {
		t.token = token
	}
	t.renewal = nil
	t.mu.Unlock()
	r.token, r.err = token, err
	close(r.done)
}

// next returns the token in the file if usable, else a new token. next holds the lock of the file,
// because other processes use the same refresh token.
func (t *Tokens) next(ctx context.Context) (*transport.Token, error) {
	unlock, err := t.file.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	entry, err := t.file.entry(t.key)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	usable := t.usable(entry.Token)
	t.mu.Unlock()
	switch {
	case entry.Token == nil:
		return nil, t.refused("no token is stored yet", nil)
	case t.conf.Issuer != "" && !sameIssuer(entry.Issuer, t.conf.Issuer):
		return nil, t.refused(fmt.Sprintf("its tokens are from %s, but the configured issuer is %s", orUnknown(entry.Issuer), shown(t.conf.Issuer)), nil)
	case usable:
		return entry.Token, nil
	case entry.Token.RefreshToken == "":
		return nil, t.refused("the token has expired or is refused, and there is no refresh token", nil)
	case entry.Issuer == "" || entry.TokenEndpoint == "": // written by an earlier version
		return nil, t.refused("the token has expired or is refused, and the authorization server that can renew it is unknown", nil)
	}
	if err := t.checkIssuer(ctx, entry); err != nil {
		return nil, err
	}
	return t.refresh(ctx, entry)
}

func orUnknown(issuer string) string {
	if issuer == "" {
		return "an unknown authorization server"
	}
	return shown(issuer)
}

// checkIssuer returns an error if the server no longer names the issuer of the tokens. The server
// would not accept renewed tokens, or is trying to steal the tokens.
func (t *Tokens) checkIssuer(ctx context.Context, entry credentials) error {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return err
	}
	named, err := t.protectedResource(ctx, challenge)
	if err != nil {
		return withoutSecrets(err)
	}
	if named == nil {
		return nil
	}
	if err := (&issuerError{named.AuthorizationServers, entry.Issuer, "its tokens are from"}).check(); err != nil {
		return t.refused(err.Error()+" and are sent to no other; if the change is right, log in again", err)
	}
	return nil
}

// refresh gets another token from the endpoint that issued the last token (RFC 6749, 6), and stores
// the new token. The caller holds the lock of the file.
func (t *Tokens) refresh(ctx context.Context, entry credentials) (*transport.Token, error) {
	client, old := t.client(entry), entry.Token
	token, err := t.exchange(ctx, entry, client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.RefreshToken}})
	if err == nil {
		if token.RefreshToken == "" {
			token.RefreshToken = old.RefreshToken
		}
		entry.Token = token
		return token, t.file.put(t.key, entry)
	}
	gone := endpointGone(err)
	var answer transport.OAuthError
	err = withoutSecrets(err, client.Secret, old.RefreshToken, old.AccessToken)
	if gone || errors.As(err, &answer) {
		return nil, t.refused("the token could not be renewed: "+err.Error(), err)
	}
	return nil, err
}

// client returns the configured client, or the client registered for us at the issuer of the entry.
func (t *Tokens) client(entry credentials) client {
	if t.conf.ClientID != "" || entry.Client == nil {
		return client{ID: t.conf.ClientID, Secret: t.conf.ClientSecret, AuthMethod: entry.AuthMethod}
	}
	return *entry.Client
}

// refused returns the error of requests that cannot be authorized.
func (t *Tokens) refused(reason string, err error) error {
	return &httpclient.AuthError{Upstream: t.name, Reason: reason, OAuth: true, Err: err}
}

// challenge sends the server a request without a token. The server's refusal has the address of the
// server's metadata (RFC 9728, 5.1) and the required scopes. The body of the response has been
// closed. The response is nil if the server does not refuse.
func (t *Tokens) challenge(ctx context.Context) (*http.Response, error) {
	ping := t.server.NewRequest(ctx, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
	list, err := t.statelessList(ctx)
	if err != nil {
		return nil, err
	}
	// Servers of either era may refuse a malformed request before a request without a token, or let
	// every client ping them.
	for _, req := range []*http.Request{ping, list} {
		resp, err := t.resource.Do(req)
		if err != nil {
			return nil, withoutSecrets(err)
		}
		httpclient.Discard(resp.Body)
		if resp.StatusCode == http.StatusUnauthorized {
			return resp, nil
		}
	}
	return nil, nil
}

// statelessList returns a request for the tools in the form of the stateless era.
func (t *Tokens) statelessList(ctx context.Context) (*http.Request, error) {
	const method = protocol.MethodToolsList
	newest := protocol.Stateless.Newest()
	params, err := envelope.Of(newest, nil, "").Put([]byte("{}"))
	if err != nil {
		return nil, err
	}
	req := t.server.NewRequest(ctx, wire.Request(1, method, params))
	req.Header = req.Header.Clone() // the header is shared with other requests
	envelope.SetHeaders(req.Header, newest, method, params)
	return req, nil
}

// How a client authenticates at the token endpoint (RFC 6749, 2.3.1; RFC 7591,
// 2).
const (
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
	authNone  = "none"
)

// authMethod returns how a client authenticates with a secret: as registered, else in the body,
// unless the server supports only the header.
func authMethod(client client, supported []string) string {
	switch {
	case client.Secret == "":
		return authNone
	case client.AuthMethod == authBasic || client.AuthMethod == authPost || client.AuthMethod == authNone:
		return client.AuthMethod
	case slices.Contains(supported, authBasic) && !slices.Contains(supported, authPost):
		return authBasic
	}
	return authPost
}

// exchange requests tokens from the token endpoint of e. Only exchange sends secrets, codes and
// refresh tokens. The errors may contain them.
func (t *Tokens) exchange(ctx context.Context, e credentials, client client, form url.Values) (*transport.Token, error) {
	if e.Resource != "" {
		form.Set("resource", e.Resource) // RFC 8707
	}
	if client.AuthMethod != authBasic {
		form.Set("client_id", client.ID)
	}
	if client.AuthMethod == authPost {
		form.Set("client_secret", client.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.TokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", httpclient.ContentJSON)
	if client.AuthMethod == authBasic { // both are encoded first: RFC 6749, 2.3.1
		req.SetBasicAuth(url.QueryEscape(client.ID), url.QueryEscape(client.Secret))
	}
	token := &transport.Token{}
	if err := t.answer(req, token); err != nil {
		return nil, err
	}
	if err := checkToken(token); err != nil {
		return nil, fmt.Errorf("%s answered %w", shown(e.TokenEndpoint), err)
	}
	if token.ExpiresIn > 0 {
		token.ExpiresAt = time.Now().Add(time.Duration(min(token.ExpiresIn, maxLifetime)) * time.Second)
	}
	return token, nil
}

// checkToken returns an error for an unusable token: an unknown type must not be used (RFC 6749,
// 7.1), and the token must fit into a header field (RFC 6749, A.12).
func checkToken(token *transport.Token) error {
	switch {
	case token.AccessToken == "":
		return errors.New("without an access token")
	case token.TokenType != "" && !strings.EqualFold(token.TokenType, "bearer"):
		return fmt.Errorf("with a token of type %q, but only Bearer is supported", shown(token.TokenType))
	case strings.ContainsFunc(token.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("with an access token that has characters other than visible ASCII")
	}
	return nil
}

// maxLifetime limits a token's lifetime, in seconds, so that the time of expiry can be represented.
const maxLifetime = 100 * 365 * 24 * 3600

// answer sends a request to an authorization server and decodes the answer into v. Errors:
// transport.OAuthError for an OAuth error, which some servers send with status 200;
// *httpclient.StatusError for other statuses than success.
func (t *Tokens) answer(req *http.Request, v any) error {
	resp, err := t.issuer.Do(req)
	if err != nil {
		return err
	}
	body, err := readAnswer(resp)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(req.URL.String()), err)
	}
	var refusal transport.OAuthError
	if json.Unmarshal(body, &refusal) == nil && refusal.ErrorCode != "" {
		return refusal
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s answered %w", shown(req.URL.String()), &httpclient.StatusError{Status: resp.StatusCode, Body: shown(string(body))})
	}
	if json.Unmarshal(body, v) != nil {
		return fmt.Errorf("%s: the answer is not the expected JSON", shown(req.URL.String()))
	}
	return nil
}

// endpointGone reports whether err means that the token endpoint no longer exists.
func endpointGone(err error) bool {
	var status *httpclient.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return true
	}
	return httpclient.IsRedirect(status.Status)
}

const (
	// maxError limits the text of an error, and maxShown each text of a server in the error, in
	// characters.
	maxError = 800
	maxShown = 200
)

// errTooLong means that an answer is larger than maxDocument.
var errTooLong = errors.New("the answer is too long")

// shown returns text of a server in a form for errors.
func shown(text string) string { return display.Line(text, maxShown) }

// withoutSecrets returns the error err of an authorization server without secrets and
// with a text of bounded length. A transport.OAuthError stays in the chain, and so does
// an error of the context.
func withoutSecrets(err error, secrets ...string) error {
	var answer transport.OAuthError
	if errors.As(err, &answer) {
		return &hiddenError{text: redact(answer.Error(), secrets), err: transport.OAuthError{ErrorCode: redact(answer.ErrorCode, secrets)}}
	}
	text := redact(err.Error(), secrets)
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return &hiddenError{text: text, err: known}
		}
	}
	return &hiddenError{text: text}
}

// hiddenError is an error with a text that is safe to show.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

// redact replaces secrets in text, and makes the text safe to show.
func redact(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "****")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "****")
		}
	}
	return display.Line(text, maxError)
}
