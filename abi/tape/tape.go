// Package tape defines a form of JSON that is read without parsing: numbers and strings are
// decoded, each value has a slot of fixed size, and the members of an object can be read one by
// one. [Tag] describes the format, and [Encode] makes a tape from JSON.
//
// The host encodes the answers of tools (FuncAnswerTape of package abi), which are hostile, and the
// guest reads the parts of an answer used by a script.
package tape

// Tag is the kind of value in a slot.
//
// A tape is a sequence of words of 32 bits, little-endian, followed by the bytes of all strings.
// The first word is the number of words; the next two are the slot of the value. A slot has two
// words. The low four bits of the first word are the tag:
//
//	tag     rest of the first word    second word
//	Null, False, True
//	Int                               the number, signed
//	BigInt  bytes of the literal      their offset among the bytes
//	Float                             index of two words: the bits, the low half first
//	String  bytes                     their offset
//	List    elements                  index of their slots
//	Dict    index of the shape        index of the slots of the values
//
// A shape has the keys of objects, in order and each once: a word with the number of keys, as many
// words with signatures, and two words for each key with its length and offset. Objects with the
// same keys share a shape.
type Tag uint32

// The tags. Int is a number of 32 bits; BigInt is any other integer, as in JSON.
const (
	Null Tag = iota
	False
	True
	Int
	BigInt
	Float
	String
	List
	Dict
)

const (
	// TagBits is the number of bits of a tag.
	TagBits = 4
	// Root is the index of the slot of the value.
	Root = 1
	// SlotWords and KeyWords are the number of words of a slot, and of a key in a shape next to the
	// signature.
	SlotWords, KeyWords = 2, 2
	// MaxText is the largest JSON text for a tape, in bytes. Every number in a tape then fits next
	// to a tag in a word.
	MaxText = 1 << 20
)

// Signature is a short hash of a key. Keys with different ones are different.
func Signature(key string) uint32 {
	n := len(key)
	if n == 0 {
		return 0
	}
	return uint32(n)<<24 | uint32(key[n-1])<<16 | uint32(key[n/2])<<8 | uint32(key[0])
}
