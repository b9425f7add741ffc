package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// The types of blocks of PEM.
const (
	publicBlock  = "PUBLIC KEY"
	privateBlock = "PRIVATE KEY"
)

// PublicKey is an Ed25519 key for checking signatures.
type PublicKey [ed25519.PublicKeySize]byte

// Bytes returns the key in the form of package ed25519.
func (k PublicKey) Bytes() ed25519.PublicKey { return k[:] }

// ID returns the first 16 hexadecimal digits of the SHA-256 digest of the key. An ID helps to find
// a key, but proves nothing.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k[:])
	return hex.EncodeToString(sum[:8])
}

// PEM returns the key in a common form (RFC 8410, section 10.2).
func (k PublicKey) PEM() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.Bytes())
	if err != nil {
		panic(err) // cannot fail for an Ed25519 key
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der})
}

// String returns the key in base64.
func (k PublicKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// ErrPublicKey means that a text is not a public key.
var ErrPublicKey = errors.New("is not an Ed25519 public key (want PEM, as mcp-metatool verify --print-key prints it, or 32 bytes in base64)")

// ParsePublic reads a public key: PEM, or 32 bytes in base64.
func ParsePublic(text []byte) (k PublicKey, err error) {
	text = bytes.TrimSpace(text)
	if block, rest := pem.Decode(text); block != nil {
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		public, ok := key.(ed25519.PublicKey)
		if err != nil || !ok || block.Type != publicBlock || len(bytes.TrimSpace(rest)) > 0 {
			return k, ErrPublicKey
		}
		return PublicKey(public), nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil || len(raw) != len(k) {
		return k, ErrPublicKey
	}
	return PublicKey(raw), nil
}

// PrivateKey signs. PrivateKey implements Signer.
type PrivateKey struct{ key ed25519.PrivateKey }

// NewPrivate returns a random key.
func NewPrivate() PrivateKey {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return PrivateKey{key}
}

// FromSeed returns the key of a secret seed of 32 bytes.
func FromSeed(seed []byte) PrivateKey { return PrivateKey{ed25519.NewKeyFromSeed(seed)} }

// Public returns the key for checking the signatures.
func (k PrivateKey) Public() PublicKey { return PublicKey(k.key.Public().(ed25519.PublicKey)) }

// PEM returns the key (PKCS #8, RFC 8410 section 7).
func (k PrivateKey) PEM() []byte {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		panic(err) // cannot fail for an Ed25519 key
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateBlock, Bytes: der})
}

// ErrPrivateKey means that a text is not a private key. The error does not quote the text.
var ErrPrivateKey = errors.New("is not an Ed25519 private key (want PEM, as openssl genpkey -algorithm ed25519 prints it)")

// ParsePrivate reads a private key in PEM.
func ParsePrivate(text []byte) (PrivateKey, error) {
	block, rest := pem.Decode(bytes.TrimSpace(text))
	if block == nil || block.Type != privateBlock || len(bytes.TrimSpace(rest)) > 0 {
		return PrivateKey{}, ErrPrivateKey
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return PrivateKey{}, ErrPrivateKey
	}
	return PrivateKey{private}, nil
}

// SignText returns the signature of a text.
func (k PrivateKey) SignText(text []byte) []byte { return ed25519.Sign(k.key, text) }

// Sign implements Signer.
func (k PrivateKey) Sign(_ context.Context, s Statement) (*Seal, error) {
	return SignWith(s, k.Public(), func(text []byte) ([]byte, error) { return k.SignText(text), nil })
}

// String keeps the key out of texts.
func (k PrivateKey) String() string { return fmt.Sprintf("private key %s", k.Public().ID()) }

// GoString is String.
func (k PrivateKey) GoString() string { return k.String() }

// KeyFile is the name of the file with the key of a folder.
const KeyFile = "journal-key.pem"

var keyFile = regular.KeyFile[PrivateKey]{
	Name: KeyFile, Lock: ".journal-key.lock", What: "the key that signs runs", Limit: 64 << 10,
	Parse: ParsePrivate,
	New: func() (PrivateKey, []byte) {
		key := NewPrivate()
		return key, key.PEM()
	},
}

// ReadKey reads a private key from a file. The error is fs.ErrNotExist for a missing file, or names
// the file and the remedy.
func ReadKey(ctx context.Context, path string) (PrivateKey, error) { return keyFile.Read(ctx, path) }

// LoadKey returns the key of a folder. If the key is missing, LoadKey makes the key and the folder.
// All processes that use the folder get the same key. Only the owner of the file can read the key.
func LoadKey(ctx context.Context, dir string) (PrivateKey, error) { return keyFile.Load(ctx, dir) }
