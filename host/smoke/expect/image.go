package expect

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"

	"golang.org/x/image/riff"
	"golang.org/x/image/webp"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// ImageWant says which images are expected in a result.
type ImageWant struct {
	// MIME is the type of at least one image: image/png, image/jpeg, image/gif or image/webp; ""
	// for any.
	MIME string
	// Width and Height are the size of the same image in pixels; 0 for any.
	Width, Height int
	// Count is the number of images; 0 for any number from 1.
	Count int
}

// String returns a phrase such as "an image/png of 10x20".
func (w ImageWant) String() string {
	side := func(n int) string {
		if n == 0 {
			return "?"
		}
		return fmt.Sprint(n)
	}
	s := "an image"
	if w.MIME != "" {
		s = "an " + w.MIME
	}
	if w.Width != 0 || w.Height != 0 {
		s += " of " + side(w.Width) + "x" + side(w.Height)
	}
	return s
}

// MIMETypes are the types that [Image] decodes.
var MIMETypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// maxPixels bounds the memory for decoding.
const maxPixels = 64 << 20

// picture is a decoded image block.
type picture struct {
	mime          string
	width, height int
}

func (p picture) String() string { return fmt.Sprintf("%s of %dx%d", p.mime, p.width, p.height) }

// Image requires that the image blocks of a raw CallToolResult can be decoded, have their declared
// type, and that an image is as expected. Of an animated GIF the first frame is decoded; of an
// animated WebP only the structure is checked. An image of more than 64 Mi pixels is not accepted.
func Image(want ImageWant, result []byte) *Mismatch {
	var pictures []picture
	for i, block := range blocks(result) {
		if kind, _ := wire.GetString(block, "type"); kind != "image" {
			continue
		}
		p, m := readImage(block)
		if m != nil {
			m.Path = fmt.Sprintf("$.content[%d]%s", i, m.Path)
			return m
		}
		pictures = append(pictures, p)
	}
	if len(pictures) == 0 {
		return &Mismatch{Path: "$.content", Message: "the result has no image", Want: want.String(), Got: showContent(result)}
	}
	if want.Count != 0 && len(pictures) != want.Count {
		return &Mismatch{Path: "$.content", Message: "wrong number of images", Want: fmt.Sprint(want.Count), Got: fmt.Sprint(len(pictures))}
	}
	var got []string
	for _, p := range pictures {
		if want.meets(p) {
			return nil
		}
		got = append(got, p.String())
	}
	return &Mismatch{Path: "$.content", Message: "no image is as expected", Want: want.String(), Got: display.ClipSize(strings.Join(got, ", "), maxShown)}
}

func (w ImageWant) meets(p picture) bool {
	return (w.MIME == "" || plainMIME(w.MIME) == p.mime) &&
		(w.Width == 0 || w.Width == p.width) && (w.Height == 0 || w.Height == p.height)
}

// plainMIME returns a media type without parameters, in lower case.
func plainMIME(s string) string {
	s, _, _ = strings.Cut(s, ";")
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "image/jpg" { // wrong, but very common
		return "image/jpeg"
	}
	return s
}

// readImage decodes an image block. The path of a mismatch is relative to the block.
func readImage(block []byte) (picture, *Mismatch) {
	text, ok := wire.GetString(block, "data")
	if !ok {
		return picture{}, &Mismatch{Path: ".data", Message: "the image has no data", Got: display.ClipSize(string(block), maxShown)}
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return picture{}, &Mismatch{Path: ".data", Message: "the image's data is not base64: " + err.Error(), Got: display.ClipSize(text, maxName)}
	}
	says, _ := wire.GetString(block, "mimeType")
	mime, codec := sniff(data)
	switch {
	case codec == nil:
		return picture{}, &Mismatch{
			Path: ".data", Message: "the image's bytes have no known type",
			Want: strings.Join(MIMETypes, ", "), Got: fmt.Sprintf("%q (said to be %q)", data[:min(len(data), 16)], display.ClipSize(says, maxName)),
		}
	case plainMIME(says) != mime:
		return picture{}, &Mismatch{Path: ".mimeType", Message: "the image's type does not match its bytes", Want: mime, Got: display.ClipSize(says, maxName)}
	}
	p, err := codec.read(data)
	if err != nil {
		return picture{}, &Mismatch{Path: ".data", Message: "the " + mime + " cannot be decoded: " + err.Error(), Got: fmt.Sprintf("%d bytes", len(data))}
	}
	p.mime = mime
	return p, nil
}

