package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

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

// errNoClient means: only the operator can make us a client of an authorization server.
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
