package sandbox

import (
	"math/rand/v2"
	"testing"
)

// TestRestore checks for random writes and growth that a mapping has the content of the
// image again, with and without pagemap, and how much memory it may keep.
func TestRestore(t *testing.T) {
	content := contentOf(t, realSandbox(t).base)
	made, err := newImage(content)
	if err != nil {
		t.Fatal(err)
	}
	defer made.Close()
	testRestore(t, made, content, rand.New(rand.NewPCG(1, 1)))
}
