package guestbuild

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// Pack compresses a guest for GuestFile. Only the result of Unpack matters: another version of Go
// may compress into other bytes.
func Pack(wasm []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(wasm)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // cannot happen: the level exists, and a buffer takes everything
	}
	return packed.Bytes()
}

// Unpack returns the guest in the content of GuestFile.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", GuestFile, err)
	}
	wasm, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", GuestFile, err)
	}
	return wasm, nil
}