// codec reads a type of image.
type codec struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

var (
	pngCodec  = &codec{pngConfig, decodePNG}
	jpegCodec = &codec{jpeg.DecodeConfig, jpeg.Decode}
	gifCodec  = &codec{gif.DecodeConfig, gif.Decode}
	webpCodec = &codec{webp.DecodeConfig, webp.Decode}
	// The library does not decode animated ones.
	movingWebPCodec = &codec{webp.DecodeConfig, checkFrames}
)

// sniff detects the type by the first bytes; c is nil for an unknown type.
func sniff(data []byte) (mime string, c *codec) {
	has := func(at int, magic string) bool {
		return len(data) >= at+len(magic) && string(data[at:at+len(magic)]) == magic
	}
	switch {
	case has(0, "\x89PNG\r\n\x1a\n"):
		return "image/png", pngCodec
	case has(0, "\xff\xd8\xff"):
		return "image/jpeg", jpegCodec
	case has(0, "GIF87a") || has(0, "GIF89a"):
		return "image/gif", gifCodec
	case has(0, "RIFF") && has(8, "WEBPVP8X") && len(data) > 20 && data[20]&2 != 0:
		return "image/webp", movingWebPCodec
	case has(0, "RIFF") && has(8, "WEBP"):
		return "image/webp", webpCodec
	}
	return "", nil
}

func (c *codec) read(data []byte) (picture, error) {
	config, err := c.config(bytes.NewReader(data))
	if err != nil {
		return picture{}, err
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxPixels/config.Height {
		return picture{}, fmt.Errorf("its size of %dx%d is not supported (at most %d pixels)", config.Width, config.Height, maxPixels)
	}
	if _, err := c.decode(bytes.NewReader(data)); err != nil {
		return picture{}, err
	}
	return picture{width: config.Width, height: config.Height}, nil
}

// checkFrames reads an animated WebP to the end and requires at least one frame (WebP Container
// Specification, section Animation).
func checkFrames(r io.Reader) (image.Image, error) {
	_, chunks, err := riff.NewReader(r)
	if err != nil {
		return nil, err
	}
	for frames := 0; ; {
		id, _, chunk, err := chunks.Next()
		switch {
		case errors.Is(err, io.EOF) && frames > 0:
			return nil, nil
		case errors.Is(err, io.EOF):
			return nil, errors.New("it has no frames")
		case err != nil:
			return nil, err
		}
		if _, err := io.Copy(io.Discard, chunk); err != nil {
			return nil, err
		}
		if id == (riff.FourCC{'A', 'N', 'M', 'F'}) {
			frames++
		}
	}
}

// decodePNG is png.Decode with the tolerance of image viewers: ancillary chunks (PNG Specification
// 5.4) may be broken, as the chunk of the colour profile often is.
func decodePNG(r io.Reader) (image.Image, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return png.Decode(bytes.NewReader(criticalChunks(data)))
}

// pngConfig is png.DecodeConfig with the same tolerance.
func pngConfig(r io.Reader) (image.Config, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return image.Config{}, err
	}
	return png.DecodeConfig(bytes.NewReader(criticalChunks(data)))
}

// criticalChunks returns a PNG without its ancillary chunks, up to the first incomplete chunk.
func criticalChunks(data []byte) []byte {
	const signature, frame, ancillary = 8, 12, 0x20 // frame: length, type and checksum
	if len(data) < signature {
		return data
	}
	out, rest := bytes.Clone(data[:signature]), data[signature:]
	for len(rest) >= frame {
		size := uint64(binary.BigEndian.Uint32(rest)) + frame
		if size > uint64(len(rest)) {
			break
		}
		if rest[4]&ancillary == 0 {
			out = append(out, rest[:size]...)
		}
		rest = rest[size:]
	}
	return append(out, rest...)
}
