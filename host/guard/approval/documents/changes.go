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

// changes are documents of a fleet as they were read, and change them there, each on the
// condition that nobody else has changed it since. The error is ErrChanged if somebody has.
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

// put replaces a document that is as it was read.
func (c *changes) put(n Name, data []byte) error {
	version, err := store.PutOwn(c.ctx, c.opts.Store, n.key(), c.documents[n].version, data)
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, data, version)
	return nil
}

// changed gives an error about a document that somebody else has changed its kind.
func (c *changes) changed(n Name, err error) error {
	conflict := (*store.ConflictError)(nil)
	if errors.As(err, &conflict) && !errors.Is(err, store.ErrUnknown) {
		return fmt.Errorf("approvals: %s: %w", n, ErrChanged)
	}
	return failed(err)
}

// note keeps what is in the store now; no data: nothing.
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
			err = &store.ConflictError{What: "document " + n.String()} // which reads it again
		}
	}
	if err != nil {
		return c.changed(n, err)
	}
	c.note(n, nil, "")
	return nil
}

// Use implements [Documents]. The document says that it is used up, in a form that only this
// process has written, before it is removed: of the removal alone, it could not be known whose
// it was.
func (c *changes) Use(n Name) error {
	h, ok := c.documents[n]
	if !ok || h.Used {
		return missing(n)
	}
	if err := c.put(n, newForm(h.Approval, true)); err != nil {
		return err
	}
	_ = c.Remove(n) // it is used up in any case, and removed when it has expired
	return nil
}

// usedFor is how long documents that are used up stay if the process has died that should have
// removed them. It is much longer than anybody needs to find out whether his use counts.
const usedFor = time.Hour

// clean removes documents that are used up. What cannot be removed now is removed later.
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
