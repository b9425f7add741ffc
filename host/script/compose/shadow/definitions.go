package shadow

import "sync"

// definitions are the definitions of tools as a run knows them. A server with data that depends on
// labelled answers must not be able to change the definitions: blanks for answers are made from
// definitions. So the definitions are from before the first labelled answer. A server that has not
// listed its tools by then has been told nothing; the server's first definitions count.
type definitions struct {
	now func() func(server, tool string) []byte

	mu     sync.Mutex // a leaf
	before func(server, tool string) []byte
	frozen bool                 // a label is active
	later  map[[2]string][]byte // first seen after the first labelled answer
	given  map[string]bool      // servers with data that may depend on labels
}

// look takes the definitions of this moment, unless a label is active.
func (d *definitions) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.frozen {
		d.before = d.now()
	}
}

func (d *definitions) freeze() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.frozen = true
}

// give notes that a server is given data that may depend on labels.
func (d *definitions) give(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.given[server] = true
}

// of returns the definition of a tool; nil for an unknown tool.
func (d *definitions) of(server, tool string) []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	if found := d.before(server, tool); found != nil {
		return found
	}
	key := [2]string{server, tool}
	if found, ok := d.later[key]; ok || d.given[server] {
		return found
	}
	found := d.now()(server, tool)
	if found != nil && d.frozen {
		d.later[key] = found
	}
	return found
}
