package wire

// A Shape says which members of an object we or the protocol act on. Readers
// differ in what they take for such a member: some ignore the case of letters
// (encoding/json of Go), some also take task_id for taskId (Python) or meta for
// _meta (encoding/json/v2, if told to), some keep the first and some the last of
// two with one name. So an object of a Shape must not have a member that only
// resembles one of these, nor two of one name; see Shape.Check. What else it has
// is not ours to judge.
type Shape struct {
	path string // where such objects are, for errors; "" for a message itself
	// joined says that readers which ignore separators count, too. Results are
	// not held to that: servers send is_error beside isError, and nobody who
	// reads that gains by it.
	joined bool
	byName [][]*acted // by the length of the name
	byFold [][]*acted // by the length of its folded form
}

// acted is a member that is acted on.
type acted struct {
	name   string
	folded string
	index  int
	text   bool   // its value is looked up as a string
	inner  *Shape // of its value; nil where that is not looked into
}

// maxActed is how many members a Shape can have; see names.acted.
const maxActed = 64

// newShape makes a Shape.
func newShape(path string, joined bool) *Shape { return &Shape{path: path, joined: joined} }

// has adds members.
func (s *Shape) has(names ...string) *Shape { return s.add(false, nil, names) }

// looksUp adds members whose values are looked up as strings.
func (s *Shape) looksUp(names ...string) *Shape { return s.add(true, nil, names) }

// holds adds a member with the Shape of its value.
func (s *Shape) holds(name string, inner *Shape) *Shape { return s.add(false, inner, []string{name}) }

func (s *Shape) add(text bool, inner *Shape, names []string) *Shape {
	for _, name := range names {
		m := &acted{name: name, folded: string(fold(nil, []byte(name), s.joined)), text: text, inner: inner}
		count := 0
		for _, all := range s.byName {
			count += len(all)
		}
		if count == maxActed || len(m.folded) > maxFolded {
			panic("wire: shape " + s.path + " has no room for " + name)
		}
		m.index = count
		s.byName = file(s.byName, len(m.name), m)
		s.byFold = file(s.byFold, len(m.folded), m)
	}
	return s
}

func file(index [][]*acted, n int, m *acted) [][]*acted {
	for len(index) <= n {
		index = append(index, nil)
	}
	index[n] = append(index[n], m)
	return index
}

// The keys of _meta that are acted on: those of revisions up to 2026-07-28, and
// our own.
var metaKeys = []string{
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientInfo",
	"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/serverInfo",
	"io.modelcontextprotocol/logLevel", "io.modelcontextprotocol/subscriptionId",
	"io.modelcontextprotocol/model-immediate-response",
	"io.github.mcp-metatool/upstreams", "io.github.mcp-metatool/receipt",
}

func metaShape(path string, joined bool) *Shape {
	const related = "io.modelcontextprotocol/related-task"
	return newShape(path, joined).has("progressToken").has(metaKeys...).
		holds(related, newShape(path+"."+related, joined).looksUp("taskId"))
}

func taskShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("taskId", "status").
		has("statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval")
}

func implementationShape(path string, joined bool) *Shape {
	return newShape(path, joined).looksUp("name", "version").has("title", "description", "icons", "websiteUrl")
}

// capabilitiesShape is that of a client's and of a server's capabilities.
func capabilitiesShape(path string, joined bool) *Shape {
	within := func(name string, members ...string) *Shape {
		return newShape(path+"."+name, joined).has(members...)
	}
	return newShape(path, joined).has("logging", "completions", "experimental", "extensions").
		holds("sampling", within("sampling", "tools", "context")).
		holds("elicitation", within("elicitation", "form", "url")).
		holds("roots", within("roots", "listChanged")).
		holds("tasks", within("tasks", "list", "cancel", "requests")).
		holds("tools", within("tools", "listChanged")).
		holds("prompts", within("prompts", "listChanged")).
		holds("resources", within("resources", "listChanged", "subscribe"))
}

// paramsShape is that of the params of every request and notification: a method
// that we do not know may have what others have.
func paramsShape() *Shape {
	within := func(name string) *Shape { return newShape("params."+name, true) }
	return newShape("params", true).
		looksUp("name", "taskId", "uri", "cursor", "level", "logger", "status", "elicitationId", "mode", "protocolVersion",
			"requestState").
		has("arguments", "progressToken", "requestId", "inputRequests", "reason", "progress", "total", "message", "data",
			"notifications", "statusMessage", "createdAt", "lastUpdatedAt", "ttl", "pollInterval",
			"messages", "maxTokens", "systemPrompt", "tools", "toolChoice", "requestedSchema", "url").
		holds("inputResponses", within("inputResponses")).
		holds("_meta", metaShape("params._meta", true)).
		holds("task", taskShape("params.task", true)).
		holds("ref", within("ref").looksUp("type", "name", "uri")).
		holds("argument", within("argument").has("name", "value")).
		holds("context", within("context").has("arguments")).
		holds("capabilities", capabilitiesShape("params.capabilities", true)).
		holds("clientInfo", implementationShape("params.clientInfo", true))
}

// resultShape is that of every result. A list's items are not looked into: one
// that is refused is left out of the list (ItemShape, TaskShape).
func resultShape() *Shape {
	return newShape("result", false).
		looksUp("nextCursor", "taskId", "status", "protocolVersion", "instructions", "resultType", "requestState").
		has("tools", "resources", "resourceTemplates", "prompts", "tasks", "content", "structuredContent", "isError",
			"ttlMs", "cacheScope", "supportedVersions").
		holds("inputRequests", newShape("result.inputRequests", false)).
		holds("_meta", metaShape("result._meta", false)).
		holds("task", taskShape("result.task", false)).
		holds("capabilities", capabilitiesShape("result.capabilities", false)).
		holds("serverInfo", implementationShape("result.serverInfo", false))
}

// message is the Shape of every message. Its order is that of checker.parts.
var message = newShape("", false).has("jsonrpc", "id", "method").
	holds("params", paramsShape()).
	holds("result", resultShape()).
	holds("error", newShape("error", false).has("code", "message", "data"))

// Shapes of objects that do not stand in a message as a whole.
var (
	// MetaShape is that of the _meta of a request.
	MetaShape = metaShape("_meta", true)
	// ItemShape is that of an item of a list; see Surface.
	ItemShape = newShape("item", false).looksUp("name", "uri", "uriTemplate").
			has("title", "description", "inputSchema", "outputSchema", "annotations", "execution", "arguments", "mimeType", "icons").
			holds("_meta", metaShape("item._meta", false))
	// TaskShape is that of a task in a list of tasks.
	TaskShape = taskShape("task", false)
	// ElicitationShape is that of an elicitation that an error asks for.
	ElicitationShape = newShape("elicitation", false).looksUp("elicitationId", "mode", "url", "message")
)
