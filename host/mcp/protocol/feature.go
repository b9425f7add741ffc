package protocol

// Feature is something that only some revisions have and that is not just a method.
type Feature uint8

// The features. The table says which revision added each, and where the specification
// describes it.
const (
	// Types of content blocks in results of tools and messages of prompts.
	TextContent Feature = iota
	ImageContent
	EmbeddedResources
	AudioContent
	ResourceLinks

	// Members of tools, resources, prompts and results.
	ToolAnnotations
	OutputSchema
	// StructuredContent is the member structuredContent of a tool result, a JSON object.
	StructuredContent
	// StructuredValues says that structuredContent can be any JSON value, not
	// only an object.
	StructuredValues
	Titles
	Icons

	// What a server can request from a client.
	FormElicitation
	URLElicitation
	SamplingTools
	// Tasks says that requests can run as tasks, with results that are fetched later.
	// Later revisions have the extension [ExtensionTasks] instead.
	Tasks

	// Completion of arguments.
	CompletionCapability // declared in capabilities
	CompletionContext    // with the arguments that are already known

	ProgressMessages // progress notifications can have a message

	// Transports.
	Batches        // JSON-RPC batches
	HTTPWithSSE    // two endpoints: GET for a stream of events, POST for messages
	StreamableHTTP // one endpoint
	SessionHeader  // Mcp-Session-Id
	VersionHeader  // MCP-Protocol-Version is required
	// ResumableStreams says that a client can resume a broken stream with Last-Event-ID.
	ResumableStreams
	// PrimingEvents says that a stream begins with an event that has an id but no data,
	// so that it can be resumed from its beginning.
	PrimingEvents

	// StandardHeaders says that a request over HTTP repeats its method and what it is
	// about in the headers Mcp-Method, Mcp-Name and Mcp-Param-*.
	StandardHeaders

	// Results.
	ResultTypes // every result has the member resultType
	CacheHints  // lists and resources have ttlMs and cacheScope
	// InputRequests says that a server asks the client by answering a request with
	// resultType "input_required", and that the client repeats the request with the
	// answers.
	InputRequests
	// RequestLogLevel says that each request names the lowest level of the log messages
	// that belong to it.
	RequestLogLevel

	// Authorization over HTTP.
	Authorization             // OAuth 2.1
	ProtectedResourceMetadata // RFC 9728

	features // the number of features
)

// A row stores its features in 64 bits.
var _ [64 - features]struct{}

// contentFeatures maps the types of content blocks to features (schema.ts, ContentBlock).
var contentFeatures = map[string]Feature{
	"text": TextContent, "image": ImageContent, "resource": EmbeddedResources,
	"audio": AudioContent, "resource_link": ResourceLinks,
}

// ContentFeature returns the feature that added a type of content block, such as
// "resource_link"; false if no revision that we support has the type.
func ContentFeature(blockType string) (Feature, bool) {
	f, ok := contentFeatures[blockType]
	return f, ok
}
