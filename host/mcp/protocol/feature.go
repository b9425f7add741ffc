package protocol

// Feature is a property of some revisions other than a method.
type Feature uint8

// The features. The table says the revision that added each feature, and the place in the
// specification.
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
	// StructuredValues means that structuredContent can be any JSON value, not only an object.
	StructuredValues
	Titles
	Icons

	// Requests of a server to a client.
	FormElicitation
	URLElicitation
	SamplingTools
	// Tasks means that requests can run as tasks, with results fetched later. Later revisions have
	// the extension [ExtensionTasks] instead.
	Tasks

	// Completion of arguments.
	CompletionCapability // declared in capabilities
	CompletionContext    // with the known arguments

	ProgressMessages // progress notifications can have a message

	// Transports.
	Batches        // JSON-RPC batches
	HTTPWithSSE    // two endpoints: GET for a stream of events, POST for messages
	StreamableHTTP // a single endpoint
	SessionHeader  // Mcp-Session-Id
	VersionHeader  // MCP-Protocol-Version is required
	// ResumableStreams means that a client can resume a broken stream with Last-Event-ID.
	ResumableStreams
	// PrimingEvents means that a stream begins with an event with an id but no data, so a client
	// can resume the stream from the beginning.
	PrimingEvents

	// StandardHeaders means that a request over HTTP repeats the method and the subject in the
	// headers Mcp-Method, Mcp-Name and Mcp-Param-*.
	StandardHeaders

	// Results.
	ResultTypes // every result has the member resultType
	CacheHints  // lists and resources have ttlMs and cacheScope
	// InputRequests means that a server asks the client by answering a request with resultType
	// "input_required", and the client repeats the request with the answers.
	InputRequests
	// RequestLogLevel means that each request names the lowest level of related log messages.
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

// ContentFeature returns the feature that added a type of content block, such as "resource_link";
// false if no supported revision has the type.
func ContentFeature(blockType string) (Feature, bool) {
	f, ok := contentFeatures[blockType]
	return f, ok
}
