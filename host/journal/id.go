package journal

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns an id for a run that starts at t: a version 7 UUID (RFC 9562, section 5.7) in lower
// case. The twelve bits after the milliseconds hold the fraction of the millisecond (section 6.2,
// method 3): ids sort by time to about a quarter of a microsecond.
func NewID(t time.Time) string {
	var u [16]byte
	rand.Read(u[8:]) // never fails, see crypto/rand
	ms := t.UnixMilli()
	fraction := t.Sub(time.UnixMilli(ms)) * 4096 / time.Millisecond
	binary.BigEndian.PutUint64(u[:8], uint64(ms)<<16|7<<12|uint64(fraction)&0xfff)
	u[8] = u[8]&0x3f | 0x80

	var text [36]byte
	hex.Encode(text[0:8], u[0:4])
	hex.Encode(text[9:13], u[4:6])
	hex.Encode(text[14:18], u[6:8])
	hex.Encode(text[19:23], u[8:10])
	hex.Encode(text[24:36], u[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}
