// Package requeststate seals the requestState of answers that ask the client a question (revision
// 2026-07-28, basic/patterns/mrtr). The client returns the state with the answers in a new request.
// Clients are hostile, so a state is encrypted and authenticated, and can only be opened for the
// same principal and the same request, until the state expires.
//
// Begin with Sealer. A Sealer does not know used states: a state can be opened more than once.
// Processes with the same store share a key; see LoadKey.
package requeststate

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ErrInvalid means that a state cannot be opened: the state was changed, has expired, belongs to
// another principal or request, or was sealed with another key. The error does not tell these cases
// apart, since the difference would help an attacker.
var ErrInvalid = errors.New("requestState is not valid for this request (begin again without it)")

// Kind is the meaning of the payload of a state.
type Kind byte

// The kinds. Their values are part of states, so they must not change.
const (
	// Relay is the state of an upstream, passed on.
	Relay Kind = 1
	// Parked is the id of a call that waits for answers in this process.
	Parked Kind = 2
	// Run is the id of a run of a composite tool that ended with a question.
	Run Kind = 3
	// Task is a task of a server: the server's name and the server's id of the task. The sealed
	// text is not a requestState but the id of the task for clients.
	Task Kind = 4
	// Visit is the ids of elicitations requested by an upstream with an error.
	Visit Kind = 5
	// Plan is the id of a plan with the digest, as proof that the plan was made here (package
	// plan).
	Plan Kind = 6
)

// Binding is the origin of a state.
type Binding struct {
	Principal string // who has made the request
	Method    string
	// Params of the request, a raw object. Only members with the same value in the next request
	// count: not _meta, inputResponses, and requestState. The order of members and white space do
	// not count either.
	Params []byte
}

// The versions of the format, which begin each state. In version 2, the home follows the time.
const (
	version     = 1
	versionHome = 2
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Leeway is how much longer a state can be opened by replicas other than the sealing replica, since
// clocks may differ.
const Leeway = time.Hour

// Options of a Sealer shared by the replicas of a fleet.
type Options struct {
	// Keys returns keys of KeySize bytes. The first key seals, all keys open. Keys is called each
	// time, because keys can change.
	Keys func() [][]byte
	// Home is the id of this replica, at most 255 bytes.
	Home string
	Now  func() time.Time
}

// Sealer seals and opens states. A Sealer is safe for concurrent use.
type Sealer struct {
	opts Options

	mu    sync.Mutex // a leaf
	aeads map[string]cipher.AEAD
}

// New makes a Sealer. key returns a key of KeySize bytes; key is called once, when first needed.
// now is the clock.
func New(key func() []byte, now func() time.Time) *Sealer {
	once := sync.OnceValue(func() [][]byte { return [][]byte{key()} })
	return NewShared(Options{Keys: once, Now: now})
}

// NewShared makes a Sealer for a replica of a fleet.
func NewShared(opts Options) *Sealer { return &Sealer{opts: opts, aeads: map[string]cipher.AEAD{}} }

// maxCiphers bounds the kept ciphers.
const maxCiphers = 16

// ciphers returns the ciphers of the keys.
func (s *Sealer) ciphers() ([]cipher.AEAD, error) {
	keys := s.opts.Keys()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]cipher.AEAD, len(keys))
	for i, key := range keys {
		aead := s.aeads[string(key)]
		if aead == nil {
			block, err := aes.NewCipher(key)
			if err != nil {
				return nil, err
			}
			if aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
				return nil, err
			}
			if len(s.aeads) >= maxCiphers {
				clear(s.aeads)
			}
			s.aeads[string(key)] = aead
		}
		all[i] = aead
	}
	return all, nil
}

// Seal returns a state which can be opened for binding within ttl, by any replica. Seal fails if
// the params of the binding are not an object.
func (s *Sealer) Seal(kind Kind, binding Binding, payload []byte, ttl time.Duration) (string, error) {
	return s.seal(kind, binding, "", payload, ttl)
}

// SealHere is Seal for a subject that only this replica has, or knows best; see Home.
func (s *Sealer) SealHere(kind Kind, binding Binding, payload []byte, ttl time.Duration) (string, error) {
	return s.seal(kind, binding, s.opts.Home, payload, ttl)
}

func (s *Sealer) seal(kind Kind, binding Binding, home string, payload []byte, ttl time.Duration) (string, error) {
	format := byte(version)
	if s.opts.Home != "" {
		format = versionHome
	}
	bound, err := binding.bytes(format)
	if err != nil {
		return "", err
	}
	aeads, err := s.ciphers()
	if err != nil {
		return "", err
	}
	plain := make([]byte, 0, 10+len(home)+len(payload))
	plain = append(plain, byte(kind))
	plain = binary.BigEndian.AppendUint64(plain, uint64(s.opts.Now().Add(ttl).UnixMilli()))
	if format == versionHome {
		plain = append(append(plain, byte(len(home))), home...)
	}
	plain = append(plain, payload...)
	sealed := make([]byte, 1, 1+len(plain)+aeads[0].Overhead())
	sealed[0] = format
	return base64.RawURLEncoding.EncodeToString(aeads[0].Seal(sealed, nil, plain, bound)), nil
}

