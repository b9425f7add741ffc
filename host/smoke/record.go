package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/compose"
	"github.com/mcp-metatool/mcp-metatool/host/route"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// record runs the script of a check against the upstreams, and keeps what they
// answer.
func (l *live) record(ctx context.Context, c *Check) (*answer, []cassette.Interaction, error) {
	h, err := l.start()
	if err != nil {
		return nil, nil, err
	}
	def, err := c.definition(l.scripts.saved)
	if err != nil {
		return nil, nil, err
	}
	if err := l.await(ctx, h, ""); err != nil {
		return nil, nil, err
	}
	mask := l.file.Config.NewMasker().Mask
	var recorder *cassette.Recorder
	composer := h.Composer(func(up compose.Upstreams) compose.Upstreams {
		recorder = cassette.NewRecorder(up, func(text []byte) []byte { return []byte(mask(string(text))) })
		return recorder
	})
	a, err := runScript(ctx, c, l.file, func(ctx context.Context, call route.Call) []byte {
		return composer.CallSaved(ctx, def, call).Result
	})
	return a, recorder.Interactions(), err
}

// recordings are what was recorded for the cassettes of a run, by path.
type recordings struct {
	mu     sync.Mutex
	byPath map[string]*recording
	order  []string
}

// recording is what was recorded for one cassette.
type recording struct {
	at   regular.Place
	made []cassette.Interaction
}

// add takes what a check has recorded. Of the same call answered again in another
// check one answer is enough, since each run begins the cassette anew.
func (r *recordings) add(at regular.Place, made []cassette.Interaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byPath == nil {
		r.byPath = map[string]*recording{}
	}
	path := at.String()
	of := r.byPath[path]
	if of == nil {
		of = &recording{at: at}
		r.byPath[path] = of
		r.order = append(r.order, path)
	}
	of.made = joined(of.made, made)
}

// joined are the interactions of a, and those of b that a run of b's would miss.
func joined(a, b []cassette.Interaction) []cassette.Interaction {
	spare := map[string]int{}
	for _, i := range a {
		spare[callOf(i)]++
	}
	for _, i := range b {
		if key := callOf(i); spare[key] > 0 {
			spare[key]--
			continue
		}
		a = append(a, i)
	}
	return a
}

// callOf tells calls apart that an interaction is for.
func callOf(i cassette.Interaction) string {
	var params any
	if json.Unmarshal(i.Params, &params) == nil { // else it is for any
		if sorted, err := json.Marshal(params); err == nil {
			return i.Server + "." + i.Tool + string(sorted)
		}
	}
	return i.Server + "." + i.Tool
}

// write writes the cassettes. What one of them had before stays, behind what is
// new, where no new answer is to the same call, unless it is whole: checks that
// were left out may need it.
func (r *recordings) write(ctx context.Context, whole map[string]bool, told func(path, what string)) error {
	var errs []error
	for _, path := range r.order {
		of := r.byPath[path]
		all := of.made
		if !whole[path] {
			old, err := cassette.Read(ctx, of.at)
			if err == nil {
				all = joined(all, old.Interactions())
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("%s is not written over: %w", path, err))
				continue
			}
		}
		made, err := cassette.New(all...)
		if err == nil {
			err = made.Write(ctx, of.at)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		told(path, plural(len(all), "answer"))
	}
	return errors.Join(errs...)
}

// locked is the lock that a check of a server is held against, "" for none.
func (c *Check) locked() string {
	for _, w := range c.wants {
		if w.lock != "" {
			return w.lock
		}
	}
	return ""
}

// writeLock writes the lock of a check of a server: one that is not there yet, or
// is of another state.
func (r *run) writeLock(ctx context.Context, c *checkRun) error {
	path := c.locked()
	if path == "" {
		return nil
	}
	r.locking.Lock() // several checks may have one lock
	defer r.locking.Unlock()
	changed, err := writeLock(ctx, c.of.file.place(path), c.answer)
	if err != nil {
		return broken(err, "%s is not written: %v", path, err)
	}
	if changed {
		r.wrote(path, fmt.Sprintf("definitions of %q", c.Server))
	}
	return nil
}
