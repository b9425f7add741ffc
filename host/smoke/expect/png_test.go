package expect

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/png"
	"testing"
)

// chunk returns a chunk of a PNG. A nonzero wrong makes its checksum invalid.
func chunk(kind, data string, wrong uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, kind...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:])+wrong)
}

// TestPNGChunks decodes images with another chunk after the header.
func TestPNGChunks(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 3))); err != nil {
		t.Fatal(err)
	}
	const header = 8 + 25
	for _, tt := range []struct {
		name string
		more []byte
		bad  bool
	}{
		{"nothing", nil, false},
		{"a profile that is broken", chunk("iCCP", "x", 1), false},
		{"a palette that is broken", chunk("PLTE", "abc", 1), true},
		{"something cut off", []byte("\xff\xff\xff\xffiCCP"), true},
	} {
		data := append(append(bytes.Clone(b.Bytes()[:header]), tt.more...), b.Bytes()[header:]...)
		p, err := pngCodec.read(data)
		if (err != nil) != tt.bad || err == nil && (p.width != 2 || p.height != 3) {
			t.Errorf("%s: %+v, %v", tt.name, p, err)
		}
	}
	for n := range b.Bytes() {
		if _, err := pngCodec.read(b.Bytes()[:n]); err == nil {
			t.Errorf("the first %d of %d bytes decode", n, b.Len())
		}
	}
}
