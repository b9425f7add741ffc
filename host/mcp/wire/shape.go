package wire

// Shape lists the known members of a kind of object: members that the protocol defines or the proxy
// acts on. JSON parsers match names in different ways. Some ignore case (encoding/json of Go), some
// also accept task_id for taskId (Python) or meta for _meta (encoding/json/v2, with an option). Of
// two members with the same name, some parsers use the first and some the last. So an object with a
// Shape must not contain a member that merely resembles a known member, nor two members with the
// same name; see Shape.Check. Unknown members are not restricted.
type Shape struct {
	path string // the place of the object, for errors; "" for the message itself
	// joined also covers parsers that ignore separators in names. Results do not need this: servers
	// send is_error next to isError, and misreading the member does no harm.
	joined bool
	byName [][]*knownMember // by the length of the name
	byFold [][]*knownMember // by the length of the folded name
}

// knownMember is a known member of a Shape.
type knownMember struct {
	name   string
	folded string
	index  int
	text   bool   // the value is looked up as a string
	inner  *Shape // the Shape of the value; nil to skip the check
}

// maxKnown is how many members a Shape can have; see names.known.
const maxKnown = 64

// newShape returns a Shape without members.
func newShape(path string, joined bool) *Shape { return &Shape{path: path, joined: joined} }

// has adds members.
func (s *Shape) has(names ...string) *Shape { return s.add(false, nil, names) }

// looksUp adds members with values that are looked up as strings.
func (s *Shape) looksUp(names ...string) *Shape { return s.add(true, nil, names) }

// holds adds a member with the Shape of the value.
func (s *Shape) holds(name string, inner *Shape) *Shape { return s.add(false, inner, []string{name}) }

func (s *Shape) add(text bool, inner *Shape, names []string) *Shape {
	for _, name := range names {
		m := &knownMember{name: name, folded: string(fold(nil, []byte(name), s.joined)), text: text, inner: inner}
		count := 0
		for _, all := range s.byName {
			count += len(all)
		}
		if count == maxKnown || len(m.folded) > maxFolded {
			panic("wire: shape " + s.path + " cannot hold " + name)
		}
		m.index = count
		s.byName = addByLength(s.byName, len(m.name), m)
		s.byFold = addByLength(s.byFold, len(m.folded), m)
	}
	return s
}

// addByLength adds m to the members with names of length n.
func addByLength(index [][]*knownMember, n int, m *knownMember) [][]*knownMember {
	for len(index) <= n {
		index = append(index, nil)
	}
	index[n] = append(index[n], m)
	return index
}

// metaKeys are the known keys of _meta: the keys of revisions up to 2026-07-28, and the proxy's
// own. Keys with a Shape are in metaShape.
var metaKeys = []string{
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/serverInfo",
	"io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/subscriptionId",
	"io.modelcontextprotocol/model-immediate-response",
	"io.github.mcp-metatool/upstreams", "io.github.mcp-metatool/receipt",
	"io.github.mcp-metatool/configuration", "io.github.mcp-metatool/idempotencyKey",
}

// requestMetaShape returns the Shape of the _meta of a request. The client's self-description in
// _meta is checked like the params of initialize.
func requestMetaShape(path string) *Shape {
	return metaShape(path, true, capabilitiesShape(path+".clientCapabilities", true), implementationShape(path+".clientInfo", true))
}

// metaShape returns the Shape of a _meta. client and info are the Shapes of a client's
// self-description; nil for the _meta of anything but a request.
func metaShape(path string, joined bool, client, info *Shape) *Shape {
	const prefix = "io.modelcontextprotocol/"
	const related = prefix + "related-task"
	return newShape(path, joined).has("progressToken").has(metaKeys...).
		holds(prefix+"clientCapabilities", client).holds(prefix+"clientInfo", info).
		holds(related, newShape(path+"."+related, joined).looksUp("taskId"))
}

func taskShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("taskId", "status").
		has("statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")
}

func implementationShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("name", "version").has("title", "description", "icons", "websiteUrl")
}

