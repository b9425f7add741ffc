package replay

import (
	"bytes"
	"context"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox/sandboxtest"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// hostile returns records as files, for tests that damage them.
func hostile(t testing.TB) (files [][]byte) {
	for _, j := range worldJobs() {
		switch j.name {
		case "saved", "parallel errors", "undo of saved tools", "time over in parallel", "cancelled while computing", "saved raw", "a saved tool's limit":
			var file bytes.Buffer
			if err := journal.Encode(&file, record(t, j)); err != nil {
				t.Fatal(err)
			}
			files = append(files, file.Bytes())
		}
	}
	return files
}

// lowerLimits lowers the limits of a record, so that replays are short.
func lowerLimits(rec *journal.Record) {
	const fuel, memory = 20_000_000, 32 << 20
	if rec.Limits.Fuel == 0 || rec.Limits.Fuel > fuel {
		rec.Limits.Fuel = fuel
	}
	if rec.Limits.Memory == 0 || rec.Limits.Memory > memory {
		rec.Limits.Memory = memory
	}
	for i := range rec.Calls {
		if below := rec.Calls[i].Answer.Run; below != nil {
			lowerLimits(below)
		}
	}
}

// checkReplay replays a file, if it can be decoded, and checks that the replay ends with a
// report, whatever the file says.
func checkReplay(t testing.TB, file []byte) (decoded bool) {
	rec, err := journal.Decode(bytes.NewReader(file))
	if err != nil {
		return false
	}
	lowerLimits(&rec)
	code := rec.Definition.Code + "\ndemo.echo(n=1)"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, opts := range []Options{{}, {Code: &code}} {
		report, err := Run(ctx, sandboxtest.Guest(t), rec, opts)
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		if report.Text() == "" || report.Verdict == "" {
			t.Fatalf("no report: %+v", report)
		}
	}
	return true
}

// TestDamagedRecords damages records in many ways and replays them.
func TestDamagedRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	files, decoded := hostile(t), 0
	for i := range 400 {
		if checkReplay(t, damage(random, bytes.Clone(files[i%len(files)]))) {
			decoded++
		}
	}
	if decoded < 100 {
		t.Errorf("only %d of 400 can be replayed", decoded)
	}
	t.Logf("%d of 400 were still records", decoded)
}

// damage changes lines, values or single bytes of a file.
func damage(random *rand.Rand, file []byte) []byte {
	lines := bytes.SplitAfter(file, []byte("\n"))
	pick := func() int { return random.IntN(len(lines)) }
	values := []string{"null", "{}", "[]", "0", "-1", "18446744073709551615", "1e99", `""`, `"x"`, "true", `[[[[]]]]`, `{"a":{"a":1,"a":2}}`}
	for range 1 + random.IntN(3) {
		switch random.IntN(5) {
		case 0: // repeat a line
			lines = append(lines, lines[pick()])
		case 1: // drop a line
			i := pick()
			lines = append(lines[:i:i], lines[i+1:]...)
		case 2: // swap lines
			i, j := pick(), pick()
			lines[i], lines[j] = lines[j], lines[i]
		case 3: // change the type of a value
			i := pick()
			if parts := bytes.SplitN(lines[i], []byte(`":`), 2+random.IntN(12)); len(parts) > 1 {
				last := parts[len(parts)-1]
				if end := bytes.IndexAny(last, ",}]"); end >= 0 {
					parts[len(parts)-1] = append([]byte(values[random.IntN(len(values))]), last[end:]...)
				}
				lines[i] = bytes.Join(parts, []byte(`":`))
			}
		case 4: // change a byte
			i := pick()
			if n := len(lines[i]) - 1; n > 0 {
				changed := bytes.Clone(lines[i])
				changed[random.IntN(n)] = "0123456789abc\"{}[],:\\"[random.IntN(22)%20]
				lines[i] = changed
			}
		}
		if len(lines) == 0 {
			return nil
		}
	}
	return bytes.Join(lines, nil)
}

func FuzzReplay(f *testing.F) {
	for _, file := range hostile(f) {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) { checkReplay(t, file) })
}

// TestConcurrentReplays checks that concurrent replays of one record do not affect each other.
func TestConcurrentReplays(t *testing.T) {
	rec := scripted(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 3 {
				report, err := Run(t.Context(), sandboxtest.Guest(t), rec, Options{})
				if err != nil || report.Verdict != Identical {
					t.Errorf("%v, %s", err, report.Text())
				}
			}
		})
	}
	all.Wait()
}
