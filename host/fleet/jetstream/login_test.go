package jetstream

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// login is what a client of NATS says of itself (CONNECT in the protocol of NATS clients).
type login struct {
	User, Pass, NKey, JWT, Sig string
	Token                      string `json:"auth_token"`
}

// TestLogin checks what each setting makes a client say to a server. What real servers do with it is
// tested by the module scripts.
func TestLogin(t *testing.T) {
	t.Parallel()
	key, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := key.Seed()
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, content string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const jwt = "e30.e30.e30"
	credentials := fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", jwt, seed)
	for name, test := range map[string]struct {
		opts Options
		want login
	}{
		"none":        {Options{}, login{}},
		"user":        {Options{User: "me", Password: "secret"}, login{User: "me", Pass: "secret"}},
		"token":       {Options{Token: "secret"}, login{Token: "secret"}},
		"nkey":        {Options{NKey: file("seed", string(seed))}, login{NKey: public}},
		"credentials": {Options{Credentials: file("creds", credentials)}, login{JWT: jwt}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const nonce = "nonce"
			got := loginOf(t, test.opts, nonce)
			if signed := test.want.NKey+test.want.JWT != ""; signed {
				sig, err := base64.RawURLEncoding.DecodeString(got.Sig)
				if err == nil {
					err = key.Verify([]byte(nonce), sig)
				}
				if err != nil {
					t.Errorf("the signature of the nonce: %v", err)
				}
				got.Sig = ""
			}
			if got != test.want {
				t.Errorf("the client sent %+v, not %+v", got, test.want)
			}
		})
	}
}

// loginOf connects with opts to a server that wants a login, and returns what the client says.
func loginOf(t *testing.T, opts Options, nonce string) (said login) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	opts.URLs = []string{"nats://" + l.Addr().String()}
	opts.fill()
	options, err := opts.connect()
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan error, 1)
	go func() {
		nc, err := nats.Connect(opts.servers(), append(options, nats.RetryOnFailedConnect(false))...)
		if err == nil {
			nc.Close()
		}
		connected <- err
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "INFO {\"server_id\":\"s\",\"version\":\"2.12.0\",\"proto\":1,\"max_payload\":1048576,\"auth_required\":true,\"nonce\":%q}\r\n", nonce)
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := strings.CutPrefix(line, "CONNECT "); ok {
			if err := json.Unmarshal([]byte(text), &said); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
		}
		if strings.HasPrefix(line, "PING") {
			break
		}
	}
	fmt.Fprint(c, "PONG\r\n")
	if err := <-connected; err != nil {
		t.Errorf("connecting: %v", err)
	}
	return said
}
