package peer

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// identity is how this replica shows who it is, and knows others, with the same keys of the
// fleet.
type identity struct {
	keys        [][]byte
	authorities []ed25519.PublicKey
	pool        *x509.CertPool
	own         tls.Certificate
}

// The time from which and until which certificates are valid, and the one at which they are
// verified: always.
var (
	validFrom  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	validUntil = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	verifiedAt = time.Date(2050, 1, 1, 0, 0, 0, 0, time.UTC)
)

// newIdentity makes the certificate of a replica.
func newIdentity(id string, keys [][]byte) (*identity, error) {
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key of the fleet")
	}
	n := &identity{keys: keys, pool: x509.NewCertPool()}
	var first *x509.Certificate
	for _, key := range keys {
		authority, err := authorityOf(key)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = authority
		}
		n.pool.AddCert(authority)
		n.authorities = append(n.authorities, authority.PublicKey.(ed25519.PublicKey))
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	serial := make([]byte, 16)
	_, _ = rand.Read(serial) // never fails
	raw, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: id}, DNSNames: []string{hostOf(id)},
		NotBefore: validFrom, NotAfter: validUntil, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, first, public, ed25519.NewKeyFromSeed(keys[0]))
	if err != nil {
		return nil, err
	}
	n.own = tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: private}
	return n, nil
}

// authorityOf returns the certificate of the authority that a key of the fleet makes.
func authorityOf(key []byte) (*x509.Certificate, error) {
	if len(key) != ed25519.SeedSize {
		return nil, fmt.Errorf("a key of the fleet has %d bytes, not %d", len(key), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(key)
	public := private.Public().(ed25519.PublicKey)
	name := sha256.Sum256(public)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mcp-metatool fleet " + hex.EncodeToString(name[:8])},
		SubjectKeyId: name[:20], NotBefore: validFrom, NotAfter: validUntil,
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// hostOf returns the host name in the certificate of a replica.
func hostOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16]) + ".replica"
}

// config returns the TLS configuration of a side.
func (n *identity) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{n.own}, RootCAs: n.pool, ClientCAs: n.pool,
		ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2"},
		SessionTicketsDisabled: true, // each connection shows its certificate
		Time:                   func() time.Time { return verifiedAt },
	}
}

// knows reports whether the certificate of a connection is signed with a key that the fleet has
// now: it may have been taken away since the connection was made.
func (n *identity) knows(c *tls.ConnectionState) bool {
	if c == nil || len(c.VerifiedChains) == 0 {
		return false
	}
	chain := c.VerifiedChains[0]
	public, ok := chain[len(chain)-1].PublicKey.(ed25519.PublicKey)
	return ok && slices.ContainsFunc(n.authorities, func(a ed25519.PublicKey) bool { return a.Equal(public) })
}

// current returns the identity for the present keys.
func (l *Link) current() (*identity, *dialer, error) {
	keys := l.opts.Keys()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now != nil && slices.EqualFunc(l.now.keys, keys, bytes.Equal) {
		return l.now, l.dialer, nil
	}
	n, err := newIdentity(l.opts.ID, keys)
	if err != nil {
		return nil, nil, fmt.Errorf("replica %s: %w", l.opts.ID, err)
	}
	if l.dialer != nil {
		l.dialer.CloseIdleConnections()
	}
	l.now, l.dialer = n, l.newDialer(n)
	return n, l.dialer, nil
}
