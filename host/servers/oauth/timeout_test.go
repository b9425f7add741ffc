package oauth

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
)

// slowServers are handlers of connections that keep a client waiting forever. The nil
// one does not even accept connections.
var slowServers = map[string]func(net.Conn){
	"does not accept":      nil,
	"does not read":        func(net.Conn) {},
	"does not answer":      func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
	"answers byte by byte": drip,
}

// drip answers a request with a body that has no end, a byte a second.
func drip(conn net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err == nil {
		_, err = io.Copy(io.Discard, req.Body)
	}
	if err == nil {
		_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
	}
	for err == nil {
		time.Sleep(time.Second)
		_, err = conn.Write([]byte{' '})
	}
}

// newSlowTokens returns the tokens of a server. serve handles connections to the server
// and to its authorization server. It must be called in a synctest bubble.
func newSlowTokens(t *testing.T, serve func(net.Conn)) *Tokens {
	server, err := httpclient.New(httpclient.Config{Name: "web", URL: "http://127.0.0.1:1/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := New(server, Config{TokenFile: filepath.Join(t.TempDir(), "tokens.json"), network: newTestNetwork(t).network()})
	if err != nil {
		t.Fatal(err)
	}
	server.SetAuthorizer(tokens)
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(server.Close)
	for _, rt := range []*http.Transport{server.Transport(), tokens.guard.direct, tokens.guard.open} {
		rt.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			if serve == nil {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			serving.Go(func() { serve(theirs) })
			return ours, nil
		}
	}
	return tokens
}

// TestSlowAuthorizationServers checks that each kind of request ends after
// requestTimeout, however a server keeps it waiting. Time is virtual.
func TestSlowAuthorizationServers(t *testing.T) {
	const issuer = "http://127.0.0.1:2"
	requests := map[string]func(t *Tokens, ctx context.Context) error{
		"metadata of the server": func(t *Tokens, ctx context.Context) error {
			_, err := t.document(ctx, t.resource, "http://127.0.0.1:1/metadata", &struct{}{})
			return err
		},
		"metadata of the issuer": func(t *Tokens, ctx context.Context) error {
			_, err := t.document(ctx, t.issuer, issuer+"/metadata", &struct{}{})
			return err
		},
		"registration": func(t *Tokens, ctx context.Context) error {
			m := &serverMetadata{}
			m.RegistrationEndpoint = issuer + "/register"
			_, err := t.register(ctx, m, "http://127.0.0.1:3/callback", nil)
			return err
		},
		"token": func(t *Tokens, ctx context.Context) error {
			_, err := t.exchange(ctx, credentials{TokenEndpoint: issuer + "/token"}, client{ID: "me"}, url.Values{"grant_type": {"refresh_token"}})
			return err
		},
	}
	for what, ask := range requests {
		for how, serve := range slowServers {
			t.Run(what+" "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tokens, start := newSlowTokens(t, serve), time.Now()
					err := ask(tokens, t.Context())
					if !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
						t.Errorf("got %v", err)
					}
					if took := time.Since(start); took != requestTimeout {
						t.Errorf("it took %s", took)
					}
				})
			})
		}
	}
}

// TestSlowRenewal checks that a renewal, which may need several requests, ends after
// renewTimeout, however many of them are answered, and that a caller can stop waiting
// earlier while another one waits on. Time is virtual.
func TestSlowRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := newSlowTokens(t, refuseSlowly)
		err := tokens.file.put(tokens.key, credentials{
			Issuer: "http://127.0.0.1:2", TokenEndpoint: "http://127.0.0.1:2/token",
			Token: &transport.Token{AccessToken: "old", RefreshToken: "refresh-1"},
		})
		if err != nil {
			t.Fatal(err)
		}
		tokens.rejected = "old"
		for range 2 {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if _, err := tokens.Header(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Second {
				t.Errorf("the caller that stops waiting got %v after %s", err, time.Since(start))
			}
			cancel()
			if _, err := tokens.Header(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != renewTimeout {
				t.Errorf("the caller that waits on got %v after %s", err, time.Since(start))
			}
		}
	})
}

// refuseSlowly answers each request with 404 shortly before requestTimeout.
func refuseSlowly(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		if err != nil {
			return
		}
		time.Sleep(requestTimeout - time.Second)
		if _, err := io.WriteString(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}
