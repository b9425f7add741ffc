package doctor

import (
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
)

// logins looks at the access tokens of servers that want OAuth.
func (e *examination) logins() {
	for _, u := range e.enabled() {
		if u.OAuth == nil {
			continue
		}
		login := e.command("auth", u.Name)
		state, err := oauth.Stored(e.Config.TokenFile(), u.Name, u.URL)
		if o, seen := e.Observed[u.Name]; seen && o.Status.State == servers.Ready {
			continue // no other token is needed
		}
		found := len(e.report.Findings)
		switch {
		case err != nil:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "%v", err)
		case !state.Exists:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "nobody has logged in")
		case !state.Expires.IsZero() && state.Expires.Before(e.Now) && !state.Renewable:
			e.find(idLoginExpired, upstreamObject(u.Name), login, "the access token expired %s ago, and there is no refresh token", ago(e.Now, state.Expires))
		}
		e.explained[u.Name] = e.explained[u.Name] || len(e.report.Findings) > found
	}
}
