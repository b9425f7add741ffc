package verify

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
)

var long = flag.Bool("long", false, "flip every bit of a record")

func TestVerified(t *testing.T) {
	result := verified(t, recorded(t, "order", signed()))
	r := result.Runs[0]
	if !result.Verified() || r.Runs != 2 || r.Compared.Calls != 4 || r.Fuel == 0 || r.Redacted || r.Key != testKey.Public().ID() {
		t.Errorf("%s", result.Text())
	}
	for _, want := range []string{": verified\n", "the same again with the guest", "not proven:", "the truth of servers' answers"} {
		if !strings.Contains(result.Text(), want) {
			t.Errorf("no %q in\n%s", want, result.Text())
		}
	}
}

// TestRedacted checks that redaction keeps the chain whole, and that the report says what it hides.
func TestRedacted(t *testing.T) {
	lines := recorded(t, "plain", masked())
	if bytes.Contains(bytes.Join(lines, nil), []byte("hunter2")) || !bytes.Contains(bytes.Join(lines, nil), []byte("****")) {
		t.Fatal("not redacted")
	}
	result := verified(t, lines)
	if !result.Verified() || !result.Runs[0].Redacted || !strings.Contains(result.Text(), "identical but for redaction") {
		t.Errorf("%s", result.Text())
	}
	if result := verified(t, edit(t, lines, "****", "*****")); result.Verified() {
		t.Error("verified although what was redacted was changed")
	}
}

// TestForged changes records like an attacker who knows the format: with the digests made whole
// again, and signed with another key or, to see that a run is executed, with the right one.
func TestForged(t *testing.T) {
	lines := recorded(t, "order", signed())
	other := seal.FromSeed(bytes.Repeat([]byte{8}, 32))
	if result := verified(t, forge(t, lines, testKey)); !result.Verified() {
		t.Fatalf("forge itself changes something:\n%s", result.Text())
	}
	secondCall := lines[len(lines)-3:] // call, answer, end
	for _, c := range []struct {
		name  string
		lines [][]byte
		step  Step // that fails if the right key has signed it
	}{
		{"answer", edit(t, lines, `"price":41`, `"price":42`), Execution},
		{"result", edit(t, lines, `"result":{"total":42}`, `"result":{"total":43}`), Execution},
		{"log", edit(t, lines, `total 42`, `total 43`), Execution},
		{"fuel", edit(t, lines, `"fuel":`, `"fuel":1`), Execution},
		{"call removed", slices.Concat(lines[:len(lines)-3], secondCall[2:]), Execution},
		{"call moved", swap(t, lines, `"arguments":{"total":42}`, `"arguments":{"total":0}`), Execution},
		{"limit raised", edit(t, lines, `"fuel":10000000000`, `"fuel":20000000000`), ""},
		{"code", edit(t, lines, `+ 1\n`, `+ 2\n`), Execution},
		{"guest", edit(t, lines, sandbox.GuestDigest(), strings.Repeat("ab", 32)), Execution},
		{"outcome", edit(t, lines, `"outcome":"ok"`, `"outcome":"tool"`), Execution},
		{"run below removed", without(t, lines, `"parent":`), Chain},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, attack := range []struct {
				name  string
				lines [][]byte
			}{
				{"as it is", c.lines},
				{"another key", forge(t, c.lines, other)},
				{"another key with the id of the right one", edit(t, forge(t, c.lines, other), other.Public().ID(), testKey.Public().ID())},
				{"the seal of before", resealed(t, forge(t, c.lines, other), lines)},
				{"unsigned", unsealed(t, forge(t, c.lines, other))},
			} {
				if slices.EqualFunc(attack.lines, lines, bytes.Equal) {
					continue // the change was in the seal
				}
				if result := verified(t, attack.lines); result.Verified() || len(result.Runs) > 0 && result.Runs[0].Failed == Execution {
					t.Errorf("%s:\n%s", attack.name, result.Text())
				}
			}
			result := verified(t, forge(t, c.lines, testKey))
			switch {
			case c.step == "" && !result.Verified():
				t.Errorf("with the right key:\n%s", result.Text())
			case c.step != "" && (result.Verified() || len(result.Runs) > 0 && result.Runs[0].Failed != c.step):
				t.Errorf("with the right key:\n%s", result.Text())
			}
		})
	}
}

// swap swaps two texts.
func swap(t *testing.T, lines [][]byte, a, b string) [][]byte {
	return edit(t, edit(t, edit(t, lines, a, "@@"), b, a), "@@", b)
}

// resealed takes the seal from other lines.
func resealed(t *testing.T, lines, from [][]byte) [][]byte {
	t.Helper()
	p, err := seal.Cut(from[len(from)-1])
	if err != nil {
		t.Fatal(err)
	}
	lines = unsealed(t, lines)
	last := bytes.TrimSuffix(lines[len(lines)-1], []byte("}"))
	lines[len(lines)-1] = append(seal.AppendSeal(bytes.Clone(last), p.Seal), '}')
	return lines
}

