package config

import (
	"strconv"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// Store says where saved tools are kept, and what else several processes share. With NATS, a
// fleet keeps it in JetStream (package store/jetstream), encrypted (package store/sealed).
type Store struct {
	// Dir is absolute. It need not exist yet.
	Dir string
	// NATS are addresses of servers, such as nats://10.0.0.1:4222; nil: everything is in
	// files, and nothing below is set.
	NATS []string
	// Credentials is the absolute path of a file with a JWT and its seed, and NKey that of a
	// file with a seed; "" for none. At most one of Credentials, NKey, User and Token is set.
	Credentials, NKey string
	// User and Password, and Token, are sent to the server; "" for none. Password and Token
	// are secret.
	User, Password, Token string
	// CAFile has the certificates of the authorities that servers are trusted by, in place of
	// those of the system; CertFile and KeyFile are our own certificate. They are absolute
	// paths of PEM files; "" for none.
	CAFile, CertFile, KeyFile string
	// Prefix begins the subjects and streams of the fleet.
	Prefix string
	// Replicas is on how many servers each stream is: 1, 3 or 5.
	Replicas int
	// Keys are those of the fleet, at least one. The first one seals, all of them open.
	// KeysFile is the absolute path of the file that they are from; "" for none.
	Keys     []sealed.Key
	KeysFile string
	// PeerListen is HOST:PORT where this replica listens for others, see [ParseListen]; port 0
	// is any. PeerAddress is where they reach it; "" is worked out from PeerListen.
	PeerListen, PeerAddress string
}

// decodeStore reads where saved tools are kept.
func decodeStore(t *table, c *Config) {
	if t == nil {
		return
	}
	if dir, ok := t.directory("dir"); ok {
		c.Store.Dir = dir
	}
	t.nats(&c.Store)
	t.close(storeAliases)
}

// storeAliases are the names that other programs use for these settings.
var storeAliases = map[string]string{
	"path": "dir", "directory": "dir", "url": "nats", "urls": "nats", "server": "nats", "servers": "nats", "jetstream": "nats",
	"creds": "credentials", "credentialsfile": "credentials", "seed": "nkey", "username": "user", "pass": "password",
	"ca": "tls_ca", "cafile": "tls_ca", "cert": "tls_cert", "certfile": "tls_cert", "keyfile": "tls_key",
	"r": "replicas", "subjectprefix": "prefix", "subject": "prefix", "key": "keys", "encryptionkey": "keys", "encryptionkeys": "keys",
	"listen": "peer_listen", "peerport": "peer_listen", "advertise": "peer_address", "peer": "peer_address",
}

// natsKeys are the settings that need nats.
var natsKeys = []string{
	"credentials", "nkey", "user", "password", "token", "tls_ca", "tls_cert", "tls_key", "prefix", "replicas", "keys",
	"peer_listen", "peer_address", "keys_file",
}

// nats reads how to reach NATS, if it is used.
func (t *table) nats(o *Store) {
	t.know("nats")
	if t.node.fields["nats"] == nil {
		for _, name := range natsKeys {
			key := t.key(name)
			t.know(key)
			if t.node.fields[key] != nil {
				t.problem(key, "is set, but everything is kept in files (set nats, or leave it out)")
			}
		}
		return
	}
	o.Prefix, o.Replicas = store.DefaultPrefix, 1
	t.natsServers(o)
	o.Credentials, _ = t.file("credentials")
	o.NKey, _ = t.file("nkey")
	o.User, _ = t.str("user")
	o.Password = t.private("password")
	o.Token = t.private("token")
	t.oneLogin()
	o.CAFile, _ = t.file(t.key("tls_ca"))
	o.CertFile, o.KeyFile = t.certificate()
	if prefix, ok := t.str("prefix"); ok {
		if err := store.CheckPrefix(prefix); err != nil {
			t.problem("prefix", "%s %v", quoteWritten(t.node.fields["prefix"]), err)
		}
		o.Prefix = prefix
	}
	t.count("replicas", &o.Replicas, 1, 5)
	if err := store.CheckReplicas(o.Replicas); err != nil {
		t.problem("replicas", "%d %v", o.Replicas, err)
	}
	t.fleetKeys(o)
	t.peers(o)
}

// natsServers reads one address, or several.
func (t *table) natsServers(o *Store) {
	n := t.get("nats", "a string or an array of strings", kindString, kindArray)
	if n == nil {
		return
	}
	if n.kind == kindString {
		if address, ok := t.natsServer("nats", n); ok {
			o.NATS = []string{address}
		}
		return
	}
	if o.NATS = t.strs("nats", t.natsServer); len(n.items) == 0 {
		t.problem("nats", "is empty (name a server, or leave it out)")
	}
}

func (t *table) natsServer(key string, n *node) (string, bool) {
	address, ok := t.expandPrivate(key, "", n)
	if !ok {
		return "", false
	}
	if err := store.CheckServer(address); err != nil {
		t.problem(key, "%v", err)
		return "", false
	}
	return address, true
}

// private returns a string that is secret as a whole; "" for none.
func (t *table) private(key string) string {
	n := t.get(key, "a string", kindString)
	if n == nil {
		return ""
	}
	text, ok := t.expandPrivate(key, "token", n)
	if ok && text == "" {
		t.problem(key, "is empty (leave it out)")
	}
	return text
}

// oneLogin checks that there is one way to log in at most.
func (t *table) oneLogin() {
	first := ""
	for _, key := range []string{"credentials", "nkey", "user", "token"} {
		switch {
		case t.node.fields[key] == nil:
		case first != "":
			t.problem(key, "is set together with %s (NATS takes one of them)", first)
		default:
			first = key
		}
	}
	if t.node.fields["password"] != nil && t.node.fields["user"] == nil {
		t.problem("password", "is set without user")
	}
}

// nats describes how NATS is reached. No key is shown, only its id.
func (d *description) nats(o *Store) {
	const at = "store."
	d.title("store")
	if len(o.NATS) == 1 {
		d.line("nats", d.shown(at+"nats", o.NATS[0]))
	} else {
		d.line("nats", d.list(at+"nats", o.NATS, "none"))
	}
	for _, setting := range [][2]string{
		{"credentials", o.Credentials}, {"nkey", o.NKey}, {"user", o.User},
		{"keys_file", o.KeysFile}, {"tls_ca", o.CAFile}, {"tls_cert", o.CertFile}, {"tls_key", o.KeyFile},
	} {
		if setting[1] != "" {
			key := d.c.key(setting[0])
			d.line(key, d.shown(at+key, setting[1]))
		}
	}
	for _, secret := range [][2]string{{"password", o.Password}, {"token", o.Token}} {
		if secret[1] != "" {
			d.line(secret[0], "****")
		}
	}
	d.line("prefix", d.shown(at+"prefix", o.Prefix))
	d.line("replicas", strconv.Itoa(o.Replicas))
	ids := make([]string, len(o.Keys))
	for i, k := range o.Keys {
		ids[i] = k.ID + ":****"
	}
	d.line("keys", d.list("", ids, "none"))
	d.line(d.c.key("peer_listen"), d.shown(at+"peer_listen", o.PeerListen))
	if o.PeerAddress != "" {
		d.line(d.c.key("peer_address"), d.shown(at+"peer_address", o.PeerAddress))
	}
}
