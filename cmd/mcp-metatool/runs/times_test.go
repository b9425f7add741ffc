package runs

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/timeline"
)

// TestTimesForPeople checks that every command shows the same time for a run, in local
// time with its offset (see suite.Run), and that it can parse that time.
func init() { time.Local = time.FixedZone("", 5*60*60+30*60) } // a zone that is not UTC

func TestTimesForPeople(t *testing.T) {
	start := time.Now().UTC().Truncate(time.Second)
	rec := journal.Record{ID: journal.NewID(start), Start: start}
	want := start.Local().Format("2006-01-02 15:04:05")

	var list, show bytes.Buffer
	table := newRunTable(&list, bufio.NewWriter(io.Discard), false)
	table.add(listedRecord(&rec), 0)
	if err := table.end(""); err != nil {
		t.Fatal(err)
	}
	if err := timeline.WriteText(&show, &rec, timeline.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"runs list": list.String(), "tools": cli.Stamp(start)} {
		if !strings.Contains(text, want+" +05:30") {
			t.Errorf("%s shows %s, want %s +05:30", name, text, want)
		}
	}
	if !strings.Contains(show.String(), want+".000 +05:30") {
		t.Errorf("runs show shows %s, want %s.000 +05:30", &show, want)
	}
	for _, text := range []string{want, want + " +05:30", start.Format(time.RFC3339)} {
		if got, err := parseMoment("--since", text, time.Now()); err != nil || !got.Equal(start) {
			t.Errorf("--since %s is %v, %v; want %v", text, got, err, start)
		}
	}
	year, month, day := start.Local().Date()
	if got, err := parseMoment("--since", start.Local().Format(time.DateOnly), time.Now()); err != nil || !got.Equal(time.Date(year, month, day, 0, 0, 0, 0, time.Local)) {
		t.Errorf("a day begins at %v, %v", got, err)
	}
}
