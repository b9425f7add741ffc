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
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

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

// endpointGone reports whether err means: the token endpoint no longer exists.
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
