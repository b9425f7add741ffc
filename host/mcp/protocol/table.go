package protocol

// row is a revision: additions to the previous revision, and removals. Sources are pages of the
// specification, docs/specification/REVISION in
// github.com/modelcontextprotocol/modelcontextprotocol, with the heading after a comma; "schema" is
// schema/REVISION/schema.ts, "changelog" the page of changes.
type row struct {
	name string
	era  Era

	features, removedFeatures []featureFact
	methods, removedMethods   []methodFact // methods also replace earlier methods of the same name
	codes, removedCodes       []codeFact

	// The contents of the revision, set by compute.
	has        uint64 // bit 1<<f for each Feature f
	allMethods []Method
	allCodes   []int
}

type featureFact struct {
	Feature
	source string
}

type methodFact struct {
	Method
	source string
}

type codeFact struct {
	code   int
	source string
}

// none is the row of the zero Revision.
var none row

// revisions contains the supported revisions, oldest first.
var revisions = [...]row{
	{
		name: "2024-11-05", era: Handshake,
		features: []featureFact{
			{TextContent, "server/tools, Text Content"},
			{ImageContent, "server/tools, Image Content"},
			{EmbeddedResources, "server/tools, Embedded Resources"},
			{HTTPWithSSE, "basic/transports, HTTP with SSE"},
		},
		methods: []methodFact{
			{Method{Client, Request, MethodInitialize, ""}, "basic/lifecycle, Initialization"},
			{Method{Client, Notification, NotificationInitialized, ""}, "basic/lifecycle, Initialization"},
			{Method{Client, Request, MethodPing, ""}, "basic/utilities/ping"},
			{Method{Server, Request, MethodPing, ""}, "basic/utilities/ping"},
			{Method{Client, Notification, NotificationCancelled, ""}, "basic/utilities/cancellation"},
			{Method{Server, Notification, NotificationCancelled, ""}, "basic/utilities/cancellation"},
			{Method{Client, Notification, NotificationProgress, ""}, "basic/utilities/progress"},
			{Method{Server, Notification, NotificationProgress, ""}, "basic/utilities/progress"},
			{Method{Client, Request, MethodToolsList, "tools"}, "server/tools, Listing Tools"},
			{Method{Client, Request, MethodToolsCall, "tools"}, "server/tools, Calling Tools"},
			{Method{Server, Notification, NotificationToolsChanged, ""}, "server/tools, List Changed Notification"},
			{Method{Client, Request, MethodResourcesList, "resources"}, "server/resources, Listing Resources"},
			{Method{Client, Request, MethodResourceTemplatesList, "resources"}, "server/resources, Resource Templates"},
			{Method{Client, Request, MethodResourcesRead, "resources"}, "server/resources, Reading Resources"},
			{Method{Client, Request, MethodResourcesSubscribe, "resources"}, "server/resources, Subscriptions"},
			{Method{Client, Request, MethodResourcesUnsubscribe, "resources"}, "schema, UnsubscribeRequest"},
			{Method{Server, Notification, NotificationResourcesChanged, ""}, "server/resources, List Changed Notification"},
			{Method{Server, Notification, NotificationResourceUpdated, ""}, "server/resources, Subscriptions"},
			{Method{Client, Request, MethodPromptsList, "prompts"}, "server/prompts, Listing Prompts"},
			{Method{Client, Request, MethodPromptsGet, "prompts"}, "server/prompts, Getting a Prompt"},
			{Method{Server, Notification, NotificationPromptsChanged, ""}, "server/prompts, List Changed Notification"},
			{Method{Client, Request, MethodComplete, ""}, "server/utilities/completion, Requesting Completions"},
			{Method{Client, Request, MethodSetLevel, "logging"}, "server/utilities/logging, Setting Log Level"},
			{Method{Server, Notification, NotificationMessage, ""}, "server/utilities/logging, Log Message Notifications"},
			{Method{Server, Request, MethodCreateMessage, "sampling"}, "client/sampling, Creating Messages"},
			{Method{Server, Request, MethodRootsList, "roots"}, "client/roots, Listing Roots"},
			{Method{Client, Notification, NotificationRootsChanged, ""}, "client/roots, Root List Changes"},
		},
		codes: []codeFact{
			{CodeResourceNotFound, "server/resources, Error Handling"},
		},
	},
	{
		name: "2025-03-26", era: Handshake,
		features: []featureFact{
			{Batches, "basic/index, Batching"},
			{StreamableHTTP, "basic/transports, Streamable HTTP"},
			{SessionHeader, "basic/transports, Session Management"},
			{ResumableStreams, "basic/transports, Resumability and Redelivery"},
			{Authorization, "basic/authorization"},
			{ToolAnnotations, "schema, ToolAnnotations"},
			{AudioContent, "server/tools, Audio Content"},
			{ProgressMessages, "basic/utilities/progress"},
			{CompletionCapability, "server/utilities/completion, Capabilities"},
		},
		removedFeatures: []featureFact{
			{HTTPWithSSE, "changelog, Major changes 2"},
		},
		methods: []methodFact{
			{Method{Client, Request, MethodComplete, "completions"}, "server/utilities/completion, Capabilities"},
		},
	},
	{
		name: "2025-06-18", era: Handshake,
		features: []featureFact{
			{StructuredContent, "server/tools, Structured Content"},
			{OutputSchema, "server/tools, Output Schema"},
			{ResourceLinks, "server/tools, Resource Links"},
			{FormElicitation, "client/elicitation"},
			{VersionHeader, "basic/transports, Protocol Version Header"},
			{ProtectedResourceMetadata, "basic/authorization, Authorization Server Discovery"},
			{CompletionContext, "server/utilities/completion, Requesting Completions"},
			{Titles, "changelog, Other schema changes 3"},
		},
		removedFeatures: []featureFact{
			{Batches, "changelog, Major changes 1"},
		},
		methods: []methodFact{
			{Method{Server, Request, MethodElicit, "elicitation"}, "client/elicitation, Creating Elicitation Requests"},
		},
	},
	{
		name: "2025-11-25", era: Handshake,
		features: []featureFact{
			{Icons, "changelog, Major changes 2"},
			{URLElicitation, "client/elicitation, URL Mode Elicitation Requests"},
			{SamplingTools, "client/sampling, Tools in Sampling"},
			{Tasks, "basic/utilities/tasks"},
			{PrimingEvents, "basic/transports, Sending Messages to the Server"},
		},
		methods: []methodFact{
			{Method{Server, Notification, NotificationElicitationDone, ""}, "client/elicitation, Completion Notifications for URL Mode Elicitation"},
			{Method{Client, Request, MethodTasksGet, "tasks"}, "basic/utilities/tasks, Getting Tasks"},
			{Method{Server, Request, MethodTasksGet, "tasks"}, "basic/utilities/tasks, Getting Tasks"},
			{Method{Client, Request, MethodTasksResult, "tasks"}, "basic/utilities/tasks, Retrieving Task Results"},
			{Method{Server, Request, MethodTasksResult, "tasks"}, "basic/utilities/tasks, Retrieving Task Results"},
			{Method{Client, Request, MethodTasksList, "tasks"}, "basic/utilities/tasks, Listing Tasks"},
			{Method{Server, Request, MethodTasksList, "tasks"}, "basic/utilities/tasks, Listing Tasks"},
			{Method{Client, Request, MethodTasksCancel, "tasks"}, "basic/utilities/tasks, Cancelling Tasks"},
			{Method{Server, Request, MethodTasksCancel, "tasks"}, "basic/utilities/tasks, Cancelling Tasks"},
			{Method{Client, Notification, NotificationTaskStatus, ""}, "basic/utilities/tasks, Task Status Notification"},
			{Method{Server, Notification, NotificationTaskStatus, ""}, "basic/utilities/tasks, Task Status Notification"},
		},
		codes: []codeFact{
			{CodeURLElicitationRequired, "client/elicitation, URL Elicitation Required Error"},
		},
	},
	{
		name: "2026-07-28", era: Stateless,
		features: []featureFact{
			{StructuredValues, "changelog, Minor changes 10"},
			{StandardHeaders, "changelog, Minor changes 4"},
			{ResultTypes, "changelog, Major changes 8"},
			{CacheHints, "changelog, Minor changes 5"},
			{InputRequests, "changelog, Major changes 7"},
			{RequestLogLevel, "changelog, Major changes 5"},
		},
		removedFeatures: []featureFact{
			{Tasks, "changelog, Major changes 6"},
			{SessionHeader, "changelog, Major changes 1"},
			{ResumableStreams, "changelog, Major changes 9"},
			{PrimingEvents, "changelog, Major changes 9"},
		},
		methods: []methodFact{
			{Method{Client, Request, MethodDiscover, ""}, "server/discover"},
			{Method{Client, Request, MethodListen, ""}, "basic/patterns/subscriptions"},
			{Method{Server, Notification, NotificationAcknowledged, ""}, "basic/patterns/subscriptions, Acknowledgment"},
		},
		removedMethods: []methodFact{
			{Method{Client, Request, MethodInitialize, ""}, "changelog, Major changes 2"},
			{Method{Client, Notification, NotificationInitialized, ""}, "changelog, Major changes 2"},
			{Method{Client, Request, MethodPing, ""}, "changelog, Major changes 5"},
			{Method{Server, Request, MethodPing, ""}, "changelog, Major changes 5"},
			{Method{Client, Notification, NotificationProgress, ""}, "schema, ClientNotification"},
			{Method{Client, Request, MethodResourcesSubscribe, ""}, "changelog, Major changes 4"},
			{Method{Client, Request, MethodResourcesUnsubscribe, ""}, "changelog, Major changes 4"},
			{Method{Client, Request, MethodSetLevel, ""}, "changelog, Major changes 5"},
			{Method{Client, Notification, NotificationRootsChanged, ""}, "changelog, Major changes 5"},
			{Method{Server, Notification, NotificationElicitationDone, ""}, "changelog, Minor changes 11"},
			// Questions of a server are part of a result (basic/patterns/mrtr).
			{Method{Server, Request, MethodCreateMessage, ""}, "changelog, Major changes 7"},
			{Method{Server, Request, MethodElicit, ""}, "changelog, Major changes 7"},
			{Method{Server, Request, MethodRootsList, ""}, "changelog, Major changes 7"},
			{Method{Client, Request, MethodTasksGet, ""}, "changelog, Major changes 6"},
			{Method{Server, Request, MethodTasksGet, ""}, "changelog, Major changes 6"},
			{Method{Client, Request, MethodTasksResult, ""}, "changelog, Major changes 6"},
			{Method{Server, Request, MethodTasksResult, ""}, "changelog, Major changes 6"},
			{Method{Client, Request, MethodTasksList, ""}, "changelog, Major changes 6"},
			{Method{Server, Request, MethodTasksList, ""}, "changelog, Major changes 6"},
			{Method{Client, Request, MethodTasksCancel, ""}, "changelog, Major changes 6"},
			{Method{Server, Request, MethodTasksCancel, ""}, "changelog, Major changes 6"},
			{Method{Client, Notification, NotificationTaskStatus, ""}, "changelog, Major changes 6"},
			{Method{Server, Notification, NotificationTaskStatus, ""}, "changelog, Major changes 6"},
		},
		codes: []codeFact{
			{CodeHeaderMismatch, "basic/index, Error Codes"},
			{CodeMissingCapability, "basic/index, Error Codes"},
			{CodeUnsupportedVersion, "basic/index, Error Codes"},
		},
		removedCodes: []codeFact{
			{CodeResourceNotFound, "changelog, Minor changes 6"},
			{CodeURLElicitationRequired, "changelog, Minor changes 11"},
		},
	},
}

