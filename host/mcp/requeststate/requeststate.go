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

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
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

// The versions of the format, which begin each state. In version 2, the home follows the time.
const (
	version     = 1
	versionHome = 2
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Leeway is how much longer a state can be opened by another replica than that which has sealed
// it, since their clocks may differ.
const Leeway = time.Hour

// Options of a Sealer that several replicas of a fleet share.
type Options struct {
	// Keys returns keys of KeySize bytes. The first one seals, all of them open. It is called
	// each time, so that they can change.
	Keys func() [][]byte
	// Home is the id of this replica, at most 255 bytes.
	Home string
	Now  func() time.Time
}

// Sealer seals and opens states. It is safe for concurrent use.
type Sealer struct {
	opts Options

	mu    sync.Mutex // a leaf
	aeads map[string]cipher.AEAD
}

// New makes a Sealer. key returns a key of KeySize bytes; it is called once, when the key
// is needed. now is the clock.
func New(key func() []byte, now func() time.Time) *Sealer {
	once := sync.OnceValue(func() [][]byte { return [][]byte{key()} })
	return NewShared(Options{Keys: once, Now: now})
}

// NewShared makes a Sealer for a replica of a fleet.
func NewShared(opts Options) *Sealer { return &Sealer{opts: opts, aeads: map[string]cipher.AEAD{}} }

// maxCiphers bounds the ciphers that are kept.
const maxCiphers = 16

// ciphers returns those of the keys.
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

// Seal returns a state that can be opened for binding within ttl, by any replica. It fails if the
// params of the binding are not an object.
func (s *Sealer) Seal(kind Kind, binding Binding, payload []byte, ttl time.Duration) (string, error) {
	return s.seal(kind, binding, "", payload, ttl)
}

// SealHere is Seal for what only this replica has, or knows best; see Home.
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

// State is what Seal and SealHere were given.
type State struct {
	Kind    Kind
	Home    string // another replica that has what it is about; "" for this one, or any
	Payload []byte

	expires time.Time
}

// Home returns the replica that has what a state is about; "" if that is this one or any, or if
// the state is not valid. Whether it has expired is for that replica to say.
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

// Open returns what is sealed in a state. The error is ErrInvalid for every fault. How long a state
// is good is measured by the clock, except for Parked ones: they are good as long as their calls wait.
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
	case s.opts.Home != "": // it may have another clock
		opened.expires = opened.expires.Add(Leeway)
	}
	// The process of a parked call has a timer for it, which no jump of a clock changes.
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

// parse reads what was sealed.
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

// variable are the members of params that differ between the requests of one exchange.
var variable = []string{"_meta", "inputResponses", "requestState"}

// bytes returns what the seal of a state covers beside the state.
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
