package tools

import (
	"slices"
	"strings"
	"testing"
)

// TestLabels checks that the labels of a tool are kept in its file, count for its hash, and are
// those of the last session that has saved it.
func TestLabels(t *testing.T) {
	d := Definition{Name: "t", InputSchema: []byte(`{"type":"object"}`), Code: "return 1", Labels: []string{"private", "untrusted"}}
	plain := d
	plain.Labels = nil
	if d.Hash() == plain.Hash() {
		t.Error("the hash is the same without labels")
	}
	file, err := d.File()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseFile(file)
	if err != nil || !slices.Equal(read.Labels, d.Labels) {
		t.Errorf("%v: %v", read.Labels, err)
	}
	if _, err := ParseFile([]byte(strings.Replace(string(file), `"labels": [`, `"labels": [1, `, 1))); err == nil {
		t.Error("labels that are not texts are read")
	}
	s, err := OpenStore(t.TempDir(), StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, labels := range [][]string{{"private"}, nil} {
		d.Labels = labels
		if _, _, err := s.Save(d); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Get("t"); err != nil || !slices.Equal(got.Labels, labels) {
			t.Errorf("saved %v, got %v: %v", labels, got.Labels, err)
		}
	}
}
