package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
)

const (
	// oauthTimeout bounds one request to an authorization server.
	oauthTimeout = 30 * time.Second
	// renewTimeout bounds a renewal, discovery included.
	renewTimeout = time.Minute
	// maxMargin is the most that a token is renewed ahead of its end.
	maxMargin = 30 * time.Second
	// maxOAuthErr bounds, in bytes, the text of an error that has been hidden.
	maxOAuthErr = 800
)

// OAuth says how to get access tokens for an upstream (revision 2025-11-25,
// basic/authorization). What is not set is found out from the server. The
// tokens are those that Authorize has got, and are renewed as needed.
type OAuth struct {
	// Issuer of the tokens, an https URL (RFC 8414, 2); http on this machine is
	// for a server on this machine. "": the one that the server names when
	// Authorize is called. Where there is a ClientSecret, it must be set.
	Issuer string
	// ClientID and ClientSecret of a client that is registered already; both ""
	// to register one (RFC 7591). A public client has no secret. The secret
	// goes to the issuer's token endpoint only.
	ClientID, ClientSecret string
	// Scopes to ask for; nil: those that the server names when it refuses.
	Scopes []string
	// RedirectPort is the port on 127.0.0.1 that the browser comes back to, at
	// the path /callback; 0: any.
	RedirectPort int
	// TokenFile is where the tokens are, for any number of upstreams, by name
	// and URL. It is made with mode 0600, and so is a lock file beside it.
	TokenFile string

	network *network // nil: the system's
}

// tokens has the access token of one upstream. It is safe for concurrent use.
type tokens struct {
	name string
	conf OAuth
	file tokenFile
	key  string
	// peer is asked without a token where to get one. Its fixed headers go with
	// that.
	peer *httpPeer
	// http asks the server itself, and asked authorization servers.
	http, asked *http.Client
	guard       *guard

	ctx context.Context // of renewals, which outlive whoever started them
	end context.CancelFunc
	wg  sync.WaitGroup

	mu       sync.Mutex
	token    *transport.Token // last seen; nil for none
	rejected string           // an access token that the server does not take
	renewal  *renewal         // under way; nil for none
}

// renewal is shared by all that wait for it: a refresh token may be good once.
type renewal struct {
	done chan struct{}
	err  error
}

func newTokens(spec Spec, peer *httpPeer) *tokens {
	g := newGuard(peer.url.Load(), *spec.OAuth)
	g.watch(peer.rt)
	t := &tokens{
		name:  spec.Name,
		conf:  *spec.OAuth,
		file:  tokenFile{spec.OAuth.TokenFile},
		key:   spec.Name + " " + spec.URL,
		peer:  peer,
		http:  &http.Client{Timeout: oauthTimeout, Transport: peer.rt, CheckRedirect: sameOriginOnly},
		asked: &http.Client{Timeout: oauthTimeout, Transport: g, CheckRedirect: sameOriginOnly},
		guard: g,
	}
	t.ctx, t.end = context.WithCancel(context.Background())
	return t
}

// close ends renewals and waits for them.
func (t *tokens) close() {
	t.end()
	t.wg.Wait()
	t.guard.close()
}

// header is the value of the header Authorization. It renews the token if its
// end is near. Errors: *AuthError; the cause of ctx; or why the token could not
// be renewed just now.
func (t *tokens) header(ctx context.Context) (string, error) {
	if h, ok := t.current(); ok {
		return h, nil
	}
	if err := t.renewed(ctx); err != nil {
		return "", err
	}
	h, ok := t.current()
	if !ok { // rejected or out of date again, by a clock that differs perhaps
		return "", t.refused("its token is refused or has ended as soon as it is new", nil)
	}
	return h, nil
}

// renew gets another token than that of the header used, which the server has
// refused.
func (t *tokens) renew(ctx context.Context, used string) error {
	t.mu.Lock()
	if t.token != nil && authorization(t.token) == used {
		t.rejected = t.token.AccessToken
	}
	t.mu.Unlock()
	_, err := t.header(ctx)
	return err
}

func (t *tokens) current() (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.good(t.token) {
		return "", false
	}
	return authorization(t.token), true
}

// good tells whether a token can be used. The caller holds t.mu.
func (t *tokens) good(token *transport.Token) bool {
	return token != nil && token.AccessToken != "" && token.AccessToken != t.rejected && !endsSoon(token)
}

