// Package seal has the digests and signatures that make a journal verifiable: digests of the events
// of a run, links between ended runs and calls in the order of a writer, and signed statements.
// Begin with Event, Link, Statement and Seal. docs/journal.md describes the format for writers of
// other verifiers.
//
// The package does not know the meaning of events, so events of any kind are covered.
package seal

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Digest is a SHA-256 digest. The text of a Digest has 64 lower-case hexadecimal digits.
type Digest [sha256.Size]byte

// String returns the text; "" for the zero value, which stands for no digest.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return hex.EncodeToString(d[:])
}

// Append appends the text of the digest.
func (d Digest) Append(b []byte) []byte { return hex.AppendEncode(b, d[:]) }

var errDigest = errors.New("is not a SHA-256 digest in 64 lower-case hexadecimal digits")

// ParseDigest reads the text of a digest.
func ParseDigest(text string) (d Digest, err error) {
	if len(text) != 2*len(d) || strings.ToLower(text) != text {
		return d, errDigest
	}
	if _, err := hex.Decode(d[:], []byte(text)); err != nil {
		return Digest{}, errDigest
	}
	return d, nil
}

// The beginnings of hashed texts: no digest of one kind can be taken for a digest of another kind.
const (
	eventDomain = "mcp-metatool journal event 1\n"
	linkDomain  = "mcp-metatool journal link 1\n"
)

// Event returns the digest of an event: of the event's line on disk, without the newline, and
// without the members seal and link (see [Cut]). The line of each event of a run after the first
// has the digest of the previous event, so a digest covers all events up to and including its own
// event.
func Event(line []byte) Digest {
	var head [len(eventDomain) + 8]byte
	copy(head[:], eventDomain)
	binary.BigEndian.PutUint64(head[len(eventDomain):], uint64(len(line)))
	h := sha256.New()
	h.Write(head[:])
	h.Write(line)
	return Digest(h.Sum(nil))
}

// Link is the place of an ended run or call in the order of a writer: the Number from 1 in the
// chain with the given id, and a digest that covers everything up to this place. The zero value is
// no place.
type Link struct {
	Chain  string // 16 lower-case hexadecimal digits
	Number uint64
	Digest Digest
}

// chainBytes is the size of the id of a chain.
const chainBytes = 8

// NewChain returns the beginning of a new chain: with Number 0 and a zero Digest.
func NewChain() Link {
	var id [chainBytes]byte
	_, _ = rand.Read(id[:]) // never fails
	return Link{Chain: hex.EncodeToString(id[:])}
}

// Next returns the link behind l, of an event with the digest head, and with the seal s, or nil.
func (l Link) Next(head Digest, s *Seal) Link {
	b := make([]byte, 0, len(linkDomain)+8+2*chainBytes+8+2*sha256.Size+ed25519.SignatureSize)
	b = append(b, linkDomain...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(l.Chain)))
	b = append(b, l.Chain...)
	b = binary.BigEndian.AppendUint64(b, l.Number+1)
	b = append(append(b, l.Digest[:]...), head[:]...)
	if s != nil {
		b = append(b, s.Signature[:]...)
	}
	return Link{l.Chain, l.Number + 1, sha256.Sum256(b)}
}

// String returns the text of a link: CHAIN/NUMBER/DIGEST; "" for the zero value.
func (l Link) String() string {
	if l == (Link{}) {
		return ""
	}
	return string(l.append(nil))
}

func (l Link) append(b []byte) []byte {
	b = append(append(b, l.Chain...), '/')
	b = append(strconv.AppendUint(b, l.Number, 10), '/')
	return l.Digest.Append(b)
}

var links = lazyregexp.New(`^([0-9a-f]{16})/([1-9][0-9]{0,18})/([0-9a-f]{64})$`)

// ParseLink reads the text of a link.
func ParseLink(text string) (Link, error) {
	m := links.FindStringSubmatch(text)
	if m == nil {
		return Link{}, fmt.Errorf("%.100q is not a link (CHAIN/NUMBER/DIGEST)", text)
	}
	n, _ := strconv.ParseUint(m[2], 10, 64) // the pattern allows at most 19 digits
	d, err := ParseDigest(m[3])
	return Link{m[1], n, d}, err
}

// The members of a line that the line's digest does not cover: they are at the end, in this order.
const (
	sealMember = `,"seal":`
	linkMember = `,"link":"`
)

// MaxLink is the most bytes added by [AppendLink].
const MaxLink = len(linkMember) + 2*chainBytes + 1 + 19 + 1 + 2*sha256.Size + 1

// AppendLink appends the member of a link to a line without the last brace.
func AppendLink(b []byte, l Link) []byte {
	return append(l.append(append(b, linkMember...)), '"')
}

// AppendSeal appends the member of a seal to a line without the last brace.
func AppendSeal(b []byte, s *Seal) []byte { return s.append(append(b, sealMember...)) }

var (
	linkEnd = lazyregexp.New(`,"link":"([0-9a-f]{16}/[1-9][0-9]{0,18}/[0-9a-f]{64})"\}$`)
	sealEnd = lazyregexp.New(`,"seal":(\{"events":[^{}]*\})\}$`)
)

// maxSeal is more than a seal has, in bytes.
const maxSeal = 1024

// Parts is a line without the members outside of the digest, and the values of these members.
type Parts struct {
	Body []byte // ends with a brace
	Seal *Seal  // nil for none
	Link Link   // the zero value for none
}

// Cut splits a line without the newline. Text inside another member cannot be taken for a seal or a
// link, since at least one more brace follows. The error means that the line has an unreadable
// seal.
func Cut(line []byte) (Parts, error) {
	p := Parts{Body: line}
	tail := func() []byte { return p.Body[max(0, len(p.Body)-maxSeal):] }
	without := func(n int) { // the last n bytes, but for the brace
		p.Body = append(bytes.Clone(p.Body[:len(p.Body)-n]), '}')
	}
	if m := linkEnd.FindSubmatch(tail()); m != nil {
		l, err := ParseLink(string(m[1]))
		if err != nil {
			return p, err
		}
		p.Link = l
		without(len(m[0]))
	}
	if m := sealEnd.FindSubmatch(tail()); m != nil {
		s, err := parseSeal(m[1])
		if err != nil {
			return p, err
		}
		p.Seal = s
		without(len(m[0]))
	}
	return p, nil
}

// LastLink returns the link at the end of a line, without the newline; only the end of the line is
// needed. ok is false for a line without a link.
func LastLink(tail []byte) (l Link, ok bool) {
	m := linkEnd.FindSubmatch(tail[max(0, len(tail)-maxSeal):])
	if m == nil {
		return Link{}, false
	}
	l, err := ParseLink(string(m[1]))
	return l, err == nil
}

// WithoutLink returns a line without the newline and without the link.
func WithoutLink(line []byte) []byte {
	m := linkEnd.FindIndex(line[max(0, len(line)-maxSeal):])
	if m == nil {
		return line
	}
	return append(bytes.Clone(line[:max(0, len(line)-maxSeal)+m[0]]), '}')
}

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
