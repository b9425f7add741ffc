package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/journal/shared"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/builtin"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// openRecords begins to keep the journal in the store of the fleet, if h has a fleet.
func (h *Host) openRecords(cfg *config.Config) {
	if h.fleet == nil || !cfg.Journal.Enabled {
		return
	}
	h.records = shared.Open(sharedOptions(cfg, h.fleet.Store(), h.storeAway, h.opts.Log))
	h.fleet.Count("unshipped", func() int64 { return int64(h.records.Lag().Waiting) })
	h.records.Ship()
}

func sharedOptions(cfg *config.Config, s store.Store, away func() error, log *slog.Logger) shared.Options {
	return shared.Options{
		Store: s, Fleet: cfg.Store.Prefix, Dir: cfg.JournalDir(), Away: away, MaxAge: cfg.Journal.MaxAge, Log: log,
	}
}

// storeAway returns why the store of the fleet cannot be used now, as an *awayError; nil for a
// store that answers.
func (h *Host) storeAway() error {
	away := h.fleet.Away()
	if away == nil {
		return nil
	}
	return &awayError{time.Since(away.Since), away.Err}
}

// awayError is the error of a fleet's store that does not answer. It is a store.ErrUnavailable.
type awayError struct {
	since time.Duration
	err   error // why
}

// Error implements error.
func (e *awayError) Error() string {
	return fmt.Sprintf("the store of the fleet has not answered for %s: %v", e.since.Round(time.Second), e.err)
}

// Unwrap makes errors.Is find store.ErrUnavailable and why.
func (e *awayError) Unwrap() []error { return []error{store.ErrUnavailable, e.err} }

// journalFleet returns the fleet for a Log; nil without a fleet.
func (h *Host) journalFleet() journal.Fleet {
	if h.records == nil {
		return nil // not a nil *shared.Journal in an interface
	}
	return h.records
}

// setRecords sets the options that find runs and decide which process continues a run.
func (h *Host) setRecords(options *compose.Options) {
	log := h.recorder.Journal()
	if log == nil {
		return
	}
	options.Recorded = func(id string) (journal.Record, error) { return h.journalReader(log).Find(context.Background(), id) }
	options.Chain = func(id string) (journal.Chain, error) { return log.Chain(id, h.journalReader(log).Room) }
	options.Claims = h.claims(log)
}

// journalReader returns the Reader for tasks, for continued runs, and for the page. Its memory
// belongs to the host itself in the budget of all messages.
func (h *Host) journalReader(log *journal.Log) journal.Reader {
	r := log.Reader()
	r.Room = journal.RoomIn(h.sandbox.Budget(), nil)
	return r
}

// maxSession is how old the runs of a session can be when a replica starts.
const maxSession = 48 * time.Hour

// sessionRuns returns the runs that clients can ask for.
func (h *Host) sessionRuns(log *journal.Log) builtin.Runs {
	runs := builtin.JournalRuns{Journal: log.Reader(), Since: h.recorder.Start(), Budget: h.sandbox.Budget()}
	if h.records != nil { // sessions can be older than this process
		runs.Since = runs.Since.Add(-maxSession)
	}
	return runs
}

// OpenJournal returns the journal of a configuration for commands that read the journal. In a
// fleet, records of other replicas are read from the store, which is opened on the first use. The
// caller must call end, which waits for the opened store.
func OpenJournal(cfg *config.Config, log *slog.Logger) (r journal.Reader, end func()) {
	r = journal.Reader{Dir: cfg.JournalDir()}
	if len(cfg.Store.NATS) == 0 || !cfg.Journal.Enabled {
		return r, func() {}
	}
	o := &others{cfg: cfg, log: log}
	r.Others = o
	return r, o.close
}

// others reads the records of other replicas from the store of a fleet, opened on the first use.
type others struct {
	cfg *config.Config
	log *slog.Logger

	mu     sync.Mutex // held while the store is opened
	opened *shared.Journal
	err    error // why opened is nil
	store  io.Closer
}

var _ journal.Others = (*others)(nil)

// journalTime bounds the wait of a command for the store of the fleet when reading the journal.
const journalTime = 5 * time.Second

func (o *others) open(ctx context.Context) (*shared.Journal, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened != nil || o.err != nil {
		return o.opened, o.err
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	s, err := OpenFleet(ctx, o.cfg, o.log)
	if err != nil {
		o.err = fmt.Errorf("the store of the fleet: %w", err)
		return nil, o.err
	}
	o.opened, o.store = shared.Open(sharedOptions(o.cfg, s, nil, o.log)), s
	return o.opened, nil
}

func (o *others) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.opened != nil {
		o.opened.Close()
		_ = o.store.Close() // nothing was written
	}
	o.opened, o.err = nil, shared.ErrClosed
}

// Days implements journal.Others.
func (o *others) Days(ctx context.Context) ([]string, error) {
	j, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	return j.Days(ctx)
}

// Day implements journal.Others.
func (o *others) Day(ctx context.Context, day string) error {
	j, err := o.open(ctx)
	if err != nil {
		return err
	}
	return j.Day(ctx, day)
}

// Run implements journal.Others.
func (o *others) Run(ctx context.Context, id string) error {
	j, err := o.open(ctx)
	if err != nil {
		return err
	}
	return j.Run(ctx, id)
}

// LastOf implements journal.Others.
func (o *others) LastOf(ctx context.Context, first string) (string, int, error) {
	j, err := o.open(ctx)
	if err != nil {
		return "", 0, err
	}
	return j.LastOf(ctx, first)
}