func init() {
	before := &none
	for i := range revisions {
		revisions[i].compute(before)
		before = &revisions[i]
	}
}

// compute sets the contents of a revision, given the previous revision.
func (r *row) compute(before *row) {
	r.has = before.has
	for _, f := range r.features {
		r.has |= 1 << f.Feature
	}
	for _, f := range r.removedFeatures {
		r.has &^= 1 << f.Feature
	}
	r.allMethods = without(before.allMethods, r.removedMethods)
	r.allMethods = without(r.allMethods, r.methods)
	for _, m := range r.methods {
		r.allMethods = append(r.allMethods, m.Method)
	}
	for _, code := range before.allCodes {
		if !removes(r.removedCodes, code) {
			r.allCodes = append(r.allCodes, code)
		}
	}
	for _, c := range r.codes {
		r.allCodes = append(r.allCodes, c.code)
	}
}

// without returns a copy of methods without the methods in facts.
func without(methods []Method, facts []methodFact) []Method {
	var left []Method
	for _, m := range methods {
		named := false
		for _, f := range facts {
			named = named || f.From == m.From && f.Name == m.Name
		}
		if !named {
			left = append(left, m)
		}
	}
	return left
}

func removes(facts []codeFact, code int) bool {
	for _, f := range facts {
		if f.code == code {
			return true
		}
	}
	return false
}

