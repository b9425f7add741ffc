package home

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/budget"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
)

// WatchTask implements route.Replicas: this replica subscribes to the task at the other one, as a
// client would, with the rights of the client.
func (f *Finder) WatchTask(ctx context.Context, replica string, s route.Session, id string, changed func(task []byte)) (stop func(), ended <-chan struct{}, ok bool) {
	token, ok := f.token(s.Principal())
	if !ok || f.ctx.Err() != nil {
		return nil, nil, false
	}
	life, cancel := context.WithCancel(f.ctx)
	waiting := context.AfterFunc(ctx, cancel)
	r, err := http.NewRequestWithContext(life, http.MethodPost, "/", bytes.NewReader(listenTo(id)))
	if err != nil {
		cancel()
		return nil, nil, false
	}
	r.RemoteAddr = "127.0.0.1:0" // of no client, so that it takes the place of none
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set(envelope.HeaderVersion, protocol.Stateless.Newest().String())
	r.Header.Set(envelope.HeaderMethod, protocol.MethodListen)
	w := &watched{id: id, changed: changed, agreed: make(chan bool, 1), ended: make(chan struct{})}
	f.watching.Go(func() {
		defer cancel()
		defer close(w.ended)
		response, err := f.opts.Link.Do(r, replica, token)
		if err != nil {
			f.opts.Log.Debug("a task of another replica is not watched", "err", err)
			return
		}
		defer response.Body.Close()
		w.read(response, readBudget(life, f.opts.Budget, replica))
	})
	select {
	case <-w.ended:
		select {
		case ok = <-w.agreed: // it may have ended since
		default:
			ok = false
		}
	case ok = <-w.agreed:
	}
	if !ok || !waiting() {
		cancel()
		return nil, nil, false
	}
	return cancel, w.ended, true
}

// listenTo returns a request to listen to a task.
func listenTo(id string) []byte {
	var extensions, capabilities, meta, filter, params, request wire.Object
	extensions.Raw(protocol.ExtensionTasks, []byte("{}"))
	capabilities.Raw("extensions", extensions.Bytes())
	meta.Text(envelope.KeyVersion, protocol.Stateless.Newest().String())
	meta.Raw(envelope.KeyCapabilities, capabilities.Bytes())
	filter.Raw("taskIds", wire.Array([][]byte{wire.Quote(id)}))
	params.Raw("_meta", meta.Bytes())
	params.Raw("notifications", filter.Bytes())
	request.Text("jsonrpc", "2.0")
	request.Int("id", 1)
	request.Text("method", protocol.MethodListen)
	request.Raw("params", params.Bytes())
	return request.Bytes()
}

// watched is a subscription to a task at another replica.
type watched struct {
	id      string
	changed func(task []byte)
	agreed  chan bool // of capacity 1: whether the other replica announces changes
	ended   chan struct{}
}

// readBudget returns where large messages of another replica are counted until ctx ends.
func readBudget(ctx context.Context, b *budget.Budget, replica string) *wire.ReadBudget {
	if b == nil {
		return nil
	}
	return &wire.ReadBudget{Context: ctx, Most: b.LargestMessage(), Open: func() *budget.Hold { return b.OpenAnswer(ownerOf{replica}) }}
}

// ownerOf is the owner of the messages of a replica in the budget.
type ownerOf struct{ replica string }

// read reads the stream of the subscription to its end. The last message that it reads is one for
// which there is no memory.
func (w *watched) read(response *http.Response, within *wire.ReadBudget) {
	if response.StatusCode != http.StatusOK || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return
	}
	events := wire.NewEventReader(response.Body, 0).WithBudget(within)
	defer events.Release()
	for {
		event, err := events.Next()
		if err != nil {
			return
		}
		m, err := wire.Parse(event.Data)
		if err != nil || event.Data == nil {
			continue
		}
		switch m.Method {
		case protocol.NotificationAcknowledged:
			raw, _ := wire.Get(m.Params, "notifications", "taskIds")
			ids, _ := wire.Elements(raw)
			select {
			case w.agreed <- slices.ContainsFunc(ids, func(id []byte) bool { text, _ := wire.Text(id); return text == w.id }):
			default: // it has been said before
			}
		case protocol.NotificationTask:
			if task, err := wire.Without(m.Params, "_meta"); err == nil {
				w.changed(task)
			}
		}
	}
}
