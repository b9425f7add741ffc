package sandbox

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestNumberOfHostFunctions checks that the documents give the number of host
// functions that there are.
func TestNumberOfHostFunctions(t *testing.T) {
	numbers := []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	want := numbers[len(abiFunctions)]
	told := regexp.MustCompile(`\b(?:reach is|through|boundary is)\s+(` + strings.Join(numbers, "|") + `)\s+functions\b`)
	for _, file := range []string{"README.md", "RATIONALE.md", "docs/security.md"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := told.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s does not say that there are %s host functions", file, want)
		}
		for _, f := range found {
			if f[1] != want {
				t.Errorf("%s says %q, there are %s host functions", file, f[0], want)
			}
		}
	}
}
