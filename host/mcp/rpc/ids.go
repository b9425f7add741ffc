package rpc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// ids generates the ids of the proxy's requests and their progress tokens. Sessions share a
// connection, and a server's messages on behalf of one session must not reach a request of another.
// So an id or a token cannot be guessed from earlier ids and tokens. No id is generated twice.
//
// Ids are numbers of 30 bits, because some servers store ids in 32 bits. An id is the number of the
// request after a secret permutation. (After 2^30 requests, ids become larger.) Tokens are strings:
// an encrypted id, one of 2^128 values.
//
// The zero value counts from 1 and uses the ids as tokens. Only token and ofToken are safe for
// concurrent use.
type ids struct {
	key  cipher.Block // nil in the zero value
	last int64        // how many ids were generated

	in, out [aes.BlockSize]byte // buffers of round, kept to save allocations
}

// newIDs makes unpredictable ids.
func newIDs() ids {
	var key [16]byte
	_, _ = rand.Read(key[:])            // never fails
	block, err := aes.NewCipher(key[:]) // fails for other sizes only
	if err != nil {
		panic("rpc: " + err.Error())
	}
	return ids{key: block}
}

// next returns a new id.
func (x *ids) next() int64 {
	x.last++
	return x.id(x.last)
}

const (
	idBits   = 30
	halfBits = idBits / 2
	halfMask = 1<<halfBits - 1
	// idRounds rounds of a Feistel network turn a pseudorandom function into a
	// strong pseudorandom permutation (Luby and Rackoff).
	idRounds = 4
)

// id returns the id of the nth request, counted from 1.
func (x *ids) id(nth int64) int64 {
	if x.key == nil {
		return nth
	}
	n := nth - 1
	left, right := n>>halfBits&halfMask, n&halfMask
	for r := range idRounds {
		left, right = right, left^x.round(r, right)
	}
	return n>>idBits<<idBits | left<<halfBits | right + 1
}

// nth returns the number of the request with the given id, even if the id has not been generated.
func (x *ids) nth(id int64) int64 {
	if x.key == nil {
		return id
	}
	n := id - 1
	left, right := n>>halfBits&halfMask, n&halfMask
	for r := idRounds - 1; r >= 0; r-- {
		left, right = right^x.round(r, left), left
	}
	return n>>idBits<<idBits | left<<halfBits | right + 1
}

// issued reports whether id was generated.
func (x *ids) issued(id int64) bool { return id > 0 && x.nth(id) <= x.last }

// round is the round function of the Feistel network.
func (x *ids) round(r int, half int64) int64 {
	x.in[0] = byte(r) + 1 // tokens have 0 in this byte
	binary.BigEndian.PutUint16(x.in[1:], uint16(half))
	x.key.Encrypt(x.out[:], x.in[:])
	return int64(binary.BigEndian.Uint16(x.out[:])) & halfMask
}

// token returns the raw progress token of the request with the given id.
func (x *ids) token(id int64) []byte {
	if x.key == nil {
		return strconv.AppendInt(nil, id, 10)
	}
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[8:], uint64(id))
	x.key.Encrypt(block[:], block[:])
	token := append(make([]byte, 0, 2*len(block)+2), '"')
	return append(hex.AppendEncode(token, block[:]), '"')
}

// ofToken returns the id of the request with the raw progress token raw.
func (x *ids) ofToken(raw []byte) (int64, bool) {
	if x.key == nil {
		id, err := strconv.ParseInt(string(raw), 10, 64)
		return id, err == nil
	}
	var block [aes.BlockSize]byte
	if len(raw) != 2*len(block)+2 || raw[0] != '"' {
		return 0, false
	}
	if _, err := hex.Decode(block[:], raw[1:len(raw)-1]); err != nil {
		return 0, false
	}
	x.key.Decrypt(block[:], block[:])
	id := binary.BigEndian.Uint64(block[8:])
	return int64(id), binary.BigEndian.Uint64(block[:]) == 0 && id != 0 && id>>63 == 0
}
