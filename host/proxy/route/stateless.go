package route

import (
	"sync"
	"unsafe"
	"weak"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Hints returns how long a client may keep the result of a request; nil for a method without hints.
func (r *Router) Hints(call Call) *envelope.Hints {
	switch call.Method {
	case protocol.MethodToolsList, protocol.MethodPromptsList, protocol.MethodResourcesList,
		protocol.MethodResourceTemplatesList, protocol.MethodResourcesRead:
		return &envelope.Hints{TTL: 0, Scope: envelope.ScopePrivate}
	}
	return nil
}

// HeaderParams returns the arguments of a tool that requests over HTTP repeat in headers; none if
// the tool is not known yet.
func (r *Router) HeaderParams(s Session, tool string) envelope.Params {
	entry, ok := r.scope(s).Tool(tool)
	if !ok {
		return envelope.Params{}
	}
	return r.headers.of(tool, entry.Definition)
}

// headerCache keeps the results of ParseParams for definitions of tools.
type headerCache struct {
	mu     sync.Mutex // a leaf: no definition is read with mu locked
	byTool map[string]*headerEntry
}

type headerEntry struct {
	definition weak.Pointer[byte] // kept and counted by the list of the server
	once       sync.Once          // reads the definition
	params     envelope.Params
}

// maxHeaderEntries bounds a headerCache, which is emptied beyond this number.
const maxHeaderEntries = 4096

// of returns the Params of a tool. A definition never changes; another definition replaces it.
func (c *headerCache) of(tool string, definition []byte) envelope.Params {
	entry := c.entry(tool, definition)
	entry.once.Do(func() {
		schema, _ := wire.Get(definition, "inputSchema")
		// A tool with wrong annotations has none that a client could follow.
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
