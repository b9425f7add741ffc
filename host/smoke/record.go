package smoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/journal/cassette"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// record runs the script of a check against the upstreams and records their answers.
func (l *live) record(ctx context.Context, c *Check) (*answer, []cassette.Interaction, error) {
	h, err := l.start()
	if err != nil {
		return nil, nil, err
	}
	def, err := c.definition(l.scripts.savedTools)
	if err != nil {
		return nil, nil, err
	}
	if err := l.waitForServers(ctx, h, def.Name); err != nil {
		return nil, nil, err
	}
	var recorder *cassette.Recorder
	composer := h.Composer(func(up compose.Upstreams) compose.Upstreams {
		recorder = cassette.NewRecorder(up, func(text []byte) []byte { return []byte(l.mask(string(text))) })
		return recorder
	})
	var run asked
	a, err := runScript(run.within(ctx), c, l.file, func(ctx context.Context, call route.Call) []byte {
		return composer.CallSaved(ctx, def, call).Result
	})
	a.run = run.record()
	return a, recorder.Interactions(), err
}

// recordings are the interactions recorded in a run, by path of the cassette.
type recordings struct {
	mu     sync.Mutex
	byPath map[string]*recording
	order  []string
}

// recording holds the interactions recorded for a cassette.
type recording struct {
	at   regular.Place
	made []cassette.Interaction
}

// add adds the interactions of a check. Of a call that another check has recorded, a single answer
// is enough, since each check starts the cassette from the beginning.
func (r *recordings) add(at regular.Place, made []cassette.Interaction) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byPath == nil {
		r.byPath = map[string]*recording{}
	}
	path := at.String()
	rec := r.byPath[path]
	if rec == nil {
		rec = &recording{at: at}
		r.byPath[path] = rec
		r.order = append(r.order, path)
	}
	rec.made = merge(rec.made, made)
}

// merge returns the interactions of a, and the interactions of b that a lacks for a run recorded as
// b.
func merge(a, b []cassette.Interaction) []cassette.Interaction {
	spare := map[string]int{}
	for _, i := range a {
		spare[callKey(i)]++
	}
	for _, i := range b {
		if key := callKey(i); spare[key] > 0 {
			spare[key]--
			continue
		}
		a = append(a, i)
	}
	return a
}

// callKey returns a key for the call of an interaction.
func callKey(i cassette.Interaction) string {
	var params any
	if jsonvalue.Unmarshal(i.Params, &params) == nil { // otherwise the interaction is for any params
		if sorted, err := json.Marshal(params); err == nil {
			return i.Server + "." + i.Tool + string(sorted)
		}
	}
	return i.Server + "." + i.Tool
}

// write writes the cassettes. Existing interactions are kept after the new interactions, since
// checks that did not run may need them, except interactions for the same calls. A cassette in
// complete is replaced. Each written file is passed to wrote.
func (r *recordings) write(ctx context.Context, complete map[string]bool, wrote func(path, content string)) error {
	var errs []error
	for _, path := range r.order {
		rec := r.byPath[path]
		all := rec.made
		if !complete[path] {
			old, err := cassette.Read(ctx, rec.at)
			if err == nil {
				all = merge(all, old.Interactions())
			} else if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("%s is not overwritten: %w", path, err))
				continue
			}
		}
		made, err := cassette.New(all...)
		if err == nil {
			err = made.Write(ctx, rec.at)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wrote(path, plural(len(all), "answer"))
	}
	return errors.Join(errs...)
}

// lockFile returns the lock for a check of a server; "" for none.
func (c *Check) lockFile() string {
	for _, w := range c.wants {
		if w.lock != "" {
			return w.lock
		}
	}
	return ""
}

// writeLock writes the lock of a check of a server, if the lock is missing or out of date.
func (r *run) writeLock(ctx context.Context, c *checkRun) error {
	path := c.lockFile()
	if path == "" {
		return nil
	}
	r.locking.Lock() // several checks may share a lock
	defer r.locking.Unlock()
	changed, err := writeLock(ctx, c.fileRun.file.place(path), c.answer)
	if err != nil {
		return broken(err, "%s is not written: %v", path, err)
	}
	if changed {
		r.wrote(path, fmt.Sprintf("definitions of %q", c.Server))
	}
	return nil
}
