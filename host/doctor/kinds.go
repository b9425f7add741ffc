package doctor

// Kind is a kind of finding.
type Kind struct {
	ID       string
	Severity Severity
	Means    string // one sentence for docs/doctor.md
}

// The ids of findings.
const (
	idConfigInvalid   = "config-invalid"
	idConfigWarning   = "config-warning"
	idConfigMissing   = "config-missing"
	idConfigReadable  = "config-readable"
	idCommandMissing  = "command-missing"
	idDesktopPath     = "desktop-path"
	idInterpreterPath = "interpreter-path"
	idRuntimeOld      = "runtime-old"
	idRuntimeBroken   = "runtime-broken"
	idServerDown      = "server-down"
	idServerSlow      = "server-slow"
	idServerCrashed   = "server-crashed"
	idServerAsleep    = "server-asleep"
	idProtocolOld     = "protocol-old"
	idNameChanged     = "name-changed"
	idNameLong        = "name-long"
	idNameCollision   = "name-collision"
	idSchemaType      = "schema-type"
	idSchemaUnion     = "schema-union"
	idSchemaRef       = "schema-ref"
	idSchemaFormat    = "schema-format"
	idSchemaKey       = "schema-key"
	idSchemaItems     = "schema-items"
	idSchemaEmpty     = "schema-empty"
	idSchemaTypeList  = "schema-type-list"
	idTextLong        = "text-long"
	idToolsMany       = "tools-many"
	idTokensMany      = "tokens-many"
	idLoginMissing    = "login-missing"
	idLoginExpired    = "login-expired"
	idPortUsed        = "port-used"
	idInstanceOther   = "instance-other"
	idInstanceSilent  = "instance-silent"
	idFolderUnsafe    = "folder-unsafe"
	idFileReadable    = "file-readable"
	idDiskFull        = "disk-full"
	idCacheSize       = "cache-size"
	idCacheNone       = "cache-none"
	idClockBack       = "clock-back"
)

// Kinds are all kinds of findings, by area.
var Kinds = []Kind{
	{idConfigInvalid, Error, "The configuration has a mistake, and is not used. Nothing else about servers can be checked."},
	{idConfigWarning, Warning, "`check` warns about a setting."},
	{idConfigMissing, Note, "There is no configuration file, or no server in it."},
	{idConfigReadable, Warning, "Other users can read the configuration, and it has secrets in plain text."},

	{idCommandMissing, Error, "The command of a server is not found in `PATH`."},
	{idDesktopPath, Warning, "The command is found in a terminal, but not in the short `PATH` that hosts with a graphical interface have."},
	{idInterpreterPath, Warning, "The command is a script, and its interpreter is not in that short `PATH`."},
	{idRuntimeOld, Warning, "Node.js, npm, Python or uv is older than what current servers need."},
	{idRuntimeBroken, Warning, "A runtime is installed but does not answer, for instance because Docker's daemon does not run."},

	{idServerDown, Error, "A server does not start, or has ended."},
	{idServerSlow, Warning, "A server needs more than 5 seconds to start, or more than 2 seconds to list its tools. Hosts show fewer tools until then."},
	{idServerCrashed, Note, "A server that works now has failed in the last 24 hours."},
	{idServerAsleep, Note, "A server starts on first use, and was not started for this examination."},
	{idProtocolOld, Note, "A server speaks the oldest revision of the protocol that we know."},

	{idNameChanged, Note, "A tool has another name for agents than prefix and own name, because that has more than 64 characters or characters other than letters, digits, `_` and `-`."},
	{idNameLong, Warning, "With the prefix that Claude Code adds (`mcp__mcp-metatool__`), the name of a tool has more than 64 characters."},
	{idNameCollision, Warning, "Two servers have the same name for something, and one hides the other."},

	{idSchemaType, Error, "The input schema of a tool is not an object with `\"type\": \"object\"`. Clients with the SDK for TypeScript refuse the whole list."},
	{idSchemaUnion, Warning, "An input schema has `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the top. The APIs of Claude and OpenAI refuse it, and with it every request."},
	{idSchemaRef, Warning, "An input schema has `$ref`. Gemini refuses it."},
	{idSchemaFormat, Warning, "A string in an input schema has a `format` other than `enum` and `date-time`. Gemini refuses it."},
	{idSchemaKey, Warning, "A parameter has a name of more than 64 characters, or with characters other than letters, digits, `_`, `.` and `-`. The API of Claude refuses it, and with it every request."},
	{idSchemaItems, Warning, "An array in an input schema has no `items`. VS Code and the API of OpenAI refuse it."},
	{idSchemaEmpty, Warning, "An input schema has no `properties`. The API of OpenAI refuses it, unless the host adds them."},
	{idSchemaTypeList, Warning, "A `type` in an input schema is a list. Gemini refuses it."},

	{idTextLong, Warning, "A description has more than 1024 characters, the limit of OpenAI's chat API, or more than 2048, where Claude Code cuts it and a server's instructions."},
	{idToolsMany, Warning, "Agents see more than 128 tools, the limit of VS Code and of OpenAI's API."},
	{idTokensMany, Warning, "The definitions of all tools cost more than 20000 tokens of each request."},

	{idLoginMissing, Error, "A server wants OAuth, and nobody has logged in."},
	{idLoginExpired, Warning, "An access token has expired, and there is no refresh token."},

	{idPortUsed, Error, "The port of `[http]` is used by another program."},
	{idInstanceOther, Warning, "Another mcp-metatool server runs with the same store and another configuration file."},
	{idInstanceSilent, Warning, "An mcp-metatool server runs but does not answer."},

	{idFolderUnsafe, Error, "Other users can change the folder of the store, the journal or the cache, so it is not used."},
	{idFileReadable, Warning, "Other users can read a file with tokens or records."},
	{idDiskFull, Warning, "There is less than 1 GB of disk space for the store, the journal or the cache."},
	{idCacheSize, Note, "Where the cache of compiled code is, and how large."},
	{idCacheNone, Warning, "There is no folder for the cache, so each start compiles the sandbox."},
	{idClockBack, Warning, "mcp-metatool's files are newer than the clock of the machine: it is wrong, or was. OAuth, TLS and the journal depend on it."},
}
