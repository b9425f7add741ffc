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

// Statement is a signed statement about a run, or about a checkpoint.
type Statement struct {
	Run     string // id
	Head    Digest // of the last event
	Events  int    // number of events
	Outcome string // see journal.Record.OutcomeName; Checkpoint for a checkpoint
	Guest   string // SHA-256 of the guest; "" for a checkpoint
	// After is a place in the order of the writer: all runs and calls up to this place had ended
	// before the signature. The zero value makes no statement.
	After Link
	Time  time.Time
	Key   string // id of the key
}

// Checkpoint is the Outcome of a checkpoint.
const Checkpoint = "checkpoint"

// StatementTitle is the first line of the text of a statement, with the version.
const StatementTitle = "mcp-metatool seal 1"

var plain = lazyregexp.New(`^[0-9A-Za-z_.:/-]{1,160}$`)

// Text returns the bytes that are signed: one line for each member. The error means that a member
// has forbidden characters.
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

// Seal is a signature, and the members of the statement that are missing in the line of the event.
type Seal struct {
	Events    int
	Outcome   string
	Guest     string
	After     Link
	Time      time.Time
	Key       string // id
	Signature [ed25519.SignatureSize]byte
}

// NewSeal returns the seal of a statement with a signature of the statement.
func NewSeal(s *Statement, signature []byte) (*Seal, error) {
	if len(signature) != ed25519.SignatureSize {
		return nil, fmt.Errorf("an Ed25519 signature has %d bytes, this one %d", ed25519.SignatureSize, len(signature))
	}
	return &Seal{s.Events, s.Outcome, s.Guest, s.After, s.Time, s.Key, [ed25519.SignatureSize]byte(signature)}, nil
}

// Statement returns the seal's statement about a run with the last event's digest head.
func (s *Seal) Statement(run string, head Digest) *Statement {
	return &Statement{run, head, s.Events, s.Outcome, s.Guest, s.After, s.Time, s.Key}
}

// ErrSignature means that a signature of the key over the statement is not valid.
var ErrSignature = errors.New("the signature is not valid")

// Check checks the signature about a run with the last event's digest head. The error is
// ErrSignature, or the reason why no check is possible.
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

// JSON returns the seal in the form of the line of an event.
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

// parseSeal reads a seal in exactly the form written by append.
func parseSeal(raw []byte) (*Seal, error) {
	s, err := Parse(raw)
	if err == nil && !bytes.Equal(s.append(nil), raw) { // another reader may understand the text differently
		return nil, errSeal
	}
	return s, err
}

// Parse reads a seal in a receipt, perhaps with members reordered by a client.
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

// Signer signs statements. A Signer is safe for concurrent use.
type Signer interface {
	// Sign sets Key in a statement, and signs the statement. Sign returns at the end of ctx, at the
	// latest.
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
