// Package tape defines a form of JSON that is read without parsing: numbers and strings
// are decoded, each value has a slot of fixed size, and the members of an object can be
// read one by one. The host encodes the answers of tools (FuncAnswerTape of package abi),
// which are hostile, and the guest reads them, when a script uses them.
//
//	tape.go    the format
//	encode.go  from JSON to a tape
//	parse.go   strings and numbers
//
// A tape is a sequence of words of 32 bits, little-endian, with the bytes of all strings
// behind them. The first word is the number of words; the next two are the slot of the
// value. A slot has two words. The low four bits of the first one are its tag:
//
//	tag     rest of the first word    second word
//	Null, False, True
//	Int                               the number, signed
//	BigInt  bytes of its literal      their offset among the bytes
//	Float                             index of two words: its bits, the low half first
//	String  bytes                     their offset
//	List    elements                  index of their slots
//	Dict    index of its shape        index of the slots of its values
//
// A shape has the keys of objects, in their order and each once: a word with their
// number, as many words with their signatures, and two for each with its length and
// its offset. Objects with the same keys share a shape.
package tape

// Tag says what a slot holds.
type Tag uint32

// The tags. Int is a number of 32 bits; BigInt is any other integer, as JSON has it.
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
	// SlotWords and KeyWords are the number of words of a slot, and of a key in a shape
	// beside its signature.
	SlotWords, KeyWords = 2, 2
	// MaxText is how much JSON can become a tape, in bytes. Every number in it then fits
	// in what a tag leaves of a word.
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
