package compose

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/tools"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
)

// Reaches keeps the reach of scripts, so that each is analysed once. Reaches is safe for concurrent
// use. The zero value is ready to use.
type Reaches struct {
	mu     sync.Mutex // a leaf
	known  map[[sha256.Size]byte]reach
	oldest [][sha256.Size]byte
	warned []string // of changed definitions
}

// maxReaches is how many scripts are kept.
const maxReaches = 2000

// reach is the set of calls open to a script; empty for a script that does not compile.
type reach struct {
	compiles bool
	tools    []abi.Reached
}

func (r *Reaches) find(key [sha256.Size]byte) (reach, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	found, ok := r.known[key]
	return found, ok
}

func (r *Reaches) add(key [sha256.Size]byte, found reach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[key]; ok {
		return
	}
	if r.known == nil {
		r.known = map[[sha256.Size]byte]reach{}
	}
	if len(r.oldest) >= maxReaches {
		delete(r.known, r.oldest[0])
		r.oldest = append([][sha256.Size]byte(nil), r.oldest[1:]...)
	}
	r.known[key], r.oldest = found, append(r.oldest, key)
}

// reachKey identifies a script and the names of servers for the analysis.
func reachKey(code string, servers []string) (key [sha256.Size]byte) {
	h := sha256.New()
	for _, s := range servers {
		io.WriteString(h, s+"\n") // writing to a hash never fails
	}
	io.WriteString(h, "\x00"+code)
	h.Sum(key[:0])
	return key
}

// reach returns the reach of a script, given the script names of all servers. The error is a
// *Failure.
func (c *Composer) reach(ctx context.Context, name, code string, servers []string) (reach, error) {
	key := reachKey(code, servers)
	if found, ok := c.reaches.find(key); ok {
		return found, nil
	}
	// Configured limits are meant for scripts, and may be too low for the analysis.
	b := c.budget(tools.Limits{})
	b.Limits = sandbox.Limits{}.WithDefaults()
	b.timeout = max(b.timeout, DefaultTimeout)
	out, err := c.inspectWith(ctx, abi.OpLint, name, code, servers, b, nil)
	if err != nil {
		return reach{}, err
	}
	var l abi.Lint
	if out.Err != nil {
		return reach{}, &Failure{Type: abi.ErrInternal, Message: "checking the script: " + out.Err.Message}
	}
	if err := jsonvalue.Unmarshal(out.Result, &l); err != nil {
		return reach{}, &Failure{Type: abi.ErrInternal, Message: fmt.Sprintf("checking the script: %v", err)}
	}
	found := reach{compiles: l.Derived, tools: l.Reach}
	c.reaches.add(key, found)
	return found, nil
}

func (r reach) covers(call abi.ToolCall) bool {
	for _, t := range r.tools {
		if t.Covers(call) {
			return true
		}
	}
	return false
}
