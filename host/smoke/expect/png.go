package expect

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/png"
	"io"
)

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
