package pins

import (
	"slices"
	"testing"
)

// confusable reports whether two names can be taken for each other.
func confusable(a, b string) bool {
	return slices.ContainsFunc(looks(a), func(l string) bool { return slices.Contains(looks(b), l) })
}

func TestConfusable(t *testing.T) {
	for _, pair := range [][2]string{
		{"read_file", "read_file"}, {"read_file", "Read_File"}, {"read_file", "READ_FILE"}, {"read_file", "read-file"},
		{"read_file", "read.file"}, {"read_file", "reаd_file"}, {"read_file", "read\u200b_file"}, {"read_file", "ｒead_file"},
		{"list", "1ist"}, {"list", "Iist"}, {"log0", "logO"}, {"é", "e\u0301"}, {"straße", "STRASSE"}, {"corn", "com"},
		{"read_file", "read\u2010file"}, {"read_file", "read file"}, {"a\ufe0fb", "ab"},
	} {
		if !confusable(pair[0], pair[1]) || !confusable(pair[1], pair[0]) {
			t.Errorf("%q and %q look different", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"read_file", "read_files"}, {"read_file", "readfile"}, {"get_a", "get_b"}, {"", "a"}, {"search", "research"},
	} {
		if confusable(pair[0], pair[1]) {
			t.Errorf("%q and %q look alike", pair[0], pair[1])
		}
	}
}
