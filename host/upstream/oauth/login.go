package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/upstream/httpclient"
)

// clientName is the name under which we register at authorization servers.
const clientName = "mcp-metatool"

// Login says where the user has to log in.
type Login struct {
	// URL is the address to open in the user's browser.
	URL string
	// Issuer is the authorization server. Former is the one that issued the stored
	// tokens, if it is a different one; otherwise "".
	Issuer, Former string
}

// Authorize gets tokens for a server by the authorization code flow with PKCE and writes
// them to conf.TokenFile, where running upstreams find them. It calls open with the
// address where the user consents, and waits until the user's browser is redirected to a
// listener on 127.0.0.1, or ctx ends. Errors contain no code and no token.
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

// flow is one authorization: its authorization server and its client.
type flow struct {
	*Tokens
	server          *serverMetadata
	client          client
	scopes          []string
	redirect        string
	verifier, state string
}

// begin finds the authorization server and registers a client there if none is
// configured.
func (t *Tokens) begin(ctx context.Context, redirect string) (*flow, error) {
	challenge, err := t.challenge(ctx)
	if err != nil {
		return nil, err
	}
	f := &flow{Tokens: t, redirect: redirect, scopes: t.conf.Scopes}
	if f.scopes == nil && challenge != nil {
		f.scopes = strings.Fields(httpclient.ChallengeParam(challenge.Header, "scope"))
	}
	if f.server, err = t.discover(ctx, challenge); err != nil {
		return nil, withoutSecrets(err)
	}
	f.client = client{ID: t.conf.ClientID, Secret: t.conf.ClientSecret}
	f.client.AuthMethod = authMethod(f.client, f.server.TokenEndpointAuthMethodsSupported)
	if t.conf.ClientID == "" {
		if f.client, err = t.register(ctx, f.server, redirect, f.scopes); err != nil {
			return nil, fmt.Errorf("registering as a client failed (set client_id if you have one): %w", withoutSecrets(err))
		}
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

// redeem exchanges the code in the callback for tokens, and stores them.
func (f *flow) redeem(ctx context.Context, back url.Values) error {
	issuer := f.server.Issuer
	switch iss, has := back["iss"]; { // RFC 9207, 2.4, for refusals too
	case has && (len(iss) != 1 || iss[0] != issuer):
		return fmt.Errorf("the redirect of the browser is from the issuer %q, not %q", shown(strings.Join(iss, " ")), shown(issuer))
	case !has && f.server.SendsIssuer:
		return fmt.Errorf("the redirect of the browser lacks the issuer, which %q always sends", shown(issuer))
	}
	if code := back.Get("error"); code != "" {
		return fmt.Errorf("the authorization server refused: %s", shown(transport.OAuthError{
			ErrorCode: code, ErrorDescription: back.Get("error_description")}.Error()))
	}
	code := back.Get("code")
	if code == "" {
		return errors.New("the redirect of the browser has no code")
	}
	unlock, err := f.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	entry := credentials{Issuer: issuer, TokenEndpoint: f.server.TokenEndpoint, Resource: f.server.resource}
	if f.conf.ClientID != "" {
		entry.AuthMethod = f.client.AuthMethod
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
