package oauth

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

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
