package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// What is sealed begins with version, the length of the id of the key, and that id. Then comes
// a random nonce of 12 bytes, and the ciphertext of AES-256-GCM with its tag.
//
// Each log, document and blob has a key of its own, derived from that of the fleet with
// HKDF-SHA256, so that random nonces are enough: nobody writes 2³² events to one log.
const version = 1

// place is what something sealed belongs to.
type place struct {
	kind string
	// object is what has a key of its own, and in it is where in the object.
	object, in []string
}

// bytes returns the place as a text that no other place has.
func (p *place) bytes() []byte { return encode(append(append([]string{p.kind}, p.object...), p.in...)) }

// encode puts the length before each text.
func encode(texts []string) []byte {
	var b []byte
	for _, text := range texts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	return b
}

// derived has the keys that are derived from one of the fleet.
type derived struct {
	secret [KeySize]byte

	mu    sync.Mutex // a leaf
	aeads map[string]cipher.AEAD
}

// maxDerived is how many derived keys are kept.
const maxDerived = 1024

// aead returns the cipher of an object.
func (d *derived) aead(p *place) (cipher.AEAD, error) {
	object := string(encode(append([]string{p.kind}, p.object...)))
	d.mu.Lock()
	aead := d.aeads[object]
	d.mu.Unlock()
	if aead != nil {
		return aead, nil
	}
	key, err := d.key(object)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	if aead, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.aeads == nil || len(d.aeads) >= maxDerived {
		d.aeads = map[string]cipher.AEAD{}
	}
	d.aeads[object] = aead
	return aead, nil
}

func (d *derived) key(info string) ([]byte, error) {
	return hkdf.Key(sha256.New, d.secret[:], nil, "mcp-metatool store\x00"+info, KeySize)
}

// seal seals first and data together.
func (r *Ring) seal(p place, first, data []byte) ([]byte, error) {
	now := r.now.Load()
	aead, err := now.keys[now.current].aead(&p)
	if err != nil {
		return nil, err
	}
	head := header(now.current)
	plain := make([]byte, 0, len(first)+len(data))
	plain = append(append(plain, first...), data...)
	sealed := make([]byte, len(head), len(head)+len(plain)+aead.Overhead())
	copy(sealed, head)
	return aead.Seal(sealed, nil, plain, append(p.bytes(), head...)), nil
}

// header returns the beginning of what is sealed with a key.
func header(id string) []byte { return append([]byte{version, byte(len(id))}, id...) }

// keyOf returns the key of something that is sealed, and what comes behind the header.
func (r *Ring) keyOf(what string, sealed []byte) (d *derived, head, rest []byte, err error) {
	if len(sealed) < 2 || sealed[0] != version || len(sealed) < 2+int(sealed[1]) {
		return nil, nil, nil, &store.CorruptError{What: what, Reason: "is not sealed"}
	}
	head, rest = sealed[:2+int(sealed[1])], sealed[2+int(sealed[1]):]
	id := string(head[2:])
	if d = r.now.Load().keys[id]; d == nil {
		if !keyIDs.MatchString(id) {
			return nil, nil, nil, &store.CorruptError{What: what, Reason: "is not sealed"}
		}
		return nil, nil, nil, &KeyError{what, id}
	}
	return d, head, rest, nil
}

// open opens what seal has returned. The error is a *store.CorruptError or a *KeyError.
func (r *Ring) open(what string, p place, sealed []byte) ([]byte, error) {
	d, head, rest, err := r.keyOf(what, sealed)
	if err != nil {
		return nil, err
	}
	aead, err := d.aead(&p)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nil, rest, append(p.bytes(), head...))
	if err != nil {
		return nil, &store.CorruptError{What: what, Reason: "cannot be opened: it was changed, belongs somewhere else, or is sealed with another key"}
	}
	return plain, nil
}

// A blob is sealed so that the same blob gives the same bytes: its key is derived from a code of
// its content, which is written before the ciphertext. No two blobs have the same key, so the
// nonce is always zero.

// code returns the code of a blob.
func (d *derived) code(space string, data []byte) ([]byte, error) {
	key, err := d.key(string(encode([]string{"blob code", space})))
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, key)
	h.Write(data)
	return h.Sum(nil), nil
}

func (d *derived) blobCipher(space string, code []byte) (cipher.AEAD, error) {
	key, err := d.key(string(encode([]string{"blob", space, string(code)})))
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (r *Ring) sealBlob(space string, data []byte) ([]byte, error) {
	now := r.now.Load()
	d := now.keys[now.current]
	code, err := d.code(space, data)
	if err != nil {
		return nil, err
	}
	aead, err := d.blobCipher(space, code)
	if err != nil {
		return nil, err
	}
	sealed := append(header(now.current), code...)
	return aead.Seal(sealed, make([]byte, aead.NonceSize()), data, sealed), nil
}

func (r *Ring) openBlob(what, space string, sealed []byte) ([]byte, error) {
	d, head, rest, err := r.keyOf(what, sealed)
	if err != nil {
		return nil, err
	}
	if len(rest) < sha256.Size {
		return nil, &store.CorruptError{What: what, Reason: "is not sealed"}
	}
	code := rest[:sha256.Size]
	aead, err := d.blobCipher(space, code)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, make([]byte, aead.NonceSize()), rest[len(code):], sealed[:len(head)+len(code)])
	if err != nil {
		return nil, &store.CorruptError{What: what, Reason: "cannot be opened: it was changed, or is sealed with another key"}
	}
	return plain, nil
}
