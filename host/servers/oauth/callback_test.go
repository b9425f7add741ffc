package oauth

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth/oauthtest"
)

// rawRequest sends a request to the listener for redirects as it is written, and returns
// the whole answer.
func rawRequest(t *testing.T, b *callback, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", b.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, request)
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

// TestHostileCallbacks checks what other web pages and programs can send to the listener
// for redirects while a user logs in: none of it counts, or ends the login, and the answer
// neither redirects nor contains a part of the request.
func TestHostileCallbacks(t *testing.T) {
	b, err := newCallback(0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	b.expect("right")
	host := b.listener.Addr().String()
	get := func(target, host string) string {
		return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
	}
	const mark = "https://attacker.test/<script>"
	for name, request := range map[string]string{
		"no state":                    get("/callback?code=x&next="+mark, host),
		"an empty state":              get("/callback?code=x&state=&next="+mark, host),
		"another state":               get("/callback?code=x&state=wrong&redirect_uri="+mark, host),
		"a longer state":              get("/callback?code=x&state=right1", host),
		"two states":                  get("/callback?code=x&state=right&state=right", host),
		"another state first":         get("/callback?code=x&state=wrong&state=right", host),
		"the state in another case":   get("/callback?code=x&state=RIGHT", host),
		"a semicolon":                 get("/callback?code=x;state=right&state=right;x", host),
		"a bad escape":                get("/callback?code=%zz&state=right", host),
		"the state in the fragment":   get("/callback?code=x#state=right", host),
		"another path":                get("/callback/?code=x&state=right", host),
		"a path that escapes":         get("//attacker.test/callback?code=x&state=right", host),
		"a parent":                    get("/x/../callback?code=x&state=right", host),
		"the name of a page":          get("/callback?code=x&state=right", "attacker.test"),
		"the name of a page and port": get("/callback?code=x&state=right", "attacker.test"+host[strings.LastIndexByte(host, ':'):]),
		"a form":                      fmt.Sprintf("POST /callback HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 18\r\n\r\ncode=x&state=right", host),
		"a form with a query":         fmt.Sprintf("POST /callback?code=x&state=right HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", host),
		"a preflight":                 fmt.Sprintf("OPTIONS /callback?code=x&state=right HTTP/1.1\r\nHost: %s\r\nOrigin: https://attacker.test\r\nConnection: close\r\n\r\n", host),
		"no request":                  "\x16\x03\x01\x00\xee\x01\r\n\r\n",
		"a long query":                get("/callback?state=right&code="+strings.Repeat("x", 80<<10), host),
	} {
		answer := rawRequest(t, b, request)
		status, _, _ := strings.Cut(answer, "\r\n")
		if !strings.HasPrefix(status, "HTTP/1.1 4") && !strings.HasPrefix(status, "HTTP/1.0 4") && status != "" {
			t.Errorf("%s: %s", name, status)
		}
		for _, bad := range []string{"Location:", "attacker", "script>", "Access-Control", "Set-Cookie"} {
			if strings.Contains(answer, bad) {
				t.Errorf("%s: the answer contains %s: %s", name, bad, answer)
			}
		}
		select {
		case back := <-b.back:
			t.Errorf("%s was accepted: %v", name, back)
			b.expect("right")
		default:
		}
	}
	answer := rawRequest(t, b, get("/callback?code=x&state=right&error_uri="+mark, host))
	if !strings.HasPrefix(answer, "HTTP/1.1 200 ") || strings.Contains(answer, "attacker") || !strings.Contains(answer, "text/plain") || !strings.Contains(answer, "no-referrer") {
		t.Errorf("the right one: %s", answer)
	}
	if back := <-b.back; back.Get("code") != "x" {
		t.Errorf("got %v", back)
	}
}

// TestRepeatedParameters checks that a callback with two codes or errors is refused,
// because others may read another one of them than we do (RFC 6749, 3.1).
func TestRepeatedParameters(t *testing.T) {
	for _, callback := range []url.Values{{"code": {"a", "b"}}, {"error": {"x", "y"}}, {"error": {"", "y"}, "code": {"a"}}} {
		a := newServer(t)
		a.Callback = callback
		spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
		if err := spec.authorize(t.Context(), browse(t)); err == nil || !strings.Contains(err.Error(), "a parameter twice") || len(a.Forms) != 0 {
			t.Errorf("%v: %v", callback, err)
		}
	}
}

// TestTwoLoginsAtOnce has two logins to the same server at the same time, in which the
// callback of each is delivered to the other one first. Neither takes the code of the
// other, and both end well.
func TestTwoLoginsAtOnce(t *testing.T) {
	a := newServer(t)
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	var logins [2]Login
	var opened, done sync.WaitGroup
	opened.Add(2)
	crossed := make(chan struct{})
	defer done.Wait()
	for i := range logins {
		done.Go(func() {
			once := sync.OnceFunc(opened.Done)
			defer once() // if the browser was not opened
			err := spec.authorize(t.Context(), func(l Login) error {
				logins[i] = l
				once()
				<-crossed
				return oauthtest.Consent(t, l.URL)
			})
			if err != nil {
				t.Errorf("login %d: %v", i, err)
			}
		})
	}
	opened.Wait()
	cross := sync.OnceFunc(func() { close(crossed) })
	defer cross()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range logins {
		mine, theirs := query(t, logins[i].URL), query(t, logins[1-i].URL)
		if mine.Get("state") == theirs.Get("state") || mine.Get("code_challenge") == theirs.Get("code_challenge") || mine.Get("redirect_uri") == theirs.Get("redirect_uri") {
			t.Errorf("the logins share something: %v, %v", mine, theirs)
		}
		back := url.Values{"code": {"stolen"}, "state": {theirs.Get("state")}, "iss": {a.Issuer.URL}}
		resp, err := client.Get(mine.Get("redirect_uri") + "?" + back.Encode())
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("the callback of the other login got %d", resp.StatusCode)
		}
	}
	cross()
	done.Wait()
	if len(a.Forms) != 2 || a.Forms[0].Get("code_verifier") == a.Forms[1].Get("code_verifier") {
		t.Errorf("%d requests for tokens", len(a.Forms))
	}
	for _, form := range a.Forms {
		if form.Get("code") == "stolen" {
			t.Errorf("sent %v", form)
		}
	}
	if got := outcomeOf(call(t.Context(), spec.dial(t))); got != `{"in":1}` {
		t.Errorf("got %s", got)
	}
}

func query(t *testing.T, address string) url.Values {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

// TestInjectedCode has an attacker that logs in to the honest authorization server, and
// gets the browser of a user to deliver that code with the state of the user's login. The
// authorization server sees another code challenge, and refuses (RFC 7636, 1).
func TestInjectedCode(t *testing.T) {
	a := newServer(t)
	spec := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	theirs := specOf(a, filepath.Join(t.TempDir(), "tokens.json"))
	err := spec.authorize(t.Context(), func(l Login) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_ = theirs.authorize(ctx, func(their Login) error {
			code := followToCode(t, their.URL)
			q := query(t, l.URL)
			back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {a.Issuer.URL}}
			resp, err := http.Get(q.Get("redirect_uri") + "?" + back.Encode())
			if err == nil {
				resp.Body.Close()
			}
			cancel()
			return err
		})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("got %v", err)
	}
	a.MustNotLeak(err.Error())
}

// followToCode logs in at address and returns the code, which it keeps from the client.
func followToCode(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return query(t, resp.Header.Get("Location")).Get("code")
}
