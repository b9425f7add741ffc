package rpc

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"
)

// ids gives out the ids of our requests and the progress tokens that belong to
// them. Sessions share a connection, and what one of them has a server send must
// not hit a request of another: so nobody can tell an id or a token from those
// that he has seen. No id is given out twice.
//
// Ids are numbers of 30 bits, because there are servers that keep them in 32:
// the number of the request in a secret order. (After 2^30 requests they grow.)
// Tokens are text: an id, encrypted, so that there are 2^128 to guess from.
//
// The zero value counts from 1 and has its ids for tokens. It is not safe for
// concurrent use, but for token and ofToken.
type ids struct {
	key  cipher.Block // nil in the zero value
	last int64        // how many were given out

	in, out [aes.BlockSize]byte // of round: here, they are no garbage
}

// newIDs makes ids that cannot be guessed.
func newIDs() ids {
	var key [16]byte
	_, _ = rand.Read(key[:])            // never fails
	block, err := aes.NewCipher(key[:]) // fails for other sizes only
	if err != nil {
		panic("rpc: " + err.Error())
	}
	return ids{key: block}
}

// next is a new id.
func (x *ids) next() int64 {
	x.last++
	return x.id(x.last)
}

const (
	idBits   = 30
	halfBits = idBits / 2
	halfMask = 1<<halfBits - 1
	// idRounds of a Feistel network make a pseudorandom permutation of a
	// pseudorandom function, also for whoever knows both sides (Luby and Rackoff).
	idRounds = 4
)

// id is that of the nth request, from 1.
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

// nth is the number of the request with that id, which need not have been given
// out.
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

// issued tells whether id was given out.
func (x *ids) issued(id int64) bool { return id > 0 && x.nth(id) <= x.last }

// round is the function of a round of the network.
func (x *ids) round(r int, half int64) int64 {
	x.in[0] = byte(r) + 1 // tokens have 0 there
	binary.BigEndian.PutUint16(x.in[1:], uint16(half))
	x.key.Encrypt(x.out[:], x.in[:])
	return int64(binary.BigEndian.Uint16(x.out[:])) & halfMask
}

// token is the raw progress token of the request with that id.
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

// ofToken is the id of the request that raw is the token of.
func (x *ids) ofToken(raw []byte) (int64, bool) {
	if x.key == nil {
		return ownID(raw)
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
