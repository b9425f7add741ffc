package policy

import "sync"

// History is what a session, run or client has called. The zero value is empty, and so is
// nil. It is safe for concurrent use.
type History struct {
	mu     sync.Mutex // a leaf
	calls  int
	called map[call]int // how often
	order  []call       // keys of called, as first seen
}

// call is a tool, or a server of which something else was used.
type call struct{ server, tool string }

// Add adds a call of a tool that is made now, or was made by the run that this one
// continues.
func (h *History) Add(server, tool string) {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(call{server, tool})
}

func (h *History) add(c call) {
	if h.called == nil {
		h.called = map[call]int{}
	}
	if h.called[c] == 0 {
		h.order = append(h.order, c)
	}
	h.called[c]++
	h.calls++
}
