package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"
)

// contains tells whether all of want is in got: an object has at least the
// members of want, each of which contains that of want; an array has for each
// item of want one that contains it; other values are the same. Numbers are the
// same that have the same value.
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
	return got == want // string, bool or nil; what is of another type is not the same
}

func anyWithin(items []any, want any) bool {
	for _, item := range items {
		if within(item, want) {
			return true
		}
	}
	return false
}

// numberBits is the precision in which numbers are compared: integers of 150
// digits are exact.
const numberBits = 512

// sameNumber compares numbers as JSON writes them. A big.Float holds any
// exponent in little memory, unlike a big.Rat.
func sameNumber(a, b string) bool {
	x, _, errX := big.ParseFloat(a, 10, numberBits, big.ToNearestEven)
	y, _, errY := big.ParseFloat(b, 10, numberBits, big.ToNearestEven)
	if errX != nil || errY != nil { // out of any range
		return a == b
	}
	return x.Cmp(y) == 0
}