func unsealed(t *testing.T, lines [][]byte) [][]byte {
	t.Helper()
	p, err := seal.Cut(lines[len(lines)-1])
	if err != nil {
		t.Fatal(err)
	}
	lines = slices.Clone(lines)
	lines[len(lines)-1] = p.Body
	return lines
}

// TestAnyChangeIsFound makes every kind of a single change at every line of a record.
func TestAnyChangeIsFound(t *testing.T) {
	lines := recorded(t, "plain", signed())
	tries := 0
	try := func(what string, changed [][]byte) {
		t.Helper()
		tries++
		if result := verified(t, changed); result.Verified() {
			t.Errorf("%s is not found", what)
		}
	}
	replaced := func(i int, with ...[]byte) [][]byte { return slices.Concat(lines[:i], with, lines[i+1:]) }
	for i, line := range lines {
		try(fmt.Sprintf("line %d dropped", i), replaced(i))
		try(fmt.Sprintf("line %d twice", i), replaced(i, line, line))
		try(fmt.Sprintf("line %d at the end again", i), append(slices.Clone(lines), line))
		if i > 0 {
			try(fmt.Sprintf("line %d swapped", i), slices.Concat(lines[:i-1], [][]byte{line, lines[i-1]}, lines[i+1:]))
			try(fmt.Sprintf("cut off before line %d", i), lines[:i])
		}
		for at := range line {
			bits := []int{at % 8}
			if *long {
				bits = []int{0, 1, 2, 3, 4, 5, 6, 7}
			}
			for _, bit := range bits {
				flipped := bytes.Clone(line)
				flipped[at] ^= 1 << bit
				all := bytes.Join(replaced(i, flipped), []byte("\n"))
				again, err := Lines(bytes.NewReader(all)) // a flipped bit can make a newline
				if err != nil {
					t.Fatal(err)
				}
				try(fmt.Sprintf("line %d, byte %d, bit %d", i, at, bit), again)
			}
			if at%17 == 0 {
				try(fmt.Sprintf("line %d cut at byte %d", i, at), replaced(i, line[:at]))
				try(fmt.Sprintf("line %d with a space at byte %d", i, at), replaced(i, slices.Concat(line[:at], []byte(" "), line[at:])))
			}
		}
	}
	if tries < 1000 {
		t.Errorf("only %d changes", tries)
	}
}

// TestMixedRuns mixes records of two runs.
func TestMixedRuns(t *testing.T) {
	a, b := recorded(t, "plain", signed()), recorded(t, "plain", signed())
	if result := verified(t, slices.Concat(a, b)); !result.Verified() || len(result.Runs) != 2 {
		t.Fatalf("%s", result.Text())
	}
	_, idA, _ := readHead(a[0])
	_, idB, _ := readHead(b[0])
	for i := range b {
		mixed := slices.Clone(a)
		mixed[i] = b[i] // an event of the other run
		if verified(t, mixed).Verified() {
			t.Errorf("event %d of another run", i)
		}
		mixed[i] = bytes.ReplaceAll(b[i], []byte(idB), []byte(idA)) // under the name of this one
		if verified(t, mixed).Verified() {
			t.Errorf("event %d of another run, renamed", i)
		}
	}
	if verified(t, edit(t, b, idB, idA)).Verified() {
		t.Error("a run under the id of another one")
	}
	if verified(t, slices.Concat(a, edit(t, b, idB, idA))).Verified() {
		t.Error("two runs with one id")
	}
	if verified(t, resealed(t, a, b)).Verified() {
		t.Error("the seal of another run")
	}
}

// TestTwoReaders gives lines that two readers can understand in two ways, signed with the right key.
func TestTwoReaders(t *testing.T) {
	lines := recorded(t, "plain", signed())
	for _, c := range [][2]string{
		{`"result":41`, `"result":42,"result":41`},
		{`"result":41`, `"Result":42,"result":41`},
		{`"result":41`, `"resul\u0074":42,"result":41`},
		{`"result":41`, `"resultText":"42","result":41`},
		{`"result":41`, `"resultBase64":"NDI=","result":41`},
		{`"asked":{"server":"shop"`, `"asked":{"server":"bank","server":"shop"`},
		{`"limits":{"timeout"`, `"limits":{"fuel":1,"timeout"`},
		{`"entries":[{`, `"entries":[{"text":"x",`},
	} {
		result := verified(t, forge(t, edit(t, lines, c[0], c[1]), testKey))
		if result.Verified() || len(result.Problems) == 0 || !strings.Contains(result.Problems[0], "twice") {
			t.Errorf("%s: %s", c[1], result.Text())
		}
	}
}

