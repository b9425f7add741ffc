package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// maxDocument limits metadata, and answers of authorization servers, in bytes.
const maxDocument = 256 << 10

// issuerError means that a server names another authorization server than the issuer of the tokens.
// Nothing is sent to the named authorization server.
type issuerError struct {
	named []string // the authorization servers named by the server
	ours  string   // the issuer of the tokens, or the configured issuer
	how   string   // introduces ours in the text of the error
}

func (e *issuerError) Error() string {
	named := e.named[:min(len(e.named), 3)]
	return fmt.Sprintf("the server names the authorization server %s, but %s %s", shown(strings.Join(named, ", ")), e.how, shown(e.ours))
}

// check returns nil if the server names ours, or no authorization server; otherwise check returns
// e.
func (e *issuerError) check() error {
	if len(e.named) == 0 || slices.ContainsFunc(e.named, func(n string) bool { return sameIssuer(n, e.ours) }) {
		return nil
	}
	return e
}

// sameIssuer reports whether two issuer identifiers are identical (RFC 8414, 3.3),
// except for a slash at the end, which many servers add.
func sameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}

// resourceMetadata is the metadata of an MCP server (RFC 9728, 2).
type resourceMetadata struct {
	transport.OAuthProtectedResource
	ScopesSupported []string `json:"scopes_supported"`
}

// serverMetadata is the metadata of an authorization server (RFC 8414, 2).
type serverMetadata struct {
	transport.AuthServerMetadata
	// SendsIssuer means that every callback has the parameter iss (RFC 9207, 3).
	SendsIssuer bool `json:"authorization_response_iss_parameter_supported"`
	// ReadsClientMetadata means that a client id may be the address of a document about the client
	// (draft-ietf-oauth-client-id-metadata-document-00, 5).
	ReadsClientMetadata bool `json:"client_id_metadata_document_supported"`
	// resource is the resource of requested tokens (RFC 8707).
	resource string
	// resourceScopes are the scopes named in the MCP server's metadata.
	resourceScopes []string
}

// discover finds the authorization server: the configured server, else former if the MCP server
// still names former, else the first authorization server that the MCP server names, else the MCP
// server's own origin (revision 2025-03-26).
func (t *Tokens) discover(ctx context.Context, challenge *http.Response, former string) (*serverMetadata, error) {
	named, err := t.protectedResource(ctx, challenge)
	if err != nil {
		return nil, err
	}
	resource, scopes := t.base().String(), []string(nil)
	if named != nil {
		resource, scopes = named.Resource, named.ScopesSupported
	}
	var m *serverMetadata
	switch {
	case t.conf.Issuer != "":
		if named != nil {
			err = (&issuerError{named.AuthorizationServers, t.conf.Issuer, "the configured issuer is"}).check()
		}
		if err == nil {
			m, err = t.authorizationServer(ctx, t.conf.Issuer)
		}
	case named != nil && len(named.AuthorizationServers) > 0:
		issuer := named.AuthorizationServers[0]
		if i := slices.IndexFunc(named.AuthorizationServers, func(n string) bool { return sameIssuer(n, former) }); i > 0 {
			issuer = named.AuthorizationServers[i]
		}
		m, err = t.authorizationServer(ctx, issuer)
	default:
		m, err = t.ownAuthorizationServer(ctx)
	}
	if err != nil {
		return nil, err
	}
	m.resource, m.resourceScopes = resource, scopes
	if err := t.checkEndpoints(m); err != nil {
		return nil, err
	}
	// Revision 2025-03-26, which knows no metadata of MCP servers, does not require an
	// authorization server to declare support for PKCE.
	return m, t.checkPKCE(m, named != nil)
}

// base returns the server's URL without parts that may be secret.
func (t *Tokens) base() *url.URL {
	u := *t.guard.upstream
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return &u
}

