package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
)

// contains reports whether got contains want. An object contains another if each member
// of the other is there and contains the other's value. An array contains another if
// each item of the other is contained in one of its items. Other values must be equal;
// numbers are compared by value.
func contains(got, want []byte) bool {
	g, errGot := parse(got)
	w, errWant := parse(want)
	return errGot == nil && errWant == nil && within(g, w)
}

func parse(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

func within(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		for name, w := range want {
			g, has := got[name]
			ok = ok && has && within(g, w)
		}
		return ok
	case []any:
		got, ok := got.([]any)
		for _, w := range want {
			ok = ok && anyWithin(got, w)
		}
		return ok
	case json.Number:
		got, ok := got.(json.Number)
		return ok && sameNumber(got.String(), want.String())
	}
	return got == want // string, bool or nil; other types are not equal to these
}

func anyWithin(items []any, want any) bool {
	for _, item := range items {
		if within(item, want) {
			return true
		}
	}
	return false
}

// numberBits is the precision with which numbers are compared: integers of up to 150
// digits are exact.
const numberBits = 512

// sameNumber compares JSON numbers by value. Unlike a big.Rat, a big.Float needs little
// memory for any exponent.
func sameNumber(a, b string) bool {
	x, _, errX := big.ParseFloat(a, 10, numberBits, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, numberBits, big.ToNearestEven)
	if errX != nil || errY != nil { // out of range
		return a == b
	}
	return x.Cmp(y) == 0
}
