package protocol

// Feature is something that not every revision has, and that is more than a
// method of its own.
type Feature uint8

// The features. The table says which revision brought each, and where the
// specification describes it.
const (
	// Content blocks in results of tools and in messages of prompts.
	TextContent Feature = iota
	ImageContent
	EmbeddedResources
	AudioContent
	ResourceLinks

	// Members of tools, resources, prompts and results.
	ToolAnnotations
	OutputSchema
	// StructuredContent is the member structuredContent of a tool's result, a
	// JSON object.
	StructuredContent
	// StructuredValues says that structuredContent can be any JSON value, not
	// only an object.
	StructuredValues
	Titles
	Icons

	// What a client can be asked for.
	FormElicitation
	URLElicitation
	SamplingTools
	// Tasks says that requests can be run as tasks, whose results are fetched
	// later.
	Tasks

	// Completion of arguments.
	CompletionCapability // declared in capabilities
	CompletionContext    // with arguments that are known already

	ProgressMessages // progress notifications can have a text

	// Transports.
	Batches        // JSON-RPC batches
	HTTPWithSSE    // two endpoints: GET for a stream of events, POST for messages
	StreamableHTTP // one endpoint
	SessionHeader  // Mcp-Session-Id
	VersionHeader  // MCP-Protocol-Version is required
	// ResumableStreams says that a client can come back to a broken stream with
	// Last-Event-ID.
	ResumableStreams
	// PrimingEvents says that a stream begins with an event that has an id and
	// no data, so that it can be resumed from its beginning.
	PrimingEvents

	// Authorization over HTTP.
	Authorization             // OAuth 2.1
	ProtectedResourceMetadata // RFC 9728

	features // how many there are
)

// A row holds its features in 64 bits.
var _ [64 - features]struct{}

// contentFeatures are the types of content blocks (schema.ts, ContentBlock).
var contentFeatures = map[string]Feature{
	"text": TextContent, "image": ImageContent, "resource": EmbeddedResources,
	"audio": AudioContent, "resource_link": ResourceLinks,
}

// ContentFeature is the feature that brought a type of content block, such as
// "resource_link"; false if no revision that we speak has the type.
func ContentFeature(blockType string) (Feature, bool) {
	f, ok := contentFeatures[blockType]
	return f, ok
}
