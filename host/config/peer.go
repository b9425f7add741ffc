package config

import (
	"errors"
	"net"
	"net/url"
)

// DefaultPeerListen is where a replica listens for others unless the configuration says
// otherwise: on a port that the system chooses, for replicas on the same machine.
const DefaultPeerListen = "127.0.0.1:0"

var errPeerAddress = errors.New(`is not where others reach this replica (write "10.0.0.5:7400" or "replica-1.example.com:7400")`)

// peers reads how the replicas of a fleet reach each other.
func (t *table) peers(o *Store) {
	o.PeerListen = DefaultPeerListen
	key := t.key("peer_listen")
	if listen, ok := t.str(key); ok {
		address, err := ParseListen(listen)
		if err != nil {
			t.problem(key, "%s %v", quoteWritten(t.node.fields[key]), err)
		}
		o.PeerListen = address
	}
	key = t.key("peer_address")
	if address, ok := t.str(key); ok {
		host, port, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || !isPort(port) || host == "" || port == "0" || ip != nil && ip.IsUnspecified() {
			t.problem(key, "%s %v", quoteWritten(t.node.fields[key]), errPeerAddress)
		}
		o.PeerAddress = address
	}
}

// isElsewhere reports whether a NATS server is not on this machine, judging by its address.
func isElsewhere(server string) bool {
	u, err := url.Parse(server)
	return err == nil && !isLoopback(net.JoinHostPort(u.Hostname(), "4222"))
}
