// Package saved opens saved tools: those in a folder, or those of a fleet. The tools of a fleet
// are documents of its store, and a folder has copies, which are read whether the store answers
// or not. A change is made in the store first, on the condition that nobody else was faster.
//
//	saved.go   Open, OpenOnce, OpenFolder; the memory of the tools
//	places.go  the folders and collections
//	folders.go saved tools of tokens as collections, for copying
//	shared.go  documents of the store, for package tools
package saved

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/mirror"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// Options are the options of Tools.
type Options struct {
	Place
	// Store is that of the fleet. It is not closed. Nil: the tools are in the folder.
	Store store.Store
	// Away returns why the store does not answer, nil if it does, as far as that is known.
	Away func() error
	// OnChange is tools.StoreOptions.OnChange.
	OnChange func()
	// Schemas keeps the compiled schemas; nil: the tools keep their own.
	Schemas *tools.Schemas
	// Budget has the memory of the tools; nil: they are not counted.
	Budget *budget.Budget
	Log    *slog.Logger
}

// Tools are open saved tools.
type Tools struct {
	*tools.Store
	mirror  *mirror.Mirror // nil without a fleet, and for commands
	copies  *files.Store   // nil without a fleet
	room    room
	waiting time.Time     // until when the first tools/list waits for the fleet
	done    chan struct{} // closed by Close
	closing sync.Once
	closed  error
	group   sync.WaitGroup
}

// firstWait is how long the first list of tools waits for the fleet if there are no copies.
const firstWait = 3 * time.Second

// Open opens saved tools for as long as a process runs. It returns at once; copies are brought up
// to date as soon as the store answers. The caller must Close them before the store.
func Open(o Options) (*Tools, error) {
	t, err := open(&o)
	if err != nil || o.Store == nil {
		return t, err
	}
	empty := len(t.List()) == 0
	if empty {
		t.waiting = time.Now().Add(firstWait)
	}
	t.mirror = mirror.Start(t.mirrored(&o, empty))
	t.group.Go(func() {
		select {
		case <-t.mirror.Synced():
			t.warnUnshared(&o)
		case <-t.done:
		}
	})
	return t, nil
}

// OpenOnce is Open for a command: the copies are brought up to date once, as far as ctx allows.
// stale says why they are not; the tools can be read then. An Options.Store that could not be
// opened is one whose methods return why.
func OpenOnce(ctx context.Context, o Options) (t *Tools, stale, err error) {
	t, err = open(&o)
	if err != nil || o.Store == nil {
		return t, nil, err
	}
	stale = mirror.Sync(ctx, t.mirrored(&o, len(t.List()) == 0))
	return t, stale, nil
}

func open(o *Options) (t *Tools, err error) {
	t = &Tools{done: make(chan struct{}), room: room{o.Budget.OpenSaved(o.Place)}}
	dir, options := o.Folder(), tools.StoreOptions{Log: o.Log, OnChange: o.OnChange, Schemas: o.Schemas, Room: t.room}
	if o.Store != nil {
		options.Shared = &shared{store: o.Store, away: o.Away, names: o.collections()}
	}
	if t.Store, err = tools.OpenStore(dir, options); err != nil {
		t.room.Close()
		return nil, err
	}
	if o.Store != nil {
		t.copies = files.Open(files.Options{Dir: dir, Log: o.Log})
	}
	return t, nil
}

// mirrored returns what is copied into the folder.
func (t *Tools) mirrored(o *Options, empty bool) mirror.Options {
	names := o.collections()
	all := []mirror.Collection{
		{From: names[tools.OfVersion], To: files.History, Check: checkVersion},
		{From: names[tools.OfTool], To: files.Tools, Check: t.Accepts, Restore: true},
	}
	if empty { // otherwise the history says what has become of the copies that are there
		slices.Reverse(all)
	}
	return mirror.Options{From: o.Store, To: t.copies, Collections: all, Log: o.Log}
}

// checkVersion refuses what cannot be a version of a tool.
func checkVersion(_ string, _, now []byte) error {
	if len(now) > tools.MaxFileBytes {
		return fmt.Errorf("it has %d bytes (at most %d)", len(now), tools.MaxFileBytes)
	}
	return nil
}

// Wait waits for the first copies of the tools of a fleet, but not long.
func (t *Tools) Wait(ctx context.Context) {
	left := time.Until(t.waiting)
	if t.mirror == nil || left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-t.mirror.Synced():
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Synced is closed when the copies have been brought up to date for the first time; nil without
// a fleet.
func (t *Tools) Synced() <-chan struct{} {
	if t.mirror == nil {
		return nil
	}
	return t.mirror.Synced()
}

// warnUnshared warns of tools that were saved in files before there was a fleet.
func (t *Tools) warnUnshared(o *Options) {
	var names []string
	before := o.Place
	before.Fleet = ""
	entries, err := os.ReadDir(filepath.Join(before.Folder(), "tools"))
	if err != nil {
		return // there never were any
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || tools.CheckName(name) != nil {
			continue
		}
		if _, err := t.History(name); errors.Is(err, tools.ErrNotFound) { // neither saved nor deleted since
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		shown := names[:min(len(names), 10)]
		o.Log.Warn("saved tools of this machine are not in the fleet, and are not used (mcp-metatool store copy --from files --to nats copies them)",
			"folder", before.Folder(), "tools", strings.Join(shown, ", "), "number", len(names))
	}
}

// Close ends what copies the tools and closes them.
func (t *Tools) Close() error {
	t.closing.Do(func() {
		close(t.done)
		if t.mirror != nil {
			t.mirror.Close()
		}
		t.group.Wait()
		if t.copies != nil {
			t.closed = t.copies.Close()
		}
		t.closed = errors.Join(t.closed, t.Store.Close())
		t.room.Close()
	})
	return t.closed
}

// room is the memory of saved tools. It implements tools.Room.
type room struct{ *budget.Account }

// Add implements tools.Room.
func (r room) Add(n int) error {
	if err := r.Account.Add(n); err != nil {
		return fmt.Errorf("%w (delete saved tools that are not needed, make this one smaller, or raise %s)", err, limits.TotalMemory.Setting())
	}
	return nil
}

// OpenFolder opens the saved tools in a folder, or the copies there, for a command that asks no
// fleet.
func OpenFolder(o Options) (*Tools, error) { return open(&o) }