// State has the arguments of Seal or SealHere.
type State struct {
	Kind    Kind
	Home    string // another replica that has the subject of the state; "" for this replica, or any
	Payload []byte

	expires time.Time
}

// Home returns the replica that has the subject of a state; "" for this replica or any, or for an
// invalid state. The expiry is checked by the returned replica.
func (s *Sealer) Home(binding Binding, state string) string {
	if s.opts.Home == "" {
		return ""
	}
	opened, err := s.decrypt(binding, state)
	if err != nil || opened.Home == s.opts.Home {
		return ""
	}
	return opened.Home
}

// Open returns the kind and the payload of a state. The error is ErrInvalid for every fault. The
// clock measures the validity of a state, except for Parked states: they are valid as long as their
// calls wait.
func (s *Sealer) Open(binding Binding, state string) (kind Kind, payload []byte, err error) {
	opened, err := s.OpenState(binding, state)
	return opened.Kind, opened.Payload, err
}

// OpenState is Open, with the home.
func (s *Sealer) OpenState(binding Binding, state string) (State, error) {
	opened, err := s.decrypt(binding, state)
	if err != nil {
		return State{}, err
	}
	switch {
	case opened.Home == s.opts.Home:
		opened.Home = ""
	case s.opts.Home != "": // the other replica may have another clock
		opened.expires = opened.expires.Add(Leeway)
	}
	// The process of a parked call has a timer for the call, and a jump of the clock does not
	// change the timer.
	if opened.Kind != Parked && s.opts.Now().After(opened.expires) {
		return State{}, ErrInvalid
	}
	return opened, nil
}

func (s *Sealer) decrypt(binding Binding, state string) (State, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(state)
	if err != nil || strings.ContainsAny(state, "\r\n") || // which the decoder skips
		len(sealed) == 0 || sealed[0] != version && sealed[0] != versionHome {
		return State{}, ErrInvalid
	}
	bound, err := binding.bytes(sealed[0])
	aeads, keyErr := s.ciphers()
	if err != nil || keyErr != nil {
		return State{}, ErrInvalid
	}
	for _, aead := range aeads {
		if plain, err := aead.Open(nil, nil, sealed[1:], bound); err == nil {
			return parse(sealed[0], plain)
		}
	}
	return State{}, ErrInvalid
}

// parse reads sealed text.
func parse(format byte, plain []byte) (State, error) {
	if len(plain) < 9 {
		return State{}, ErrInvalid
	}
	o := State{Kind: Kind(plain[0]), expires: time.UnixMilli(int64(binary.BigEndian.Uint64(plain[1:9]))), Payload: plain[9:]}
	if format == versionHome {
		if len(o.Payload) == 0 || len(o.Payload) < 1+int(o.Payload[0]) {
			return State{}, ErrInvalid
		}
		n := 1 + int(o.Payload[0])
		o.Home, o.Payload = string(o.Payload[1:n]), o.Payload[n:]
	}
	return o, nil
}

// variable are the members of params that differ between the requests of an exchange.
var variable = []string{"_meta", "inputResponses", "requestState"}

// bytes returns the data that the seal of a state covers in addition to the state.
func (b Binding) bytes(format byte) ([]byte, error) {
	digest, err := Digest(b.Params)
	if err != nil {
		return nil, err
	}
	var bound []byte
	purpose := "mcp-metatool requestState"
	if format != version {
		purpose += " " + strconv.Itoa(int(format))
	}
	for _, text := range []string{purpose, b.Principal, b.Method, string(digest)} {
		bound = append(strconv.AppendInt(bound, int64(len(text)), 10), ':')
		bound = append(bound, text...)
	}
	return bound, nil
}

// Digest returns a digest of the params of a request, a raw object or nil. The digest stays the
// same in the next request of an exchange; see [Binding]. Digest fails if params are not an object,
// or contain a name twice.
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
	// Numbers keep their digits: two different numbers must not become equal.
	err = value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(false),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.AllowInvalidUTF8(false))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(value)
	return sum[:], nil
}

var keyFile = regular.KeyFile[[]byte]{
	Name: "request-state.key", Lock: ".request-state.lock", What: "the key", Limit: KeySize,
	Hint: " (remove the file to make a new key)",
	Parse: func(key []byte) ([]byte, error) {
		if len(key) != KeySize {
			return nil, fmt.Errorf("the key has %d bytes, not %d", len(key), KeySize)
		}
		return key, nil
	},
	New: func() ([]byte, []byte) {
		key := NewKey()
		return key, key
	},
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// LoadKey returns the key of a folder. If the key is missing, LoadKey makes the key and the folder.
// All processes that use the folder get the same key. Only the owner of the file can read the key.
// The error names the file and the remedy.
func LoadKey(ctx context.Context, dir string) ([]byte, error) { return keyFile.Load(ctx, dir) }
