// Package requeststate seals the requestState of answers that ask the client something
// (revision 2026-07-28, basic/patterns/mrtr). The client returns it with its answers in a
// new request. Clients are hostile, so a state is encrypted and authenticated, and can
// only be opened for the same principal and the same request, until it expires.
//
//	requeststate.go  Sealer: sealing and opening
//	key.go           the key, which processes with the same store share
//
// A Sealer does not know which states have been used: a state can be opened more than
// once.
package requeststate

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/wire"
)

// ErrInvalid says that a state cannot be opened: it was changed, has expired, belongs to
// another principal or request, or was sealed with another key. It does not say which,
// since that would tell an attacker something.
var ErrInvalid = errors.New("requestState is not valid for this request (begin again without it)")

// Kind says what the payload of a state is.
type Kind byte

// The kinds. Their values are part of states, so they must not change.
const (
	// Relay is the state of an upstream, passed on.
	Relay Kind = 1
	// Parked is the id of a call that waits for answers in this process.
	Parked Kind = 2
	// Run is the id of a run of a composite tool that ended with a question.
	Run Kind = 3
	// Task is a task of a server: the server's name and the id that it gave the task.
	// What is sealed is not a requestState but the id of the task that clients see.
	Task Kind = 4
	// Visit is the ids of elicitations that an upstream has asked for with an error.
	Visit Kind = 5
	// Plan is the id of a plan, which says with its digest that it was made here (package
	// plan).
	Plan Kind = 6
)

// Binding is what a state belongs to.
type Binding struct {
	Principal string // who has made the request
	Method    string
	// Params of the request, a raw object. Only the members that stay the same in the
	// next request count: not _meta, inputResponses, and requestState. The order of
	// members and white space do not count either.
	Params []byte
}

// version begins each state, so that its format can change.
const version = 1

// KeySize is the length of a key in bytes.
const KeySize = 32

// Sealer seals and opens states. It is safe for concurrent use.
type Sealer struct {
	aead func() (cipher.AEAD, error)
	now  func() time.Time
}

// New makes a Sealer. key returns a key of KeySize bytes; it is called once, when the key
// is needed. now is the clock.
func New(key func() []byte, now func() time.Time) *Sealer {
	return &Sealer{sync.OnceValues(func() (cipher.AEAD, error) {
		block, err := aes.NewCipher(key())
		if err != nil {
			return nil, err
		}
		return cipher.NewGCMWithRandomNonce(block)
	}), now}
}

// Seal returns a state that can be opened for binding within ttl. It fails if the params
// of the binding are not an object.
func (s *Sealer) Seal(kind Kind, binding Binding, payload []byte, ttl time.Duration) (string, error) {
	bound, err := binding.bytes()
	if err != nil {
		return "", err
	}
	aead, err := s.aead()
	if err != nil {
		return "", err
	}
	plain := make([]byte, 0, 9+len(payload))
	plain = append(plain, byte(kind))
	plain = binary.BigEndian.AppendUint64(plain, uint64(s.now().Add(ttl).UnixMilli()))
	plain = append(plain, payload...)
	sealed := make([]byte, 1, 1+len(plain)+aead.Overhead())
	sealed[0] = version
	return base64.RawURLEncoding.EncodeToString(aead.Seal(sealed, nil, plain, bound)), nil
}

// Open returns what Seal was given. The error is ErrInvalid for every fault.
func (s *Sealer) Open(binding Binding, state string) (kind Kind, payload []byte, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || strings.ContainsAny(state, "\r\n") || // which the decoder skips
		len(sealed) == 0 || sealed[0] != version {
		return 0, nil, ErrInvalid
	}
	bound, err := binding.bytes()
	aead, keyErr := s.aead()
	if err != nil || keyErr != nil {
		return 0, nil, ErrInvalid
	}
	plain, err := aead.Open(nil, nil, sealed[1:], bound)
	if err != nil || len(plain) < 9 {
		return 0, nil, ErrInvalid
	}
	expires := time.UnixMilli(int64(binary.BigEndian.Uint64(plain[1:9])))
	if s.now().After(expires) {
		return 0, nil, ErrInvalid
	}
	return Kind(plain[0]), plain[9:], nil
}

// variable are the members of params that differ between the requests of one exchange.
var variable = []string{"_meta", "inputResponses", "requestState"}

// bytes returns what the seal of a state covers beside the state.
func (b Binding) bytes() ([]byte, error) {
	digest, err := Digest(b.Params)
	if err != nil {
		return nil, err
	}
	var bound []byte
	for _, text := range []string{"mcp-metatool requestState", b.Principal, b.Method, string(digest)} {
		bound = append(strconv.AppendInt(bound, int64(len(text)), 10), ':')
		bound = append(bound, text...)
	}
	return bound, nil
}

// Digest returns a digest of the params of a request, a raw object or nil, that stays the
// same in the next request of an exchange; see [Binding]. It fails if params are not an
// object, or if a name in them appears twice.
func Digest(params []byte) ([]byte, error) {
	if params == nil {
		params = []byte("{}")
	}
	var err error
	for _, name := range variable {
		if params, err = wire.Delete(params, name); err != nil {
			return nil, err
		}
	}
	value := jsontext.Value(append([]byte(nil), params...))
	// Numbers keep their digits: two that differ must not become the same.
	err = value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowInvalidUTF8(false))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(value)
	return sum[:], nil
}
