package replay

import (
	"bytes"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
)

// TestMoment checks that a replay has the time and the random numbers of the run, also
// from a record that was written and read.
func TestMoment(t *testing.T) {
	const code = `
from datetime import datetime
import random, time, uuid
return [datetime.now().isoformat(), time.time(), random.random(), str(uuid.uuid4()), demo.echo({'n': random.randint(1, 10 ** 9)}).n]
`
	rec := record(t, job{name: "moment", def: definition("job", code)})
	if rec.Now == 0 || rec.Seed == 0 || rec.Outcome.Error != "" {
		t.Fatalf("the record has now %d, seed %d, failure %s", rec.Now, rec.Seed, rec.Outcome.Failure)
	}
	another := record(t, job{name: "moment", def: definition("job", code)})
	if bytes.Equal(rec.Outcome.Result, another.Outcome.Result) {
		t.Errorf("two runs have the same numbers: %s", rec.Outcome.Result)
	}
	var written bytes.Buffer
	if err := journal.Encode(&written, rec); err != nil {
		t.Fatal(err)
	}
	read, err := journal.Decode(&written)
	if err != nil {
		t.Fatal(err)
	}
	if read.Now != rec.Now || read.Seed != rec.Seed {
		t.Errorf("read: now %d, seed %d, want %d, %d", read.Now, read.Seed, rec.Now, rec.Seed)
	}
	for name, r := range map[string]journal.Record{"the same": rec, "read": read} {
		if report := replayed(t, r, Options{}); report.Verdict != Identical {
			t.Errorf("%s: %s", name, report.Text())
		}
	}
	read.Seed++
	if report := replayed(t, read, Options{}); report.Verdict != Diverged {
		t.Errorf("with another seed: %s", report.Text())
	}
}
