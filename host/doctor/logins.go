package doctor

import (
	"github.com/mcp-metatool/mcp-metatool/host/upstream/oauth"
)

// logins looks at the access tokens of servers that want OAuth.
func (e *examination) logins() {
	for _, u := range e.enabled() {
		if u.OAuth == nil {
			continue
		}
		login := "mcp-metatool auth " + u.Name
		state, err := oauth.Stored(e.Config.TokenFile(), u.Name, u.URL)
		switch {
		case err != nil:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "%v", err)
		case !state.Exists:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "nobody has logged in")
		case !state.Expires.IsZero() && state.Expires.Before(e.Now) && !state.Renewable:
			e.find(idLoginExpired, upstreamObject(u.Name), login, "the access token expired %s ago, and there is no refresh token", ago(e.Now, state.Expires))
		}
	}
}
