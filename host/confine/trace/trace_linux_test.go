package trace

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestLimit checks that a server that does any number of things does not fill the disk with
// events, and that it is said what is missing.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	out, err := os.Create(filepath.Join(dir, EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	tr := &tracer{out: out, room: 1000, seen: map[Event]bool{}}
	for i := range 1000 {
		tr.write(Event{Kind: ReadFile, Object: "/x/" + strconv.Itoa(i)})
		tr.write(Event{Kind: ReadFile, Object: "/x/0"}) // once
	}
	events, err := Read(t.Context(), dir)
	if err != nil || len(events) < 10 || len(events) > 30 || len(tr.seen) != len(events) {
		t.Fatalf("%d events, %d seen, %v", len(events), len(tr.seen), err)
	}
	for i, e := range events {
		if last := i == len(events)-1; (e.Kind == Omitted) != last || !last && e.Object != "/x/"+strconv.Itoa(i) {
			t.Errorf("event %d of %d: %+v", i, len(events), e)
		}
	}
}
