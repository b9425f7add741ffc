package shared

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// collection has a document for each log of a folder and day.
const collection = "journal"

func dayKey(day, folder string) store.Key {
	return store.Key{Collection: collection, Name: day + "/" + folder}
}

func readDayKey(k store.Key) (day, folder string, ok bool) {
	day, folder, ok = strings.Cut(k.Name, "/")
	return day, folder, ok && store.CheckLog(dayLog(day, folder)) == nil
}

// The names of logs. The log record-RUN has the lines of an ended run and of the nested runs, in the
// form of the files: redacted, complete, and written once. The log journal-FOLDER-DAY has the lines
// of the calls without a script that began on the day, and the ids of the runs, each at least once; a
// document in the collection announces the log. The log chain-RUN has the ids of the runs that
// continue a run.
//
// A record is written before the id: a reader who finds the id finds the record, unless the record
// was removed. The store keeps logs according to the journal's max_age and max_total.
func dayLog(day, folder string) string { return "journal-" + folder + "-" + day }
func recordLog(run string) string      { return "record-" + run }
func chainLog(first string) string     { return "chain-" + first }

// LogOf returns the id of the run with the record in the given log; ok is false for another log.
func LogOf(log string) (run string, ok bool) { return strings.CutPrefix(log, "record-") }

// IsOwn reports whether the log with the given name belongs to this package.
func IsOwn(log string) bool {
	for _, prefix := range []string{"journal-", "record-", "chain-"} {
		if strings.HasPrefix(log, prefix) {
			return true
		}
	}
	return false
}

// head begins the first event of a record.
type head struct {
	Version int    `json:"v"`
	Run     string `json:"run"`
	Lines   int    `json:"lines"` // after this line, in all events
}

const version = 1

// maxPart bounds an event of a record, in bytes, unless a line is longer.
const maxPart = 32 << 20

// entries returns the events of the record of a run. They are the same each time.
func entries(run string, runs []journal.RunLines) (all []store.Entry, err error) {
	h := head{Version: version, Run: run}
	for _, r := range runs {
		h.Lines += len(r.Lines)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	part := bytes.NewBuffer(append(text, '\n'))
	flush := func() {
		sum := sha256.New()
		fmt.Fprintf(sum, "%s %d\n", recordLog(run), len(all)+1)
		sum.Write(part.Bytes())
		e := store.Entry{Data: part.Bytes()}
		copy(e.ID[:], sum.Sum(nil))
		all, part = append(all, e), &bytes.Buffer{}
	}
	for _, r := range runs {
		for _, line := range r.Lines {
			if part.Len() > 0 && part.Len()+len(line) > maxPart {
				flush()
			}
			part.Write(line)
			part.WriteByte('\n')
		}
	}
	flush()
	return all, nil
}

// errPartial means that a record is incomplete or malformed.
var errPartial = errors.New("is not whole")

// readRecord returns the runs of a record, from the data of the events.
func readRecord(run string, events [][]byte) ([]journal.RunLines, error) {
	text := bytes.Join(events, nil)
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	var h head
	if err := json.Unmarshal(first, &h); err != nil || h.Run != run || h.Version != version {
		return nil, fmt.Errorf("the record of run %s in the store of the fleet cannot be read: version %d (update this program)", run, h.Version)
	}
	var runs []journal.RunLines
	at := map[string]int{}
	n := 0
	for line := range bytes.SplitSeq(bytes.TrimSuffix(rest, []byte{'\n'}), []byte{'\n'}) {
		id, err := journal.RunOf(line)
		if err != nil {
			return nil, fmt.Errorf("the record of run %s in the store of the fleet: %w", run, err)
		}
		i, ok := at[id]
		if !ok {
			i, at[id] = len(runs), len(runs)
			runs = append(runs, journal.RunLines{Run: id})
		}
		runs[i].Lines = append(runs[i].Lines, line)
		runs[i].Ended = runs[i].Ended || journal.IsEnd(line)
		n++
	}
	if n != h.Lines {
		return nil, fmt.Errorf("the record of run %s in the store of the fleet: %w", run, errPartial)
	}
	return runs, nil
}

// ended is the line of a run in the log of a day.
type ended struct {
	Ended string `json:"ended"` // id
}

func endedLine(run string) []byte {
	text, _ := json.Marshal(ended{run})
	return text
}

// readDayLine reads a line of the log of a day: the id of a run, or else the line of a call.
func readDayLine(line []byte) (run string, isRun bool) {
	if !bytes.HasPrefix(line, []byte(`{"ended":`)) {
		return "", false
	}
	var e ended
	err := json.Unmarshal(line, &e)
	return e.Ended, err == nil
}

// link is an event of the log of a chain.
type link struct {
	Run       string `json:"run"`
	Continues string `json:"continues"`
}

func readLink(data []byte) (l link, err error) {
	if err = json.Unmarshal(data, &l); err == nil && l.Run == "" {
		err = errors.New("it names no run")
	}
	return l, err
}