// Requests.
const (
	MethodInitialize            = "initialize"
	MethodPing                  = "ping"
	MethodToolsList             = "tools/list"
	MethodToolsCall             = "tools/call"
	MethodResourcesList         = "resources/list"
	MethodResourceTemplatesList = "resources/templates/list"
	MethodResourcesRead         = "resources/read"
	MethodResourcesSubscribe    = "resources/subscribe"
	MethodResourcesUnsubscribe  = "resources/unsubscribe"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodCreateMessage         = "sampling/createMessage"
	MethodRootsList             = "roots/list"
	MethodElicit                = "elicitation/create"
	MethodTasksGet              = "tasks/get"
	MethodTasksResult           = "tasks/result"
	MethodTasksList             = "tasks/list"
	MethodTasksCancel           = "tasks/cancel"
	MethodDiscover              = "server/discover"
	MethodListen                = "subscriptions/listen"
)

// Notifications.
const (
	NotificationInitialized      = "notifications/initialized"
	NotificationCancelled        = "notifications/cancelled"
	NotificationProgress         = "notifications/progress"
	NotificationMessage          = "notifications/message"
	NotificationToolsChanged     = "notifications/tools/list_changed"
	NotificationResourcesChanged = "notifications/resources/list_changed"
	NotificationPromptsChanged   = "notifications/prompts/list_changed"
	NotificationResourceUpdated  = "notifications/resources/updated"
	NotificationRootsChanged     = "notifications/roots/list_changed"
	NotificationElicitationDone  = "notifications/elicitation/complete"
	NotificationTaskStatus       = "notifications/tasks/status"
	NotificationAcknowledged     = "notifications/subscriptions/acknowledged"
)

