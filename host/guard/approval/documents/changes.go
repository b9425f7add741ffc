package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/store"
)

// changes are documents of a fleet as they were read. A change succeeds only if no other process
// has changed the document since, and fails with ErrChanged otherwise.
type changes struct {
	*Shared
	ctx       context.Context
	documents map[Name]held // not shared once something is written
	own       bool          // documents is a copy
}

var _ Documents = (*changes)(nil)

// IDs implements [Documents].
func (c *changes) IDs(kind string) ([]string, error) {
	var ids []string
	for n, h := range c.documents {
		if n.Kind == kind && !h.Used {
			ids = append(ids, n.ID)
		}
	}
	return ids, nil
}

// Read implements [Documents].
func (c *changes) Read(n Name, v any) error {
	h, ok := c.documents[n]
	if !ok || h.Used {
		return missing(n)
	}
	if err := json.Unmarshal(h.Approval, v); err != nil {
		return fmt.Errorf("approvals: %s: %w", n, err)
	}
	return nil
}

// Write implements [Documents].
func (c *changes) Write(n Name, v any) error {
	body := wire.Marshal(v)
	if len(body) > maxSize {
		return tooLarge(len(body))
	}
	return c.put(n, newForm(body, false))
}

// put replaces a document that is unchanged since the read.
func (c *changes) put(n Name, data []byte) error {
	version, err := store.PutOwn(c.ctx, c.opts.Store, n.key(), c.documents[n].version, data)
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, data, version)
	return nil
}

// changed gives the error about a document that another process has changed its kind.
func (c *changes) changed(n Name, err error) error {
	conflict := (*store.ConflictError)(nil)
	if errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return fmt.Errorf("approvals: %s: %w", n, ErrChanged)
	}
	return failed(err)
}

// note keeps the current content of the store; no data: no document.
func (c *changes) note(n Name, data []byte, version store.Version) {
	if !c.own {
		c.documents, c.own = maps.Clone(c.documents), true
	}
	delete(c.documents, n)
	if data != nil {
		_, h, _ := readForm(store.Document{Key: n.key(), Version: version, Data: data})
		c.documents[n] = h
	}
}

// Remove implements [Documents].
func (c *changes) Remove(n Name) error {
	h, ok := c.documents[n]
	if !ok {
		return nil
	}
	err := c.opts.Store.Remove(c.ctx, n.key(), h.version)
	if errors.Is(err, store.ErrUnknown) && c.ctx.Err() == nil {
		if _, failing := c.opts.Store.Get(c.ctx, n.key()); errors.Is(failing, store.ErrNotFound) {
			err = nil
		} else {
			err = &store.ConflictError{What: "document " + n.String()} // which reads the document again
		}
	}
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, nil, "")
	return nil
}

// Use implements [Documents]. Before the removal, the document is marked as used up, in a form that
// only this process has written: a removal alone would not show which process has removed the
// document.
func (c *changes) Use(n Name) error {
	h, ok := c.documents[n]
	if !ok || h.Used {
		return missing(n)
	}
	if err := c.put(n, newForm(h.Approval, true)); err != nil {
		return err
	}
	_ = c.Remove(n) // the mark counts in any case, and an expired document is removed
	return nil
}

// usedFor is how long used documents stay if the process that should have removed them has died. No
// process needs so long to find out whether its own use counts.
const usedFor = time.Hour

// clean removes used documents. A document that cannot be removed now is removed later.
func (c *changes) clean() {
	for n, h := range c.documents {
		var about struct {
			Expires time.Time `json:"expires"`
		}
		if h.Used && json.Unmarshal(h.Approval, &about) == nil && time.Since(about.Expires) > usedFor {
			_ = c.Remove(n)
		}
	}
}
