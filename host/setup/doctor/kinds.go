package doctor

// Kind is a kind of finding.
type Kind struct {
	ID       string
	Severity Severity
	Means    string // a sentence for docs/doctor.md
	// Hosts are the concerned hosts, under the names of package clientconfig, and foreign APIs and
	// SDKs; nil for all.
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
	{idConfigInvalid, Error, "The configuration has a mistake. A mistake in the entry of a server stops that server, any other mistake stops everything.", nil},
	{idVariableUnset, Error, "A server needs a variable that is not set, and is not started.", nil},
	{idConfigWarning, Warning, "`check` warns about a setting.", nil},
	{idConfigMissing, Note, "No configuration file exists, or the file names no server.", nil},
	{idConfigWritable, Error, "Other users can change the configuration, and the commands that run as you.", nil},
	{idConfigReadable, Warning, "Other users can read secrets in plain text in the configuration.", nil},

	{idPolicyTool, Warning, "A rule of the policy names an unknown tool.", nil},
	{idPolicyClient, Note, "A rule of the policy names a client without a token.", nil},
	{idFlowPattern, Warning, "A pattern in [flow] matches no tool.", nil},
	{idFlowServer, Warning, "Some answers are private, and a server without a label is writable and readable.", nil},
	{idFlowShape, Note, "A tool with labelled answers has neither an outputSchema nor a shape.", nil},
	{idApprovalsWaiting, Note, "Calls wait for your approval.", nil},

	{idCommandMissing, Error, "The command of a server is not in `PATH`, or not executable.", nil},
	{idDesktopPath, Warning, "The command is in the `PATH` of a terminal, but not in the short `PATH` of desktop hosts.", desktop},
	{idInterpreterPath, Warning, "The interpreter of a script is not in that short `PATH`.", desktop},
	{idRuntimeOld, Warning, "Node.js, npm, Python or uv is too old for current servers.", nil},
	{idRuntimeBroken, Warning, "An installed runtime does not answer, for instance without Docker's daemon.", nil},

	{idServerDown, Error, "A server does not start, or has ended.", nil},
	{idServerSlow, Warning, "A server needs more than 5 seconds to start, or more than 2 seconds to list its tools.", nil},
	{idServerCrashed, Note, "A working server has failed in the last 24 hours.", nil},
	{idServerAsleep, Note, "A server starts on first use, and was not started.", nil},
	{idProtocolOld, Note, "A server speaks the oldest known revision of the protocol.", nil},

	{idNameChanged, Note, "The name of a tool for agents differs from prefix and own name, because of more than 64 characters, or characters other than letters, digits, `_` and `-`.", nil},
	{idNameLong, Warning, "With the prefix of Claude Code (`mcp__mcp-metatool__`), the name of a tool has more than 64 characters.", []string{"claude-code"}},
	{idNameCollision, Warning, "Two servers use the same name, and one hides the other.", nil},
	{idPinsDrift, Warning, "A server differs from its pins.", nil},
	{idItemOdd, Warning, "Clients with strict SDKs would refuse all lists because of an item of a server. The item is left out or repaired; scripts can use it.", nil},

	{idSchemaType, Error, "The input schema of a tool is not an object with `\"type\": \"object\"`. The tool is left out, because the SDK for TypeScript would refuse the whole list.", []string{"typescript-sdk"}},
	{idSchemaUnion, Warning, "An input schema has `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the top. The APIs of Claude and OpenAI refuse every request.", []string{"claude-api", "openai-api"}},
	{idSchemaRef, Warning, "An input schema has `$ref`, which Gemini refuses.", []string{"gemini"}},
	{idSchemaFormat, Warning, "A string in an input schema has a `format` other than `enum` and `date-time`, which Gemini refuses.", []string{"gemini"}},
	{idSchemaKey, Warning, "The name of a parameter has more than 64 characters, or characters other than letters, digits, `_`, `.` and `-`. The API of Claude refuses every request.", []string{"claude-api"}},
	{idSchemaItems, Warning, "An array in an input schema has no `items`, which VS Code and the API of OpenAI refuse.", []string{"vscode", "openai-api"}},
	{idSchemaEmpty, Warning, "An input schema has no `properties`, which the API of OpenAI refuses unless the host adds them.", []string{"openai-api"}},
	{idSchemaTypeList, Warning, "A `type` in an input schema is a list, which Gemini refuses.", []string{"gemini"}},

	{idTextLong, Warning, "A description has more than 1024 characters (the limit of OpenAI's chat API), or a description or a server's instructions more than 2048 (where Claude Code cuts them).", []string{"openai-api", "claude-code"}},
	{idToolsMany, Warning, "Agents see more than 128 tools, the limit of VS Code and of OpenAI's API.", []string{"vscode", "openai-api"}},
	{idTokensMany, Warning, "The definitions of all tools cost more than 20000 tokens of each request.", nil},

	{idLoginMissing, Error, "A server requires OAuth, and has no login.", nil},
	{idLoginExpired, Error, "An access token has expired, without a refresh token.", nil},

	{idPortUsed, Error, "Another program uses the port of `[http]` or `[telemetry]`.", nil},
	{idPortDenied, Error, "The address of `[http]` or `[telemetry]` is not permitted: ports below 1024 need a privilege on most systems.", nil},
	{idPortAddress, Error, "The address of `[http]` or `[telemetry]` is not an address of this machine.", nil},
	{idInstanceOther, Warning, "Another mcp-metatool server runs with the same store and another configuration file.", nil},
	{idInstanceSilent, Warning, "A running mcp-metatool server does not answer.", nil},

	{idFolderUnsafe, Error, "Other users can change the folder of the store, the journal or the cache, so the folder is not used.", nil},
	{idFileReadable, Warning, "Other users can read a file with tokens or records.", nil},
	{idDiskFull, Warning, "The store, the journal or the cache has less than 1 GB of disk space.", nil},
	{idCacheSize, Note, "The place and size of the cache of compiled code.", nil},
	{idCacheNone, Warning, "The cache has no folder, so each start compiles the sandbox.", nil},
	{idClockBack, Warning, "mcp-metatool's files are newer than the clock of the machine: the clock is or was wrong. OAuth, TLS and the journal depend on it.", nil},
	{idClockWrong, Warning, "The clock of the machine differs by more than a minute from the clock of a server over HTTP. OAuth and TLS depend on it.", nil},
}
