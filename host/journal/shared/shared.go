// Package shared keeps a journal in the store of a fleet. The records of the processes of a folder
// are shipped from the files to the store, and records of other replicas are fetched into the files
// on demand. So everything is read from files, and recording continues without the store: the files
// are the queue. Begin with Journal.
package shared

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Options of a Journal.
type Options struct {
	// Store is the store of the fleet, and Fleet the name of the fleet.
	Store store.Store
	Fleet string
	// Dir is the folder of the journal, which need not exist.
	Dir string
	// Away returns why the store cannot be used now; nil for a usable store. Nil: always usable.
	Away func() error
	// MaxAge is how long shipped records are kept; 0 is journal.DefaultMaxAge.
	MaxAge time.Duration
	Log    *slog.Logger
	Now    func() time.Time // nil is time.Now

	// every is how often the files are looked at; 0 is lookEvery. For tests.
	every time.Duration
}

// Journal is a journal in a folder, and in the store of a fleet. The methods are safe for
// concurrent use. Journal implements journal.Fleet.
type Journal struct {
	opts    Options
	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	wake    chan struct{} // has a token if something has ended
	working sync.WaitGroup
	closing chan struct{} // closed by Close
	closed  sync.Once

	fetching chan struct{} // has a token while a goroutine reads records of other replicas

	mu      sync.Mutex // a leaf
	marks   journal.Marks
	changed chan struct{} // closed when marks change
	ours    bool          // this process ships
	folder  string        // "" until known
	lag     Lag
	days    map[string][]string // folders with records, by day
}

var _ journal.Fleet = (*Journal)(nil)

// Lag is the recorded data that is not in the store yet.
type Lag struct {
	// Waiting is how many runs and calls wait, as far as the files were read.
	Waiting int
	// Since is when the first of them was found; zero if none waits.
	Since time.Time
	// Lost is how many were removed from the files before they were shipped.
	Lost int
}

// ErrClosed means that the Journal is closed.
var ErrClosed = errors.New("this process ends")

// Open returns a Journal which only reads until Ship is called. The caller must Close the Journal.
func Open(opts Options) *Journal {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Away == nil {
		opts.Away = func() error { return nil }
	}
	if opts.MaxAge <= 0 {
		opts.MaxAge = journal.DefaultMaxAge
	}
	if opts.every <= 0 {
		opts.every = lookEvery
	}
	j := &Journal{
		opts: opts, wake: make(chan struct{}, 1), closing: make(chan struct{}), fetching: make(chan struct{}, 1),
		marks: journal.Marks{}, changed: make(chan struct{}), days: map[string][]string{},
	}
	j.ctx, j.stop = context.WithCancel(context.Background())
	return j
}

// closeTime is how long Close goes on shipping.
const closeTime = time.Second

// Close ships the rest, unless shipping takes long or the store is away, and ends all work. A nil
// Journal does nothing.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.closed.Do(func() {
		close(j.closing)
		if j.opts.Away() != nil {
			j.stop()
		}
		late := time.AfterFunc(closeTime, j.stop)
		defer late.Stop()
		j.working.Wait()
		j.stop()
	})
}

// Ready implements journal.Fleet.
func (j *Journal) Ready() error { return j.opts.Away() }

// Ended implements journal.Fleet.
func (j *Journal) Ended() {
	select {
	case j.wake <- struct{}{}:
	default: // the shipper is awake already
	}
}

// Lag returns the data that is not in the store yet.
func (j *Journal) Lag() Lag {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lag
}

// Kept implements journal.Fleet. Another process may be shipping.
func (j *Journal) Kept(ctx context.Context, end journal.Place) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		j.mu.Lock()
		kept, changed, ours := j.marks[end.File] >= end.Offset, j.changed, j.ours
		j.mu.Unlock()
		if !kept && !ours {
			if s, err := readState(j.ctx, j.statePath()); err == nil {
				kept = s.Marks[end.File] >= end.Offset
			}
		}
		if kept {
			return nil
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-j.ctx.Done():
			return ErrClosed
		}
	}
}

// pollEvery is how often Kept looks how far another process has shipped.
const pollEvery = 100 * time.Millisecond

// state is how far a folder was shipped.
type state struct {
	Folder string        `json:"folder"` // id of the folder, unique in the fleet
	Marks  journal.Marks `json:"shipped"`
}

// maxState bounds the files of this package, in bytes.
const maxState = 4 << 20

// stateDir is the subfolder of the journal for the state of a fleet.
func (j *Journal) stateDir() string { return filepath.Join(j.opts.Dir, "fleet", j.opts.Fleet) }

func (j *Journal) statePath() string { return filepath.Join(j.stateDir(), "shipped.json") }

// readState reads the state of a folder. The error is fs.ErrNotExist for a missing state.
func readState(ctx context.Context, path string) (s state, err error) {
	data, err := regular.Read(ctx, path, maxState)
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(data, &s); err == nil && (len(s.Folder) != 2*folderID || store.CheckLog(s.Folder) != nil) {
		err = errors.New("it has no id")
	}
	return s, err
}

// folderID is the length of the id of a folder in bytes.
const folderID = 8

// openState reads the state of the folder, and makes a missing state. Only the shipping process
// calls openState.
func (j *Journal) openState() (state, error) {
	s, err := readState(j.ctx, j.statePath())
	if err == nil || errors.Is(err, context.Canceled) {
		return s, err
	}
	if !errors.Is(err, fs.ErrNotExist) { // then everything is shipped again, which changes nothing
		j.opts.Log.Warn("the position up to which the journal was shipped is not known: the whole journal is shipped again", "file", j.statePath(), "err", err)
	}
	var id [folderID]byte
	_, _ = rand.Read(id[:]) // never fails
	s = state{Folder: hex.EncodeToString(id[:]), Marks: journal.Marks{}}
	return s, writeJSON(j.statePath(), s)
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return regular.Write(path, data, 0o600)
}

// cursors are how far the logs of a day were read, by their folders.
type cursors map[string]store.Position

func (j *Journal) cursorPath(day string) string {
	return filepath.Join(j.stateDir(), "read-"+day+".json")
}

// readCursors returns the read positions of a day. The positions do not count if the copied lines
// were removed.
func (j *Journal) readCursors(ctx context.Context, day string) cursors {
	c := cursors{}
	if !journal.HasCopied(j.opts.Dir, day) {
		return c
	}
	data, err := regular.Read(ctx, j.cursorPath(day), maxState)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.opts.Log.Debug("a day is read again", "file", j.cursorPath(day), "err", err)
		return cursors{}
	}
	return c
}

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
