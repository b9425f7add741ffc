// Package storetest has the tests that every [store.Store] passes.
//
//	storetest.go  Run, RunBrief and RunLargest, and what the tests share
//	logs.go       logs: one writer, names, sizes
//	races.go      logs and documents: many writers
//	documents.go  documents and watches
//	leases.go     leases
//	blobs.go      blobs; what has ended
//	bench.go      Bench
package storetest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// Long makes the tests larger, and Rounds says how many times as many faults they then have.
// Packages that use this one have these flags.
var (
	Long   = flag.Bool("long", false, "make the tests of stores larger")
	Rounds = flag.Int("rounds", 1, "with -long, how many times as many faults")
)

// Faults returns how many faults a test makes.
func Faults(short, long int) int { return inLong(more).times(short, long**Rounds) }

// Open returns another Store with the same data, as another process would have it. It is closed
// when the test ends.
type Open func(t *testing.T) store.Store

// patience bounds every wait of a test.
func patience() time.Duration { return testenv.Deadline(2 * time.Minute) }

// extent is how much the tests do.
type extent int

const (
	brief   extent = iota // takes seconds
	more                  // more rounds, and more writers
	largest               // and also the largest values that a store takes
)

func (e extent) times(few, many int) int {
	if e == brief {
		return few
	}
	return many
}

// inLong returns e with -long, or else brief.
func inLong(e extent) extent {
	if *Long {
		return e
	}
	return brief
}

// Run runs the tests. The data that open leads to must be empty.
func Run(t *testing.T, open Open) { run(t, open, inLong(more), false) }

// RunCluster is Run for a store whose servers may choose another leader meanwhile: what was written
// then is not always known.
func RunCluster(t *testing.T, open Open) { run(t, open, inLong(more), true) }

// RunBrief is Run for another way to the same store: it does no more with -long.
func RunBrief(t *testing.T, open Open) { run(t, open, brief, false) }

// RunLargest is Run which, with -long, also uses the largest values: these take hundreds of
// megabytes.
func RunLargest(t *testing.T, open Open) { run(t, open, inLong(largest), false) }

func run(t *testing.T, open Open, much extent, cluster bool) {
	scaled := func(test func(*testing.T, Open, extent)) func(*testing.T, Open) {
		return func(t *testing.T, open Open) { test(t, open, much) }
	}
	racingPuts := func(t *testing.T, open Open) { testRacingPuts(t, open, much, cluster) }
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"Append", testAppend}, {"AppendAgain", testAppendAgain}, {"Fence", testFence}, {"Read", testRead},
		{"Follow", scaled(testFollow)}, {"Logs", testLogs}, {"Lasting", testLasting}, {"LogNames", testLogNames}, {"EventSizes", scaled(testEventSizes)},
		{"RacingWriters", scaled(testRacingWriters)}, {"RacingOwners", scaled(testRacingOwners)},
		{"Documents", testDocuments}, {"DocumentNames", testDocumentNames}, {"DocumentSizes", testDocumentSizes},
		{"RacingPuts", racingPuts}, {"PutOwn", testPutOwn}, {"Watch", testWatch}, {"WatchAll", scaled(testWatchAll)},
		{"Leases", testLeases}, {"RacingLeases", scaled(testRacingLeases)}, {"Blobs", scaled(testBlobs)}, {"Closed", testClosed}, {"Cancelled", testCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			if much == brief && !cluster {
				t.Parallel() // each has logs, leases and collections of its own
			}
			c.test(t, open)
		})
	}
}

// within returns the context of a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience())
	t.Cleanup(cancel)
	return ctx
}

// newLog returns the name of a log that no other test has.
func newLog() string { return store.NewID().String() }

// Write appends an event with that text behind a position.
func Write(t *testing.T, s store.Store, log string, after store.Position, fence uint64, text string) store.Position {
	t.Helper()
	at, err := s.Append(within(t), log, store.Entry{After: after, Fence: fence, ID: store.NewID(), Data: []byte(text)})
	if err != nil {
		t.Fatalf("append %q behind %d: %v", text, after.Number, err)
	}
	if at.Number != after.Number+1 || at.Fence != fence {
		t.Fatalf("append %q behind %d: position %+v", text, after.Number, at)
	}
	return at
}

// Events returns the events of a log behind a position, and checks their numbers.
func Events(t *testing.T, s store.Store, log string, after store.Position) []store.Event {
	t.Helper()
	var all []store.Event
	for e, err := range s.Read(within(t), log, after) {
		if err != nil {
			t.Fatalf("log %s: %v", log, err)
		}
		if want := after.Number + uint64(len(all)) + 1; e.Position.Number != want {
			t.Fatalf("log %s: event %d, want %d", log, e.Position.Number, want)
		}
		all = append(all, e)
	}
	return all
}

// texts returns what events say.
func texts(events []store.Event) string {
	var b bytes.Buffer
	for _, e := range events {
		fmt.Fprintf(&b, "%s ", e.Data)
	}
	return b.String()
}

func wantConflict(t *testing.T, err error) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("error %v, want a conflict", err)
	}
}

func wantFenced(t *testing.T, err error, number uint64) {
	t.Helper()
	var fenced *store.FencedError
	if !errors.As(err, &fenced) || fenced.Number != number {
		t.Fatalf("error %v, want that it is fenced with %d", err, number)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// content returns bytes that cannot be compressed.
func content(size int) []byte {
	data := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	_, _ = r.Read(data)
	return data
}
