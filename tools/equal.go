package tools

import (
	"encoding/json"
	"hash/maphash"
	"math/big"
	"strings"
)

// seed is the seed of all hashes of values. A random seed keeps attackers from provoking
// collisions.
var seed = maphash.MakeSeed()

// number parses a literal exactly.
func (m *meter) number(lit json.Number) *big.Rat {
	m.take(numberCost(string(lit)))
	r, ok := new(big.Rat).SetString(string(lit))
	if !ok {
		return new(big.Rat) // cannot happen: the literal has been parsed as JSON, with a bounded exponent
	}
	return r
}

// numberCost returns the work of parsing a literal and calculating with the number.
func numberCost(lit string) int64 {
	digits := int64(len(lit))
	if strings.ContainsAny(lit, "eE") {
		digits += MaxNumberDigits
	}
	return 500 + 16*digits + digits*digits/256
}

// plainInteger reports whether a literal is an integer without fraction and exponent, the shortest
// form of the value; -0 is not.
func plainInteger(lit string) bool { return lit != "-0" && !strings.ContainsAny(lit, ".eE") }

// isInteger reports whether a number is an integer, in any notation.
func (m *meter) isInteger(lit json.Number) bool {
	return plainInteger(string(lit)) || m.number(lit).IsInt()
}

// canonical returns the same text for numbers with the same value.
func (m *meter) canonical(lit json.Number) string {
	if plainInteger(string(lit)) {
		return string(lit)
	}
	r := m.number(lit)
	m.take(numberCost(string(lit)))
	return r.RatString() // has no denominator for an integer
}

// hash returns the same hash for values equal in JSON Schema.
func (m *meter) hash(v any) uint64 {
	m.take(valueCost)
	text := func(tag byte, s string) uint64 {
		m.text(len(s))
		return maphash.String(seed, s) ^ uint64(tag)
	}
	switch v := v.(type) {
	case nil:
		return 1
	case bool:
		if v {
			return 2
		}
		return 3
	case json.Number:
		return text(4, m.canonical(v))
	case string:
		return text(5, v)
	case []any:
		sum := uint64(6)
		for _, item := range v {
			sum = mix(sum, m.hash(item))
		}
		return sum
	case map[string]any:
		sum := uint64(7)
		for name, member := range v { // must not depend on the order
			sum += mix(text(8, name), m.hash(member))
		}
		return mix(sum, uint64(len(v)))
	}
	return 0
}

func mix(a, b uint64) uint64 { return maphash.Comparable(seed, [2]uint64{a, b}) }

// equal compares values like JSON Schema: numbers by value, objects in any order.
func (m *meter) equal(a, b any) bool {
	m.take(valueCost)
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || m.canonical(a) == m.canonical(b))
	case string:
		b, ok := b.(string)
		if !ok || len(a) != len(b) {
			return false
		}
		m.text(len(a))
		return a == b
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !m.equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && m.equalObjects(a, b)
	default: // null and booleans
		switch b.(type) {
		case nil, bool:
			return a == b
		}
		return false
	}
}

// equalObjects always compares all members: their order is random, and the cost must not
// be.
func (m *meter) equalObjects(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	same := true
	for name := range a {
		m.take(nameCost)
		if _, ok := b[name]; !ok {
			same = false
		}
	}
	if !same {
		return false
	}
	for name, v := range a {
		if !m.equal(v, b[name]) {
			same = false
		}
	}
	return same
}

// valueSet is a set of values, for "enum".
type valueSet map[uint64][]any

func newValueSet(m *meter, values []any) valueSet {
	set := make(valueSet, len(values))
	for _, v := range values {
		h := m.hash(v)
		set[h] = append(set[h], v)
	}
	return set
}

func (s valueSet) contains(m *meter, v any) bool {
	for _, other := range s[m.hash(v)] {
		if m.equal(v, other) {
			return true
		}
	}
	return false
}

// duplicates returns the first item that equals an earlier item, and the earlier item; ok is false
// without duplicates.
func (m *meter) duplicates(items []any) (first, second int, ok bool) {
	size := 4
	for size < 2*len(items) {
		size *= 2
	}
	m.take(int64(size))
	table := make([]int32, size) // indexes from 1, by hash
	hashes := make([]uint64, len(items))
	for i, item := range items {
		m.take(valueCost)
		h := m.hash(item)
		hashes[i] = h
		at := int(h) & (size - 1)
		for ; table[at] != 0; at = (at + 1) & (size - 1) {
			m.take(valueCost)
			if j := int(table[at]) - 1; hashes[j] == h && m.equal(item, items[j]) {
				return j, i, true
			}
		}
		table[at] = int32(i + 1)
	}
	return 0, 0, false
}
