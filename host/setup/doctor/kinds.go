package doctor

// Kind is a kind of finding.
type Kind struct {
	ID       string
	Severity Severity
	Means    string // one sentence for docs/doctor.md
	// Hosts are the hosts that it matters to, under the names of package clientconfig, and
	// the APIs and SDKs of others; nil for all.
	Hosts []string
}

// desktop are the hosts with a graphical interface.
var desktop = []string{"claude-desktop", "cursor", "vscode", "windsurf", "zed"}

// The ids of findings.
const (
	idConfigInvalid    = "config-invalid"
	idVariableUnset    = "variable-unset"
	idConfigWarning    = "config-warning"
	idConfigMissing    = "config-missing"
	idConfigWritable   = "config-writable"
	idConfigReadable   = "config-readable"
	idPolicyTool       = "policy-tool"
	idPolicyClient     = "policy-client"
	idFlowPattern      = "flow-pattern"
	idFlowServer       = "flow-server"
	idFlowShape        = "flow-shape"
	idApprovalsWaiting = "approvals-waiting"
	idCommandMissing   = "command-missing"
	idDesktopPath      = "desktop-path"
	idInterpreterPath  = "interpreter-path"
	idRuntimeOld       = "runtime-old"
	idRuntimeBroken    = "runtime-broken"
	idServerDown       = "server-down"
	idServerSlow       = "server-slow"
	idServerCrashed    = "server-crashed"
	idServerAsleep     = "server-asleep"
	idProtocolOld      = "protocol-old"
	idNameChanged      = "name-changed"
	idNameLong         = "name-long"
	idNameCollision    = "name-collision"
	idPinsDrift        = "pins-drift"
	idItemOdd          = "item-odd"
	idSchemaType       = "schema-type"
	idSchemaUnion      = "schema-union"
	idSchemaRef        = "schema-ref"
	idSchemaFormat     = "schema-format"
	idSchemaKey        = "schema-key"
	idSchemaItems      = "schema-items"
	idSchemaEmpty      = "schema-empty"
	idSchemaTypeList   = "schema-type-list"
	idTextLong         = "text-long"
	idToolsMany        = "tools-many"
	idTokensMany       = "tokens-many"
	idLoginMissing     = "login-missing"
	idLoginExpired     = "login-expired"
	idPortUsed         = "port-used"
	idPortDenied       = "port-denied"
	idPortAddress      = "port-address"
	idInstanceOther    = "instance-other"
	idInstanceSilent   = "instance-silent"
	idFolderUnsafe     = "folder-unsafe"
	idFileReadable     = "file-readable"
	idDiskFull         = "disk-full"
	idCacheSize        = "cache-size"
	idCacheNone        = "cache-none"
	idClockBack        = "clock-back"
	idClockWrong       = "clock-wrong"
)