// TestNotUnderstood checks that what this version does not understand is not verified.
func TestNotUnderstood(t *testing.T) {
	lines := recorded(t, "plain", signed())
	_, id, _ := readHead(lines[0])
	added := slices.Insert(slices.Clone(lines), 2, []byte(`{"t":"verdict","run":"`+id+`","allowed":false}`))
	result := verified(t, forge(t, added, testKey))
	if result.Verified() || !strings.Contains(result.Text(), `kind "verdict", which this version does not understand`) {
		t.Errorf("%s", result.Text())
	}
	later := forge(t, edit(t, lines, `"v":1,`, `"v":2,`), testKey)
	if result := verified(t, later); result.Verified() || !strings.Contains(result.Text(), "later version") {
		t.Errorf("%s", result.Text())
	}
	incomplete := forge(t, edit(t, lines, `"result":41`, `"result":41,"incomplete":true`), testKey)
	if result := verified(t, incomplete); result.Verified() {
		t.Errorf("%s", result.Text())
	}
}

// TestContinued checks the link to the run that a run continues.
func TestContinued(t *testing.T) {
	lines := recorded(t, "plain", signed())
	head := seal.Event([]byte("the run before")).String()
	continued := forge(t, edit(t, lines, `,"v":1`, `,"continues":"01a1","v":1,"continuesHead":"`+head+`"`), testKey)
	dead := forge(t, edit(t, lines, `,"v":1`, `,"continues":"01a1","v":1`), testKey)
	for _, c := range []struct {
		lines     [][]byte
		there     string
		ok        bool
		want, not string
	}{
		{continued, head, true, "continues  run 01a1 has the head that the continuing run names", ""},
		{continued, "", true, "the continued run 01a1 with the head " + head, "continues  run"},
		{continued, strings.Repeat("0", 64), false, "continues  FAILED: the run continues run 01a1 with the head " + head, ""},
		{dead, "", true, "the continued run 01a1: the record of this run had no end", ""},
	} {
		result, err := File(t.Context(), c.lines, "", Options{
			Keys: []seal.PublicKey{testKey.Public()}, Sandbox: sandboxtest.Guest(t), Head: func(context.Context, string) string { return c.there },
		})
		if err != nil || result.Verified() != c.ok || !strings.Contains(result.Text(), c.want) || c.not != "" && strings.Contains(result.Text(), c.not) {
			t.Errorf("%v, no %q in\n%s", err, c.want, result.Text())
		}
	}
}

// TestNothingToVerify checks what is no record, or none that can be verified.
func TestNothingToVerify(t *testing.T) {
	old := recorded(t, "plain", signed())
	for i := range old {
		p, _ := seal.Cut(old[i])
		old[i] = prevMember.ReplaceAll(p.Body, nil)
	}
	for _, c := range []struct{ name, text, want string }{
		{"old", string(bytes.Join(old, []byte("\n"))), "chain      FAILED: no digests"},
		{"unsigned", string(bytes.Join(recorded(t, "plain", journal.LogOptions{}), []byte("\n"))), "signature  FAILED: no signature"},
		{"empty", "", "no runs"},
		{"no journal", "hello\n{}\n[]\n", "is no event of a journal"},
		{"circle", `{"t":"begin","run":"a","parent":{"run":"b","call":1}}` + "\n" + `{"t":"begin","run":"b","parent":{"run":"a","call":1}}`, "circle"},
		{"huge name", `{"t":"` + strings.Repeat("x", 1000) + `","run":"a"}`, "is no event"},
		{"deep", `{"t":"end","run":"a","result":` + strings.Repeat("[", 100_000) + `}`, "is no JSON"},
	} {
		lines, err := Lines(strings.NewReader(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if result := verified(t, lines); result.Verified() || !strings.Contains(result.Text(), c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, result.Text())
		}
	}
	lines := recorded(t, "plain", signed())
	result, err := File(t.Context(), lines, "", Options{})
	if err != nil || result.Verified() || !strings.Contains(result.Text(), "no key to check the signature") {
		t.Errorf("%v, %s", err, result.Text())
	}
	result, err = File(t.Context(), lines, "another", Options{Keys: []seal.PublicKey{testKey.Public()}})
	if err != nil || result.Verified() {
		t.Errorf("%v, %s", err, result.Text())
	}
}

// FuzzFile feeds anything to the parser. Nothing that is found is verified without the key.
func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"t":"begin","run":"a","v":1}` + "\n" + `{"t":"end","run":"a","prev":"00","seal":{"events":2},"link":"x"}`))
	f.Add([]byte(`{"t":"end","run":"a","parent":{"run":"a"}}`))
	f.Add([]byte(`{"t":"checkpoint","run":"a","removed":[{}],"others":["x",1]}`))
	f.Add([]byte(`{"t":"log","run":"a","entries":{"a":1,"a":2}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		lines, err := Lines(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		result, err := File(t.Context(), lines, "", Options{Keys: []seal.PublicKey{testKey.Public()}})
		if err != nil {
			t.Fatal(err)
		}
		if result.Verified() {
			t.Error("verified")
		}
		result.Text()
		for _, line := range lines {
			if e, err := parse(line); err == nil {
				if again, err := parse(e.parts.Body); err != nil || again.digest != e.digest {
					t.Errorf("without seal and link it is another event: %v\n%s", err, line)
				}
			}
		}
	})
}