// protectedResource returns the metadata of the MCP server (RFC 9728), or nil. protectedResource
// checks that the metadata is about the server.
func (t *Tokens) protectedResource(ctx context.Context, challenge *http.Response) (*resourceMetadata, error) {
	base := t.base()
	if address := advertised(challenge, base); address != "" {
		m := &resourceMetadata{}
		status, err := t.document(ctx, t.resource, address, m)
		switch {
		case err != nil:
			return nil, err
		case status != http.StatusOK:
			return nil, fmt.Errorf("the metadata of the server cannot be read from %s: %w", shown(address), &httpclient.StatusError{Status: status})
		case !coversResource(m.Resource, base):
			return nil, fmt.Errorf("the metadata of the server at %s describes %q, not %s", shown(address), shown(m.Resource), base)
		}
		return m, nil
	}
	for _, address := range wellKnown(base, "oauth-protected-resource") {
		m := &resourceMetadata{}
		status, err := t.document(ctx, t.resource, address, m)
		switch {
		case err != nil:
			return nil, err
		case status == http.StatusOK && !coversResource(m.Resource, base):
			return nil, fmt.Errorf("the metadata of the server at %s describes %q, not %s", shown(address), shown(m.Resource), base)
		case status == http.StatusOK:
			return m, nil
		case status >= http.StatusInternalServerError:
			return nil, fmt.Errorf("the metadata of the server cannot be read from %s: %w", shown(address), &httpclient.StatusError{Status: status})
		}
	}
	return nil, nil
}

// advertised returns the address of metadata in the challenge, or "". A server has the metadata at
// the server's own origin (RFC 9728, 3); other addresses are ignored.
func advertised(challenge *http.Response, base *url.URL) string {
	if challenge == nil {
		return ""
	}
	for _, c := range httpclient.Challenges(challenge.Header) {
		u, err := url.Parse(c.Params["resource_metadata"])
		if err == nil && httpclient.SameOrigin(u, base) && u.User == nil {
			return u.String()
		}
	}
	return ""
}

// sameResource reports whether resource is the identifier of the server at base
// (RFC 9728, 3.3), except for a slash at the end.
func sameResource(resource string, base *url.URL) bool {
	u, err := url.Parse(resource)
	return err == nil && httpclient.SameOrigin(u, base) && u.User == nil && u.RawQuery == "" && u.Fragment == "" &&
		strings.TrimSuffix(u.EscapedPath(), "/") == strings.TrimSuffix(base.EscapedPath(), "/")
}

// coversResource is like sameResource, but also allows base to be below resource,
// because many servers name their origin. The location of the metadata confirms the
// origin.
func coversResource(resource string, base *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || !httpclient.SameOrigin(u, base) || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return sameResource(resource, base) || strings.HasPrefix(base.EscapedPath(), strings.TrimSuffix(u.EscapedPath(), "/")+"/")
}

// wellKnown returns the addresses of a well-known document for base: first with the path of base,
// then for the whole origin (RFC 9728, 3.1).
func wellKnown(base *url.URL, document string) []string {
	root := base.Scheme + "://" + base.Host + "/.well-known/" + document
	path := strings.Trim(base.EscapedPath(), "/")
	if path == "" {
		return []string{root}
	}
	return []string{root + "/" + path, root}
}

// issuerDocuments returns the addresses where the metadata of an issuer can be (RFC 8414, 3.1,
// OpenID Connect Discovery 1.0, 4.1; revision 2025-11-25, basic/authorization).
func issuerDocuments(issuer *url.URL) []string {
	root := issuer.Scheme + "://" + issuer.Host
	path := strings.Trim(issuer.EscapedPath(), "/")
	if path == "" {
		return []string{root + "/.well-known/oauth-authorization-server", root + "/.well-known/openid-configuration"}
	}
	return []string{
		root + "/.well-known/oauth-authorization-server/" + path,
		root + "/.well-known/openid-configuration/" + path,
		root + "/" + path + "/.well-known/openid-configuration",
	}
}

// authorizationServer reads the metadata of an issuer.
func (t *Tokens) authorizationServer(ctx context.Context, issuer string) (*serverMetadata, error) {
	u, err := url.Parse(issuer)
	if err != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("the authorization server %q has no usable address", shown(issuer))
	}
	if err := t.guard.check(u); err != nil {
		return nil, err
	}
	m, err := t.metadata(ctx, t.issuer, issuerDocuments(u), issuer)
	if err == nil && m == nil {
		err = fmt.Errorf("the authorization server %s has no metadata (RFC 8414)", shown(issuer))
	}
	return m, err
}

