// Package seal has the digests and signatures that make a journal verifiable: digests of the events
// of a run, links between ended runs and calls in the order of a writer, and signed statements.
// Begin with Event, Link, Statement and Seal. docs/journal.md describes the format for writers of
// other verifiers.
//
// The package does not know the meaning of events, so events of any kind are covered.
package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"strconv"
	"strings"
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
