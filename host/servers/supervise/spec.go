package supervise

import (
	"reflect"
	"slices"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
)

// Spec returns how to start or reach u. References in u stay as they are; see secret.Fill.
func Spec(cfg *config.Config, u *config.Upstream) servers.Spec {
	env := make([]string, 0, len(u.Env))
	for k, v := range u.Env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	spec := servers.Spec{
		Name: u.Name, Transport: string(u.Transport), Command: u.Command, Args: u.Args, Env: env, Dir: u.Dir,
		URL: u.URL, Headers: u.Headers,
		Timeout: u.Timeout, MaxTimeout: u.MaxTimeout, MaxMessage: int(cfg.MaxMessage), MaxList: int(cfg.MaxList), Restart: string(u.Restart),
		Protocol: string(u.Protocol),
	}
	if u.Sandbox != nil {
		spec.Sandbox, spec.Own = u.Sandbox, cfg.OwnFiles(u)
	}
	if u.Invalid != nil { // a restart would fail in the same way
		spec.Restart = servers.RestartNever
	}
	if u.Detect {
		spec.Transport = "" // package upstream finds out
	}
	if o := u.OAuth; o != nil {
		spec.OAuth = &oauth.Config{
			Issuer: o.Issuer, ClientID: o.ClientID, ClientSecret: o.ClientSecret, Scopes: o.Scopes,
			ClientMetadata: o.ClientMetadata, AssumePKCE: o.AssumePKCE,
			RedirectPort: o.RedirectPort, TokenFile: cfg.TokenFile(),
		}
	}
	return spec
}

// Enabled returns the enabled upstreams, in the order of the configuration.
func Enabled(cfg *config.Config) []*config.Upstream {
	var enabled []*config.Upstream
	for i := range cfg.Upstreams {
		if c := &cfg.Upstreams[i]; !c.Disabled {
			enabled = append(enabled, c)
		}
	}
	return enabled
}

// Restarts reports whether an upstream running with the configuration old must be restarted for the
// configuration next. Everything outside of the upstream's own table is taken from cfg.
func Restarts(clients Clients, cfg *config.Config, old, next *config.Upstream) bool {
	return isolated(clients, old) != isolated(clients, next) || !sameSpec(Spec(cfg, old), Spec(cfg, next)) || !sameRest(old, next)
}

// sameRest reports whether two upstreams are equal in the settings that decide about a start and
// are not in a Spec.
func sameRest(a, b *config.Upstream) bool {
	return slices.Equal(a.References, b.References) && config.SameInvalid(a, b)
}

// lazy reports whether an upstream is started at the first use. An upstream with a mistake in the
// configuration fails at once.
func lazy(c *config.Upstream) bool { return c.Start == config.Lazy && c.Invalid == nil }

// isolated reports whether each session has a separate instance of an upstream. A single client has
// no other session to be isolated from.
func isolated(clients Clients, c *config.Upstream) bool {
	return c.Isolation == config.PerSession && clients == ManyClients
}

func sameSpec(a, b servers.Spec) bool { return reflect.DeepEqual(a, b) }
