package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

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
