package route

import (
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/envelope"
	"github.com/mcp-metatool/mcp-metatool/host/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
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
	mu     sync.Mutex
	byTool map[string]headerEntry
}

type headerEntry struct {
	definition []byte
	params     envelope.Params
}

// maxHeaderEntries bounds a headerCache. With more, it begins anew.
const maxHeaderEntries = 4096

// of returns the Params of a tool. A definition never changes; another one replaces it.
func (c *headerCache) of(tool string, definition []byte) envelope.Params {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.byTool[tool]; ok && len(definition) > 0 && len(known.definition) == len(definition) && &known.definition[0] == &definition[0] {
		return known.params
	}
	schema, _ := wire.Get(definition, "inputSchema")
	// A tool whose annotations are wrong has none that a client could follow.
	params, _ := envelope.ParseParams(schema)
	if c.byTool == nil || len(c.byTool) >= maxHeaderEntries {
		c.byTool = map[string]headerEntry{}
	}
	c.byTool[tool] = headerEntry{definition, params}
	return params
}