// Kinds are all kinds of findings, by area.
var Kinds = []Kind{
	{idConfigInvalid, Error, "The configuration has a mistake. A server with a mistake in its entry is not started; a mistake elsewhere stops everything, and nothing else about servers can be checked.", nil},
	{idVariableUnset, Error, "A server needs a variable that is not set. It is not started without it.", nil},
	{idConfigWarning, Warning, "`check` warns about a setting.", nil},
	{idConfigMissing, Note, "There is no configuration file, or no server in it.", nil},
	{idConfigWritable, Error, "Other users can change the configuration, and with it the commands that run as you.", nil},
	{idConfigReadable, Warning, "Other users can read the configuration, and it has secrets in plain text.", nil},

	{idPolicyTool, Warning, "A rule of the policy names a tool that there is not.", nil},
	{idPolicyClient, Note, "A rule of the policy names a client, and no token has that name.", nil},
	{idFlowPattern, Warning, "A pattern in [flow] matches no tool.", nil},
	{idFlowServer, Warning, "Some answers are private, and a server without a label can be written to and read.", nil},
	{idFlowShape, Note, "A tool whose answers have labels has neither an outputSchema nor a shape.", nil},
	{idApprovalsWaiting, Note, "Calls wait for your approval.", nil},

	{idCommandMissing, Error, "The command of a server is not found in `PATH`, or is not executable.", nil},
	{idDesktopPath, Warning, "The command is found in a terminal, but not in the short `PATH` that hosts with a graphical interface have.", desktop},
	{idInterpreterPath, Warning, "The command is a script, and its interpreter is not in that short `PATH`.", desktop},
	{idRuntimeOld, Warning, "Node.js, npm, Python or uv is older than what current servers need.", nil},
	{idRuntimeBroken, Warning, "A runtime is installed but does not answer, for instance because Docker's daemon does not run.", nil},

	{idServerDown, Error, "A server does not start, or has ended.", nil},
	{idServerSlow, Warning, "A server needs more than 5 seconds to start, or more than 2 seconds to list its tools. Hosts show fewer tools until then.", nil},
	{idServerCrashed, Note, "A server that works now has failed in the last 24 hours.", nil},
	{idServerAsleep, Note, "A server starts on first use, and was not started for this examination.", nil},
	{idProtocolOld, Note, "A server speaks the oldest revision of the protocol that we know.", nil},

	{idNameChanged, Note, "A tool has another name for agents than prefix and own name, because that has more than 64 characters or characters other than letters, digits, `_` and `-`.", nil},
	{idNameLong, Warning, "With the prefix that Claude Code adds (`mcp__mcp-metatool__`), the name of a tool has more than 64 characters.", []string{"claude-code"}},
	{idNameCollision, Warning, "Two servers have the same name for something, and one hides the other.", nil},
	{idPinsDrift, Warning, "What a server offers is not as it was pinned.", nil},
	{idItemOdd, Warning, "A server lists something that clients with strict SDKs refuse, and the lists of all servers with it. It is left out, or shown without the members at fault; scripts can use it.", nil},

	{idSchemaType, Error, "The input schema of a tool is not an object with `\"type\": \"object\"`. Clients with the SDK for TypeScript would refuse the whole list, so it is left out.", []string{"typescript-sdk"}},
	{idSchemaUnion, Warning, "An input schema has `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the top. The APIs of Claude and OpenAI refuse it, and with it every request.", []string{"claude-api", "openai-api"}},
	{idSchemaRef, Warning, "An input schema has `$ref`. Gemini refuses it.", []string{"gemini"}},
	{idSchemaFormat, Warning, "A string in an input schema has a `format` other than `enum` and `date-time`. Gemini refuses it.", []string{"gemini"}},
	{idSchemaKey, Warning, "A parameter has a name of more than 64 characters, or with characters other than letters, digits, `_`, `.` and `-`. The API of Claude refuses it, and with it every request.", []string{"claude-api"}},
	{idSchemaItems, Warning, "An array in an input schema has no `items`. VS Code and the API of OpenAI refuse it.", []string{"vscode", "openai-api"}},
	{idSchemaEmpty, Warning, "An input schema has no `properties`. The API of OpenAI refuses it, unless the host adds them.", []string{"openai-api"}},
	{idSchemaTypeList, Warning, "A `type` in an input schema is a list. Gemini refuses it.", []string{"gemini"}},

	{idTextLong, Warning, "A description has more than 1024 characters, the limit of OpenAI's chat API, or more than 2048, where Claude Code cuts it and a server's instructions.", []string{"openai-api", "claude-code"}},
	{idToolsMany, Warning, "Agents see more than 128 tools, the limit of VS Code and of OpenAI's API.", []string{"vscode", "openai-api"}},
	{idTokensMany, Warning, "The definitions of all tools cost more than 20000 tokens of each request.", nil},

	{idLoginMissing, Error, "A server wants OAuth, and nobody has logged in.", nil},
	{idLoginExpired, Error, "An access token has expired, and there is no refresh token.", nil},

	{idPortUsed, Error, "The port of `[http]` or `[telemetry]` is used by another program.", nil},
	{idPortDenied, Error, "We may not listen on the address of `[http]` or `[telemetry]`: ports below 1024 need a privilege on most systems.", nil},
	{idPortAddress, Error, "The address of `[http]` or `[telemetry]` is none of this machine.", nil},
	{idInstanceOther, Warning, "Another mcp-metatool server runs with the same store and another configuration file.", nil},
	{idInstanceSilent, Warning, "An mcp-metatool server runs but does not answer.", nil},

	{idFolderUnsafe, Error, "Other users can change the folder of the store, the journal or the cache, so it is not used.", nil},
	{idFileReadable, Warning, "Other users can read a file with tokens or records.", nil},
	{idDiskFull, Warning, "There is less than 1 GB of disk space for the store, the journal or the cache.", nil},
	{idCacheSize, Note, "Where the cache of compiled code is, and how large.", nil},
	{idCacheNone, Warning, "There is no folder for the cache, so each start compiles the sandbox.", nil},
	{idClockBack, Warning, "mcp-metatool's files are newer than the clock of the machine: it is wrong, or was. OAuth, TLS and the journal depend on it.", nil},
	{idClockWrong, Warning, "The clock of the machine differs by more than a minute from that of a server over HTTP. OAuth and TLS depend on it.", nil},
}