// metadata returns the first document found at the addresses, or nil. metadata returns an error if
// the document is not about one of the issuers, or if no document was found and a request failed.
func (t *Tokens) metadata(ctx context.Context, client *http.Client, addresses []string, issuers ...string) (*serverMetadata, error) {
	var failed error
	for _, address := range addresses {
		m := &serverMetadata{}
		status, err := t.document(ctx, client, address, m)
		if err == nil && status >= http.StatusInternalServerError {
			err = fmt.Errorf("%s answered %w", shown(address), &httpclient.StatusError{Status: status})
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if status != http.StatusOK {
			continue
		}
		if !slices.ContainsFunc(issuers, func(i string) bool { return sameIssuer(i, m.Issuer) }) {
			return nil, fmt.Errorf("the metadata of the authorization server at %s describes the issuer %q, not %s (RFC 8414, 3.3; if that is right, set issuer to it)",
				shown(address), shown(m.Issuer), shown(issuers[0]))
		}
		return m, nil
	}
	return nil, failed
}

// ownAuthorizationServer returns the MCP server itself as an authorization server, according to the
// metadata or with the endpoints of revision 2025-03-26. Only the metadata can name another origin.
func (t *Tokens) ownAuthorizationServer(ctx context.Context) (*serverMetadata, error) {
	base := t.base()
	origin := &url.URL{Scheme: base.Scheme, Host: base.Host}
	addresses := issuerDocuments(origin)
	if strings.Trim(base.Path, "/") != "" {
		addresses = append(issuerDocuments(base), addresses...)
	}
	m, err := t.metadata(ctx, t.resource, addresses, origin.String(), base.String())
	if err != nil || m != nil {
		return m, err
	}
	m = &serverMetadata{}
	m.Issuer = origin.String()
	m.AuthorizationEndpoint, m.TokenEndpoint, m.RegistrationEndpoint = m.Issuer+"/authorize", m.Issuer+"/token", m.Issuer+"/register"
	return m, nil
}

// checkEndpoints checks where the endpoints are.
func (t *Tokens) checkEndpoints(m *serverMetadata) error {
	for _, e := range []struct{ name, address string }{
		{"authorization_endpoint", m.AuthorizationEndpoint}, {"token_endpoint", m.TokenEndpoint},
		{"registration_endpoint", m.RegistrationEndpoint},
	} {
		if e.address == "" && e.name == "registration_endpoint" {
			continue
		}
		u, err := url.Parse(e.address)
		if err == nil {
			err = t.guard.check(u)
		}
		if err != nil {
			return fmt.Errorf("the authorization server %s has a bad %s: %w", shown(m.Issuer), e.name, err)
		}
	}
	return nil
}

// checkPKCE returns an error if the authorization server does not support PKCE with S256, or if
// required is set and the server does not declare support: without PKCE, a thief of a code can
// redeem the code.
func (t *Tokens) checkPKCE(m *serverMetadata, required bool) error {
	methods := m.CodeChallengeMethodsSupported
	switch {
	case slices.Contains(methods, "S256"):
		return nil
	case len(methods) > 0:
		return fmt.Errorf("the authorization server %s does not support PKCE with S256", shown(m.Issuer))
	case required && !t.conf.AssumePKCE:
		return fmt.Errorf("the authorization server %s does not declare support for PKCE (its metadata has no code_challenge_methods_supported; if it supports S256, set assume_pkce in oauth)", shown(m.Issuer))
	}
	return nil
}

// document gets a JSON document and decodes the document into v. A status other than 200 leaves v
// unchanged.
func (t *Tokens) document(ctx context.Context, client *http.Client, address string, v any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", httpclient.ContentJSON)
	req.Header.Set(transport.HeaderKeyProtocolVersion, protocol.Handshake.Newest().String())
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		httpclient.Discard(resp.Body)
		return resp.StatusCode, nil
	}
	body, err := readAnswer(resp)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", shown(address), err)
	}
	if json.Unmarshal(body, v) != nil {
		return 0, fmt.Errorf("%s: the answer is not metadata in JSON", shown(address))
	}
	return resp.StatusCode, nil
}

// readAnswer reads and closes a body of at most maxDocument bytes.
func readAnswer(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(body) > maxDocument {
		err = errTooLong
	}
	return body, err
}
