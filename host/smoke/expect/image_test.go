package expect

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// samples returns an image of 3x2 pixels in each type (1x1 in WebP).
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	m := image.NewPaletted(image.Rect(0, 0, 3, 2), color.Palette{color.Black, color.White})
	encode := func(f func(*bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := f(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	// A WebP (VP8L) of one pixel: x/image has no encoder.
	still, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{
		"image/png":  encode(func(b *bytes.Buffer) error { return png.Encode(b, m) }),
		"image/jpeg": encode(func(b *bytes.Buffer) error { return jpeg.Encode(b, m, nil) }),
		"image/gif":  encode(func(b *bytes.Buffer) error { return gif.Encode(b, m, nil) }),
		"image/webp": still,
	}
}

// animatedWebP returns a WebP of 3x2 pixels with the given number of frames. The content of
// the frames does not matter.
func moving(frames int) []byte {
	chunk := func(id string, data []byte) []byte {
		return append(binary.LittleEndian.AppendUint32([]byte(id), uint32(len(data))), data...)
	}
	body := []byte("WEBP")
	body = append(body, chunk("VP8X", []byte{2, 0, 0, 0, 2, 0, 0, 1, 0, 0})...)
	body = append(body, chunk("ANIM", make([]byte, 6))...)
	for range frames {
		body = append(body, chunk("ANMF", make([]byte, 24))...)
	}
	return chunk("RIFF", body)
}

func block(mime string, data []byte) string {
	return fmt.Sprintf(`{"type":"image","mimeType":%s,"data":"%s"}`, wire.Quote(mime), base64.StdEncoding.EncodeToString(data))
}

func result(blocks ...string) []byte {
	return []byte(`{"content":[` + strings.Join(blocks, ",") + `]}`)
}

func TestImage(t *testing.T) {
	files := samples(t)
	for _, mime := range MIMETypes {
		data := files[mime]
		width, height := 3, 2
		if mime == "image/webp" {
			width, height = 1, 1
		}
		want := ImageWant{MIME: mime, Width: width, Height: height, Count: 1}
		if m := Image(want, result(block(mime, data))); m != nil {
			t.Errorf("%s: %v", mime, m)
		}
		if m := Image(ImageWant{}, result(`{"type":"text","text":"x"}`, block(mime, data), block(mime, data))); m != nil {
			t.Errorf("%s: %v", mime, m)
		}
		for _, other := range []ImageWant{{MIME: "image/bmp"}, {Width: 9}, {Height: 9}, {Count: 2}} {
			if m := Image(other, result(block(mime, data))); m == nil || m.Path != "$.content" {
				t.Errorf("%s is taken as %v: %v", mime, other, m)
			}
		}
		if m := Image(ImageWant{}, result(block(mime, data[:len(data)-5]))); m == nil || !strings.Contains(m.Message, "cannot be decoded") {
			t.Errorf("half a %s: %v", mime, m)
		}
		wrong := MIMETypes[(slices.Index(MIMETypes, mime)+1)%len(MIMETypes)]
		if m := Image(ImageWant{}, result(block(wrong, data))); m == nil || m.Path != "$.content[0].mimeType" || m.Want != mime || m.Got != wrong {
			t.Errorf("%s said to be %s: %+v", mime, wrong, m)
		}
	}
	// Any of the images may be the expected one.
	both := result(block("image/png", files["image/png"]), block("image/jpeg; q=1", files["image/jpeg"]))
	if m := Image(ImageWant{MIME: "image/jpg", Width: 3, Count: 2}, both); m != nil {
		t.Error(m)
	}
}

func TestBadImages(t *testing.T) {
	huge := slices.Clone(samples(t)["image/gif"])
	binary.LittleEndian.PutUint16(huge[6:], 65535)
	binary.LittleEndian.PutUint16(huge[8:], 65535)
	tests := []struct {
		name   string
		result []byte
		says   string
	}{
		{"none", result(`{"type":"text"}`), "at $.content: the result has no image"},
		{"no content", []byte(`{}`), "at $.content: the result has no image"},
		{"no data", result(`{"type":"image","mimeType":"image/png"}`), "at $.content[0].data: the image has no data"},
		{"no base64", result(`{"type":"text"}`, `{"type":"image","data":"#"}`), "at $.content[1].data: the image's data is not base64: illegal base64 data at input byte 0"},
		{"unknown", result(block("image/png", []byte("<svg/>"))), "at $.content[0].data: the image's bytes have no known type"},
		{"empty", result(block("image/png", nil)), "at $.content[0].data: the image's bytes have no known type"},
		{"bomb", result(block("image/gif", huge)), "at $.content[0].data: the image/gif cannot be decoded: its size of 65535x65535 is not supported (at most 67108864 pixels)"},
		{"moving", result(block("image/webp", moving(2))), ""},
		{"not moving", result(block("image/webp", moving(0))), "at $.content[0].data: the image/webp cannot be decoded: it has no frames"},
		{"half moving", result(block("image/webp", moving(2)[:70])), "at $.content[0].data: the image/webp cannot be decoded: riff: short chunk data"},
	}
	for _, tt := range tests {
		if says := said(Image(ImageWant{}, tt.result)); says != tt.says {
			t.Errorf("%s: %q, want %q", tt.name, says, tt.says)
		}
	}
}

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
