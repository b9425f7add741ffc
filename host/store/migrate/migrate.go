// Package migrate copies what one store keeps to another one, and compares. What is there
// already stays; copying again goes on where it ended.
//
//	migrate.go    Copy; documents, and journals (package shared)
package migrate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/mcp-metatool/mcp-metatool/host/journal/shared"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// End is one end of a copy.
type End struct {
	Store store.Store
	// Journal is the folder of the journal that belongs to the store; "" for a store that keeps
	// the journal itself.
	Journal string
}

// Options say what is copied.
type Options struct {
	// Collections are those whose documents are copied.
	Collections []string
	// Runs copies the runs of the journal that have ended, and calls without a script, if one
	// end has a journal and the other one keeps it itself.
	Runs bool
	// Fleet is the name of the fleet whose store keeps the journal.
	Fleet string
	Log   *slog.Logger
	// DryRun only compares.
	DryRun bool
}

// Count says what has become of one kind of thing.
type Count struct {
	Copied    int      // or would be, in a dry run
	Same      int      // were there already
	Different []string // are there with another content, which stays; what they are
}

func (c Count) String() string {
	return fmt.Sprintf("%d copied, %d the same, %d different", c.Copied, c.Same, len(c.Different))
}

// Report says what Copy has done.
type Report struct{ Documents, Runs, Calls Count }

// Copy copies from one store to another. Nothing is removed or replaced. The error is the first
// one, and the report what was done before. Nobody should write to either store at that time:
// what is written later is not copied.
func Copy(ctx context.Context, from, to End, o Options) (r Report, err error) {
	for _, collection := range o.Collections {
		for d, err := range from.Store.Documents(ctx, collection) {
			if err != nil {
				return r, err
			}
			if err := r.Documents.document(ctx, to.Store, d, o.DryRun); err != nil {
				return r, err
			}
		}
	}
	if o.Runs {
		err = r.journal(ctx, from, to, o)
	}
	return r, err
}

// journal copies the journal.
func (r *Report) journal(ctx context.Context, from, to End, o Options) error {
	files, keeps, copy := from, to, (*shared.Journal).CopyToStore
	if from.Journal == "" {
		files, keeps, copy = to, from, (*shared.Journal).CopyToFiles
	}
	j := shared.Open(shared.Options{Store: keeps.Store, Fleet: o.Fleet, Dir: files.Journal, Log: o.Log})
	defer j.Close()
	c, err := copy(j, ctx, o.DryRun)
	r.Runs, r.Calls = Count(c.Runs), Count(c.Calls)
	return err
}

// document copies one document, and reads it again.
func (c *Count) document(ctx context.Context, to store.Store, d store.Document, dry bool) error {
	there, err := to.Get(ctx, d.Key)
	switch {
	case err == nil:
		c.compare("document "+d.Key.String(), bytes.Equal(there.Data, d.Data))
		return nil
	case !errors.Is(err, store.ErrNotFound):
		return err
	case dry:
		c.Copied++
		return nil
	}
	if _, err := to.Put(ctx, d.Key, "", d.Data); err != nil {
		return err
	}
	there, err = to.Get(ctx, d.Key)
	if err == nil && !bytes.Equal(there.Data, d.Data) {
		err = &store.CorruptError{What: "document " + d.Key.String(), Reason: "is not what was just written"}
	}
	if err == nil {
		c.Copied++
	}
	return err
}

func (c *Count) compare(what string, same bool) {
	if same {
		c.Same++
	} else {
		c.Different = append(c.Different, what)
	}
}