// capabilitiesShape returns the Shape of the capabilities of clients and servers.
func capabilitiesShape(path string, joined bool) *Shape {
	within := func(name string, members ...string) *Shape {
		return newShape(path+"."+name, joined).has(members...)
	}
	return newShape(path, joined).has("logging", "completions", "experimental").
		holds("extensions", within("extensions")).
		holds("sampling", within("sampling", "tools", "context")).
		holds("elicitation", within("elicitation", "form", "url")).
		holds("roots", within("roots", "listChanged")).
		holds("tasks", within("tasks", "list", "cancel", "requests")).
		holds("tools", within("tools", "listChanged")).
		holds("prompts", within("prompts", "listChanged")).
		holds("resources", within("resources", "listChanged", "subscribe"))
}

// paramsShape returns the Shape of the params of every request and notification, because an unknown
// method may use the members of any known method.
func paramsShape() *Shape {
	within := func(name string) *Shape { return newShape("params."+name, true) }
	return newShape("params", true).
		looksUp("name", "taskId", "uri", "cursor", "level", "logger", "status", "elicitationId", "mode", "protocolVersion",
			"requestState").
		has("arguments", "progressToken", "requestId", "inputRequests", "reason", "progress", "total", "message", "data",
			"notifications", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval",
			"messages", "maxTokens", "systemPrompt", "tools", "toolChoice", "requestedSchema", "url").
		holds("inputResponses", within("inputResponses")).
		holds("_meta", requestMetaShape("params._meta")).
		holds("task", taskShape("params.task", true)).
		holds("ref", within("ref").looksUp("type", "name", "uri")).
		holds("argument", within("argument").has("name", "value")).
		holds("context", within("context").has("arguments")).
		holds("capabilities", capabilitiesShape("params.capabilities", true)).
		holds("clientInfo", implementationShape("params.clientInfo", true))
}

// resultShape returns the Shape of every result. The items of lists are checked separately
// (ItemShape, TaskShape): a refused item is left out of the list.
func resultShape() *Shape {
	return newShape("result", false).
		looksUp("nextCursor", "taskId", "status", "protocolVersion", "instructions", "resultType", "requestState").
		has("tools", "resources", "resourceTemplates", "prompts", "tasks", "content", "structuredContent", "isError",
			"ttlMs", "cacheScope", "supportedVersions").
		holds("inputRequests", newShape("result.inputRequests", false)).
		holds("_meta", metaShape("result._meta", false, nil, nil)).
		holds("task", taskShape("result.task", false)).
		holds("capabilities", capabilitiesShape("result.capabilities", false)).
		holds("serverInfo", implementationShape("result.serverInfo", false))
}

// messageShape is the Shape of every message. Its order is that of checker.parts.
var messageShape = newShape("", false).has("jsonrpc", "id", "method").
	holds("params", paramsShape()).
	holds("result", resultShape()).
	holds("error", newShape("error", false).has("code", "message", "data"))

// Shapes of objects with a check of their own, separate from the message.
var (
	// MetaShape is the Shape of the _meta of a request.
	MetaShape = requestMetaShape("_meta")
	// ItemShape is the Shape of an item of a list; see Surface.
	ItemShape = newShape("item", false).looksUp("name", "uri", "uriTemplate").
			has("title", "description", "inputSchema", "outputSchema", "annotations", "execution", "arguments", "mimeType", "icons").
			holds("_meta", metaShape("item._meta", false, nil, nil))
	// TaskShape is the Shape of a task in a list of tasks.
	TaskShape = taskShape("task", false)
	// ExtensionTaskShape is the Shape of a task of the extension, in a result or a notification,
	// with the outcome of the task.
	ExtensionTaskShape = newShape("task", false).looksUp("taskId", "status", "resultType").
				has("statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs").
				holds("inputRequests", newShape("task.inputRequests", false)).
				holds("result", resultShape()).
				holds("error", newShape("task.error", false).has("code", "message", "data"))
	// ElicitationShape is the Shape of an elicitation requested by an error.
	ElicitationShape = newShape("elicitation", false).looksUp("elicitationId", "mode", "url", "message")
)
