package route

import (
	"sync"
	"unsafe"
	"weak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Hints says how long a client may keep the result of a request; nil if results of its
// method have no such hints.
func (r *Router) Hints(call Call) *envelope.Hints {
	switch call.Method {
	case protocol.MethodToolsList, protocol.MethodPromptsList, protocol.MethodResourcesList,
		protocol.MethodResourceTemplatesList, protocol.MethodResourcesRead:
		return &envelope.Hints{TTL: 0, Scope: envelope.ScopePrivate}
	}
	return nil
}

// HeaderParams returns the arguments of a tool that requests over HTTP repeat in headers;
// none if the tool is not known yet.
func (r *Router) HeaderParams(s Session, tool string) envelope.Params {
	entry, ok := r.scope(s).Tool(tool)
	if !ok {
		return envelope.Params{}
	}
	return r.headers.of(tool, entry.Definition)
}

// headerCache keeps what ParseParams has found in definitions of tools.
type headerCache struct {
	mu     sync.Mutex // a leaf: no definition is read while it is held
	byTool map[string]*headerEntry
}

type headerEntry struct {
	definition weak.Pointer[byte] // the list of its server keeps it, and counts it
	once       sync.Once          // reads it
	params     envelope.Params
}

// maxHeaderEntries bounds a headerCache. With more, it begins anew.
const maxHeaderEntries = 4096

// of returns the Params of a tool. A definition never changes; another one replaces it.
func (c *headerCache) of(tool string, definition []byte) envelope.Params {
	entry := c.entry(tool, definition)
	entry.once.Do(func() {
		schema, _ := wire.Get(definition, "inputSchema")
		// A tool whose annotations are wrong has none that a client could follow.
		entry.params, _ = envelope.ParseParams(schema)
	})
	return entry.params
}

func (c *headerCache) entry(tool string, definition []byte) *headerEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := weak.Make(unsafe.SliceData(definition))
	if known := c.byTool[tool]; known != nil && known.definition == at {
		return known
	}
	if c.byTool == nil || len(c.byTool) >= maxHeaderEntries {
		c.byTool = map[string]*headerEntry{}
	}
	entry := &headerEntry{definition: at}
	c.byTool[tool] = entry
	return entry
}