// endsSoon is true for the last tenth of a token's life, at most maxMargin.
func endsSoon(token *transport.Token) bool {
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

// renewed waits for a renewal, which it starts if none is under way.
func (t *tokens) renewed(ctx context.Context) error {
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
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *tokens) run(r *renewal) {
	ctx, cancel := context.WithTimeout(t.ctx, renewTimeout)
	defer cancel()
	token, err := t.next(ctx)
	t.mu.Lock()
	if err == nil {
		t.token = token
	}
	t.renewal = nil
	t.mu.Unlock()
	r.err = err
	close(r.done)
}

// next is the token in the file if that is good, else a new one. Under the lock
// of the file: other processes have the same refresh token.
func (t *tokens) next(ctx context.Context) (*transport.Token, error) {
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
	good := t.good(entry.Token)
	t.mu.Unlock()
	switch {
	case entry.Token == nil:
		return nil, t.refused("there is no token yet", nil)
	case t.conf.Issuer != "" && !sameIssuer(entry.Issuer, t.conf.Issuer):
		return nil, t.refused(fmt.Sprintf("its tokens are from %s, but the configured issuer is %s", orUnknown(entry.Issuer), clip(t.conf.Issuer)), nil)
	case good:
		return entry.Token, nil
	case entry.Token.RefreshToken == "":
		return nil, t.refused("the token has ended or is refused, and there is none to renew it with", nil)
	case entry.Issuer == "" || entry.TokenEndpoint == "": // written by an earlier version
		return nil, t.refused("the token has ended or is refused, and it is not known which authorization server can renew it", nil)
	}
	if err := t.stillNamed(ctx, entry); err != nil {
		return nil, err
	}
	return t.refresh(ctx, entry)
}

func orUnknown(issuer string) string {
	if issuer == "" {
		return "an unknown authorization server"
	}
	return clip(issuer)
}

// stillNamed refuses to renew tokens where the server names another issuer
// now: it would not take them, or it is up to something.
func (t *tokens) stillNamed(ctx context.Context, entry tokenEntry) error {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return err
	}
	named, err := t.protectedResource(ctx, challenge)
	if err != nil {
		return t.hide(err)
	}
	if named == nil {
		return nil
	}
	if err := (&issuerError{named.AuthorizationServers, entry.Issuer, "its tokens are from"}).check(); err != nil {
		return t.refused(err.Error()+" and go nowhere else; if the change is right, log in again", err)
	}
	return nil
}

// refresh gets another token from where the last one is from (RFC 6749, 6), and
// keeps it. The caller holds the lock of the file.
func (t *tokens) refresh(ctx context.Context, entry tokenEntry) (*transport.Token, error) {
	client, old := t.client(entry), entry.Token
	token, err := t.exchange(ctx, entry, client, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.RefreshToken}})
	if err == nil {
		if token.RefreshToken == "" {
			token.RefreshToken = old.RefreshToken
		}
		entry.Token = token
		return token, t.file.put(t.key, entry)
	}
	gone := moved(err)
	var answer transport.OAuthError
	err = t.hide(err, client.Secret, old.RefreshToken, old.AccessToken)
	if gone || errors.As(err, &answer) {
		return nil, t.refused("the token could not be renewed: "+err.Error(), err)
	}
	return nil, err
}

// client is the configured one, or the one registered for us at the issuer of
// the entry.
func (t *tokens) client(entry tokenEntry) oauthClient {
	if t.conf.ClientID != "" || entry.Client == nil {
		return oauthClient{ID: t.conf.ClientID, Secret: t.conf.ClientSecret, AuthMethod: entry.AuthMethod}
	}
	return *entry.Client
}

func (t *tokens) refused(reason string, err error) error {
	return &AuthError{Upstream: t.name, Reason: reason, OAuth: true, Err: err}
}

// challenge asks the server without a token, so that it says where its metadata
// is (RFC 9728, 5.1) and which scopes it wants. The body of the response is
// closed; it is nil if the server does not refuse.
func (t *tokens) challenge(ctx context.Context) (*http.Response, error) {
	req := t.peer.request(ctx, http.MethodPost, []byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`), "", "")
	resp, err := t.http.Do(req)
	if err != nil {
		return nil, t.hide(err)
	}
	doneWith(resp.Body)
	if resp.StatusCode != http.StatusUnauthorized {
		return nil, nil
	}
	return resp, nil
}

// hide makes an error of what went wrong with an authorization server that has
// no secret in it, and is bounded. It keeps a transport.OAuthError in the chain.
func (t *tokens) hide(err error, secrets ...string) error {
	var answer transport.OAuthError
	if errors.As(err, &answer) {
		return &hiddenError{text: clean(answer.Error(), secrets), err: transport.OAuthError{ErrorCode: clean(answer.ErrorCode, secrets)}}
	}
	text := clean(err.Error(), secrets)
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return &hiddenError{text: text, err: known}
		}
	}
	return &hiddenError{text: text}
}

// hiddenError is an error whose text is safe to show.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }

func clean(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "****")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "****")
		}
	}
	return clipTo(text, maxOAuthErr)
}

// challengeParam is the value of the first parameter with that name in
// WWW-Authenticate headers (RFC 9110, 11.6.1), "" for none.
func challengeParam(headers []string, name string) string {
	for _, h := range headers {
		for h != "" {
			i := strings.IndexAny(h, "=\" ,")
			if i < 0 {
				break
			}
			word := h[:i]
			if h[i] != '=' {
				h = h[i+1:]
				continue
			}
			value, rest := challengeValue(h[i+1:])
			if strings.EqualFold(word, name) {
				return value
			}
			h = rest
		}
	}
	return ""
}

// challengeValue takes a token or a quoted string from the front of s.
func challengeValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		if i := strings.IndexAny(s, " ,"); i >= 0 {
			return s[:i], s[i+1:]
		}
		return s, ""
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:]
		case '\\':
			if i++; i == len(s) {
				return "", ""
			}
		}
		b.WriteByte(s[i])
	}
	return "", ""
}
