package sandbox

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/api"
)

// TestNumberOfHostFunctions checks that documents state the right number of host
// functions.
func TestNumberOfHostFunctions(t *testing.T) {
	numbers := []string{"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"}
	want := numbers[len(abiFunctions)]
	told := regexp.MustCompile(`\b(?:reach is|through|boundary is)\s+(` + strings.Join(numbers, "|") + `)\s+functions\b`)
	for _, file := range []string{"README.md", "RATIONALE.md", "docs/security.md"} {
		text, err := os.ReadFile("../../../" + file)
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

// plainGlobal is a fuel counter without an instance.
type plainGlobal struct {
	api.MutableGlobal
	value uint64
}

func (g *plainGlobal) Get() uint64      { return g.value }
func (g *plainGlobal) Set(value uint64) { g.value = value }

// TestFuelNumbers checks the worked numbers of docs/abi.md.
func TestFuelNumbers(t *testing.T) {
	text, err := os.ReadFile("../../../docs/abi.md")
	if err != nil {
		t.Fatal(err)
	}
	const limit = 10_000_000
	counter := &plainGlobal{}
	f := fuel{counter: counter, budget: limit, left: limit}
	row := func(when, ends string) {
		t.Helper()
		want := fmt.Sprintf("| %s | %d%s | %d |", when, int64(counter.value), ends, f.left)
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/abi.md lacks %q", want)
		}
	}
	overdraw := func(by int64) bool {
		counter.Set(uint64(-by))
		return f.refill()
	}
	if !f.refill() {
		t.Fatal("no first slice")
	}
	row("before `run`", "")
	if !overdraw(5) {
		t.Fatal("no second slice")
	}
	row("`fuel_out` at -5", "")
	f.left = 3
	if overdraw(7) || f.used() != limit {
		t.Fatalf("goes on after %d units", f.used())
	}
	row("`fuel_out` at -7, with 3 left", ", and the run ends")
}
