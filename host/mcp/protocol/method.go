package protocol

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
