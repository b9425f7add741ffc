package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"strconv"
	"time"
)

// Statement is what a signature says about a run, or about a checkpoint.
type Statement struct {
	Run     string // id
	Head    Digest // of its last event
	Events  int    // how many events it has
	Outcome string // see journal.Record.OutcomeName; Checkpoint for one
	Guest   string // SHA-256 of the guest; "" for a checkpoint
	// After is a place in the order of the writer: all up to there had ended before this was
	// signed. The zero value says nothing.
	After Link
	Time  time.Time
	Key   string // id of the key
}

// Checkpoint is the Outcome of a checkpoint.
const Checkpoint = "checkpoint"

// StatementTitle is the first line of the text of a statement, and says which version it is.
const StatementTitle = "mcp-metatool seal 1"

var plain = lazyregexp.New(`^[0-9A-Za-z_.:/-]{1,160}$`)

// Text returns the bytes that are signed: one line for each member. The error says that a member
// has characters that none has.
func (s *Statement) Text() ([]byte, error) {
	b := append([]byte(StatementTitle), '\n')
	for _, m := range [][2]string{
		{"run", s.Run}, {"head", s.Head.String()}, {"events", strconv.Itoa(s.Events)}, {"outcome", s.Outcome},
		{"guest", s.Guest}, {"after", s.After.String()}, {"time", s.Time.UTC().Format(time.RFC3339Nano)}, {"key", s.Key},
	} {
		if m[1] == "" {
			m[1] = "-"
		}
		if !plain.MatchString(m[1]) {
			return nil, fmt.Errorf("cannot be signed: its %s is %.100q", m[0], m[1])
		}
		b = append(append(append(append(b, m[0]...), ' '), m[1]...), '\n')
	}
	return b, nil
}

// Seal is a signature, and what the statement has that the line of the event does not have.
type Seal struct {
	Events    int
	Outcome   string
	Guest     string
	After     Link
	Time      time.Time
	Key       string // id
	Signature [ed25519.SignatureSize]byte
}

// NewSeal returns the seal of a statement with a signature of it.
func NewSeal(s *Statement, signature []byte) (*Seal, error) {
	if len(signature) != ed25519.SignatureSize {
		return nil, fmt.Errorf("an Ed25519 signature has %d bytes, this one %d", ed25519.SignatureSize, len(signature))
	}
	return &Seal{s.Events, s.Outcome, s.Guest, s.After, s.Time, s.Key, [ed25519.SignatureSize]byte(signature)}, nil
}

// Statement returns what the seal says about a run whose last event has that digest.
func (s *Seal) Statement(run string, head Digest) *Statement {
	return &Statement{run, head, s.Events, s.Outcome, s.Guest, s.After, s.Time, s.Key}
}

// ErrSignature says that a signature is not that of the key over the statement.
var ErrSignature = errors.New("the signature is not valid")

// Check checks the signature about a run whose last event has that digest. The error is
// ErrSignature, or says why there is nothing to check.
func (s *Seal) Check(run string, head Digest, key PublicKey) error {
	if s.Key != key.ID() {
		return fmt.Errorf("it is signed with the key %s, not with %s", s.Key, key.ID())
	}
	text, err := s.Statement(run, head).Text()
	if err != nil {
		return err
	}
	if !ed25519.Verify(key.Bytes(), text, s.Signature[:]) {
		return ErrSignature
	}
	return nil
}

// JSON returns the seal as it is in the line of an event.
func (s *Seal) JSON() []byte { return s.append(nil) }

func (s *Seal) append(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"events":`...), int64(s.Events), 10)
	text := func(name, value string) {
		b = append(append(append(b, `,"`...), name...), `":"`...)
		b = append(append(b, value...), '"')
	}
	text("outcome", s.Outcome)
	if s.Guest != "" {
		text("guest", s.Guest)
	}
	if s.After != (Link{}) {
		text("after", s.After.String())
	}
	text("time", s.Time.UTC().Format(time.RFC3339Nano))
	text("key", s.Key)
	text("sig", base64.StdEncoding.EncodeToString(s.Signature[:]))
	return append(b, '}')
}

var errSeal = errors.New("its seal cannot be read")

// parseSeal reads a seal as append writes it, and nothing else.
func parseSeal(raw []byte) (*Seal, error) {
	s, err := Parse(raw)
	if err == nil && !bytes.Equal(s.append(nil), raw) { // another reader may understand it differently
		return nil, errSeal
	}
	return s, err
}

// Parse reads a seal in a receipt, whose members a client may have put into another order.
func Parse(raw []byte) (*Seal, error) {
	var v struct {
		Events                                int
		Outcome, Guest, After, Time, Key, Sig string
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, errSeal
	}
	s := &Seal{Events: v.Events, Outcome: v.Outcome, Guest: v.Guest, Key: v.Key}
	var err error
	if v.After != "" {
		if s.After, err = ParseLink(v.After); err != nil {
			return nil, errSeal
		}
	}
	if s.Time, err = time.Parse(time.RFC3339Nano, v.Time); err != nil {
		return nil, errSeal
	}
	s.Time = s.Time.UTC()
	signature, err := base64.StdEncoding.Strict().DecodeString(v.Sig)
	if err != nil || copy(s.Signature[:], signature) != len(s.Signature) || len(signature) != len(s.Signature) {
		return nil, errSeal
	}
	return s, nil
}

// Signer signs statements. It is safe for concurrent use.
type Signer interface {
	// Sign sets Key in a statement, and signs it. It returns when ctx ends, at the latest.
	Sign(ctx context.Context, s Statement) (*Seal, error)
}

// SignWith signs a statement with a function that returns the signature of a text.
func SignWith(s Statement, key PublicKey, sign func(text []byte) ([]byte, error)) (*Seal, error) {
	s.Key, s.Time = key.ID(), s.Time.UTC().Round(0)
	text, err := s.Text()
	if err != nil {
		return nil, err
	}
	signature, err := sign(text)
	if err != nil {
		return nil, err
	}
	return NewSeal(&s, signature)
}
