package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/storetest"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// open opens a store, as often as it takes.
func open(t *testing.T, opts jetstream.Options) store.Store {
	t.Helper()
	opts.Log, opts.Make = slog.New(slog.DiscardHandler), jetstream.MakeNew
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// permissions are those that a fleet with a prefix needs; the documentation has them, too.
func permissions(prefix string) (publish, subscribe []string) {
	publish = []string{prefix + ".>"}
	for _, stream := range jetstream.Streams(prefix) {
		for _, request := range []string{"STREAM.INFO", "STREAM.CREATE", "STREAM.PURGE", "STREAM.MSG.GET"} {
			publish = append(publish, "$JS.API."+request+"."+stream)
		}
		for _, request := range []string{"CREATE", "INFO", "DELETE", "MSG.NEXT"} {
			publish = append(publish, "$JS.API.CONSUMER."+request+"."+stream+".>")
		}
	}
	return publish, []string{"_INBOX_" + prefix + ".>"}
}

// allow returns the permissions as the setting of a user.
func allow(prefix string) natstest.Settings {
	publish, subscribe := permissions(prefix)
	return natstest.Settings{"publish": natstest.Settings{"allow": publish}, "subscribe": natstest.Settings{"allow": subscribe}}
}

// TestPermissions runs the tests of all stores with a user that may do what one fleet needs, and
// nothing else, over TLS. The user of another fleet cannot reach what is there.
func TestPermissions(t *testing.T) {
	t.Parallel()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	key := must(x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey))(t)
	s := natstest.StartAs(t, func(s natstest.Settings) {
		s["host"] = "127.0.0.1" // the certificate is for it
		s["tls"] = natstest.Settings{
			"cert_file": write(t, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})),
			"key_file":  write(t, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})),
		}
		s["authorization"] = natstest.Settings{"users": []natstest.Settings{
			{"user": "one", "password": "secret-1", "permissions": allow("one")},
			{"user": "two", "password": "secret-2", "permissions": allow("two")},
		}}
	})
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	options := jetstream.Options{URLs: []string{s.URL()}, Prefix: "one", User: "one", Password: "secret-1", TLS: &tls.Config{RootCAs: roots}}
	storetest.RunBrief(t, func(t *testing.T) store.Store { return open(t, options) })
	for name, change := range map[string]func(*jetstream.Options){
		"another user":   func(o *jetstream.Options) { o.User, o.Password = "two", "secret-2" },
		"wrong password": func(o *jetstream.Options) { o.Password = "secret-2" },
		"no authority":   func(o *jetstream.Options) { o.TLS = &tls.Config{} },
	} {
		other := options
		change(&other)
		other.Attempt = 100 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(500*time.Millisecond))
		if s, err := jetstream.Open(ctx, other); err == nil {
			s.Close()
			t.Errorf("%s: the store is opened", name)
		}
		cancel()
	}
}

// TestNKey connects with the seed of an NKey in a file.
func TestNKey(t *testing.T) {
	t.Parallel()
	one, two := must(nkeys.CreateUser())(t), must(nkeys.CreateUser())(t)
	s := natstest.StartAs(t, func(s natstest.Settings) {
		s["authorization"] = natstest.Settings{"users": []natstest.Settings{{"nkey": must(one.PublicKey())(t), "permissions": allow("one")}}}
	})
	file := func(name string, key nkeys.KeyPair) string { return write(t, name, must(key.Seed())(t)) }
	tryLogins(t, jetstream.Options{URLs: []string{s.URL()}, Prefix: "one", NKey: file("one.nk", one)}, map[string]func(*jetstream.Options){
		"another key":   func(o *jetstream.Options) { o.NKey = file("two.nk", two) },
		"another fleet": func(o *jetstream.Options) { o.Prefix = "two" },
		"no key":        func(o *jetstream.Options) { o.NKey = "" },
		"a broken file": func(o *jetstream.Options) { o.NKey = write(t, "broken.nk", []byte("SUBROKEN")) },
		"no file":       func(o *jetstream.Options) { o.NKey = filepath.Join(t.TempDir(), "none.nk") },
	})
}

// TestCredentials connects with a JWT and a seed in a file, to a server that trusts an operator.
// The account may use JetStream, and the user what one fleet needs.
func TestCredentials(t *testing.T) {
	t.Parallel()
	operator, account, stranger := must(nkeys.CreateOperator())(t), must(nkeys.CreateAccount())(t), must(nkeys.CreateAccount())(t)
	operatorName, accountName := must(operator.PublicKey())(t), must(account.PublicKey())(t)
	claims := jwt.NewAccountClaims(accountName)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	system := must(must(nkeys.CreateAccount())(t).PublicKey())(t) // servers do not start without one
	accounts := natstest.Settings{}
	for name, c := range map[string]*jwt.AccountClaims{accountName: claims, system: jwt.NewAccountClaims(system)} {
		accounts[name] = must(c.Encode(operator))(t)
	}
	s := natstest.StartAs(t, func(s natstest.Settings) {
		s["trusted"], s["resolver"], s["resolver_preload"], s["system_account"] = []string{operatorName}, "MEMORY", accounts, system
	})
	user := func(name string, by nkeys.KeyPair, expires time.Time) string {
		key := must(nkeys.CreateUser())(t)
		c := jwt.NewUserClaims(must(key.PublicKey())(t))
		c.Pub.Allow, c.Sub.Allow = permissions("one")
		c.Expires = expires.Unix()
		return write(t, name, must(jwt.FormatUserConfig(must(c.Encode(by))(t), must(key.Seed())(t)))(t))
	}
	later := time.Now().Add(time.Hour)
	tryLogins(t, jetstream.Options{URLs: []string{s.URL()}, Prefix: "one", Credentials: user("one.creds", account, later)}, map[string]func(*jetstream.Options){
		"of another account": func(o *jetstream.Options) { o.Credentials = user("two.creds", stranger, later) },
		"expired":            func(o *jetstream.Options) { o.Credentials = user("old.creds", account, time.Now().Add(-time.Hour)) },
		"another fleet":      func(o *jetstream.Options) { o.Prefix = "two" },
		"none":               func(o *jetstream.Options) { o.Credentials = "" },
		"no file":            func(o *jetstream.Options) { o.Credentials = filepath.Join(t.TempDir(), "none.creds") },
	})
}

// tryLogins writes with options that are right, and tries others that are not.
func tryLogins(t *testing.T, right jetstream.Options, wrong map[string]func(*jetstream.Options)) {
	t.Helper()
	s := open(t, right)
	at := storetest.Write(t, s, "log", store.Position{}, 0, "one")
	storetest.Write(t, open(t, right), "log", at, 0, "two")
	for name, change := range wrong {
		other := right
		change(&other)
		other.Attempt, other.Log = 100*time.Millisecond, slog.New(slog.DiscardHandler)
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Quiet(300*time.Millisecond))
		if s, err := jetstream.Open(ctx, other); err == nil {
			s.Close()
			t.Errorf("%s: the store is opened", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
		cancel()
	}
}

func write(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func must[V any](v V, err error) func(*testing.T) V {
	return func(t *testing.T) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
