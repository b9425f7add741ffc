//go:build !linux

package sandbox

// newImage returns an image with a copy of content.
func newImage(content []byte) (image, error) { return newCopyImage(content), nil }