// The extension for tasks, which is not part of any revision, and the extension's additions to the
// methods tasks/get and tasks/cancel (github.com/modelcontextprotocol/ext-tasks,
// specification/draft/tasks.md).
const (
	ExtensionTasks    = "io.modelcontextprotocol/tasks"
	MethodTasksUpdate = "tasks/update"
	NotificationTask  = "notifications/tasks"
)

// TaskStatus is the status of a task, in revision 2025-11-25 and in the extension.
type TaskStatus string

// The statuses. The last three are statuses of ended tasks.
const (
	TaskWorking       TaskStatus = "working"
	TaskInputRequired TaskStatus = "input_required"
	TaskCompleted     TaskStatus = "completed"
	TaskFailed        TaskStatus = "failed"
	TaskCancelled     TaskStatus = "cancelled"
)

// IsTaskRequest reports whether a method is a request of the extension for tasks.
func IsTaskRequest(method string) bool {
	switch method {
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return true
	}
	return false
}

// Party is an end of a connection.
type Party uint8

const (
	Client Party = iota + 1
	Server
)

// Kind says whether a method is a request or a notification.
type Kind uint8

const (
	Request Kind = iota + 1
	Notification
)

// Method is a request or notification sent by a party. The table has a method of both parties
// twice.
type Method struct {
	From Party
	Kind Kind
	Name string
	// Capability is the member of the other party's capabilities that declares support for the
	// request, such as "tools"; "" if no declaration is needed, and for notifications.
	Capability string
}

func find(methods []Method, from Party, name string) (Method, bool) {
	for _, m := range methods {
		if m.From == from && m.Name == name {
			return m, true
		}
	}
	return Method{}, false
}

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
