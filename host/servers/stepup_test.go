package servers

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcptest"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// TestStepUpOfUpstream checks with servers of both eras that a call that needs another
// scope fails alone: the upstream stays ready, and the call succeeds as soon as the user
// has logged in again.
func TestStepUpOfUpstream(t *testing.T) {
	t.Parallel()
	for eras, revision := range map[string]string{"": "2025-11-25", "modern": "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			peer := mcptest.NewServer(mcptest.ServerOptions{Eras: eras})
			a := oauthtest.New(t, peer.HTTP())
			t.Cleanup(peer.Close)
			a.Scope = `, scope="basic"`
			spec := oauthSpec(t, a)
			login := func() {
				err := oauth.Authorize(t.Context(), spec.HTTP(), *spec.OAuth, func(l oauth.Login) error { return oauthtest.Consent(t, l.URL) })
				if err != nil {
					t.Fatal(err)
				}
			}
			login()
			f := launch(t, spec)
			defer f.stop(t)
			<-f.Started()
			if s := f.Status(); s.State != Ready || s.ProtocolVersion != revision {
				t.Fatalf("%+v", s)
			}
			f.call(t, "echo")
			a.Set(func() {
				a.Require = []string{"write"}
				a.OnlyCalls = true
			})
			_, err := f.Call(t.Context(), toolCall("echo"))
			var auth *httpclient.AuthError
			if !errors.As(err, &auth) || auth.Final || !strings.Contains(err.Error(), `lacks the scope "write"`) || !strings.Contains(err.Error(), "run `mcp-metatool auth web`") {
				t.Fatalf("got %v", err)
			}
			if s := f.Status(); s.State != Ready || s.Restarts != 0 {
				t.Errorf("%+v", s)
			}
			login()
			if got := a.AuthRequest.Get("scope"); got != "basic write" {
				t.Errorf("asked for %q", got)
			}
			f.call(t, "echo")
			if s := f.Status(); s.State != Ready || s.Restarts != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}
