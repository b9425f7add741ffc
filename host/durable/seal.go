package durable

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// NewAEAD returns the cipher for logs, from the key of a store. Other things are encrypted
// with that key, too, so this one is derived from it.
func NewAEAD(key []byte) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, key, nil, "mcp-metatool durable runs 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal encrypts the event of a log with that number, so that it is nothing else in no other
// place.
func (s *Runs) seal(id string, number uint64, data []byte) []byte {
	if s.opts.AEAD == nil {
		return data
	}
	nonce := make([]byte, s.opts.AEAD.NonceSize(), s.opts.AEAD.NonceSize()+len(data)+s.opts.AEAD.Overhead())
	_, _ = rand.Read(nonce) // never fails
	return s.opts.AEAD.Seal(nonce, nonce, data, place(id, number))
}

func (s *Runs) open(id string, number uint64, sealed []byte) ([]byte, error) {
	if s.opts.AEAD == nil {
		return sealed, nil
	}
	size := s.opts.AEAD.NonceSize()
	if len(sealed) < size {
		return nil, fmt.Errorf("run %s: event %d of its log is too short", id, number)
	}
	data, err := s.opts.AEAD.Open(nil, sealed[:size], sealed[size:], place(id, number))
	if err != nil {
		return nil, fmt.Errorf("run %s: event %d of its log was changed, or written with another key", id, number)
	}
	return data, nil
}

// place identifies an event.
func place(id string, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(id+"\x00"), number)
}
