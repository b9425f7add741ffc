package clientconfig

import "slices"

// Format is the format of a file.
type Format string

// The formats.
const (
	JSON Format = "json" // with comments and trailing commas
	TOML Format = "toml"
)

// Host is a program that starts MCP servers for an agent.
type Host struct {
	// Name is the name for users to type; Title is the program's own name.
	Name, Title string
	// Format is the format of the host's files, and Key the key under which they list servers.
	Format Format
	Key    string
	// Desktop means: the program is started from a desktop, not from a shell, with the environment
	// and PATH of the desktop.
	Desktop bool
	// vars are the variables that the host expands in its files.
	vars variables
	// typed means: entries name their transport.
	typed bool
	// clean is the list of variables that servers get from the program's own environment; nil: all.
	clean []string
	// files returns the places of the host's files.
	files func(s *System) []File
}

// Hosts returns the known hosts.
func Hosts() []*Host { return slices.Clone(hosts) }

// Lookup returns the host with a name, nil for an unknown name.
func Lookup(name string) *Host {
	for _, h := range hosts {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// Scopes returns the scopes in which the host lists servers on a system.
func (h *Host) Scopes(s *System) []Scope {
	var scopes []Scope
	for _, f := range h.Files(s) {
		scopes = append(scopes, f.Scope)
	}
	return scopes
}

// Files returns the files in which the host lists servers, the widest scope first. A file can have
// several scopes, at several places, and none need exist. In the home folder, the user's file may
// be the project's file, too: the file counts as the user's.
func (h *Host) Files(s *System) []File {
	var files []File
	for _, f := range h.files(s) {
		f.Host = h
		if f.Under == nil {
			f.Under = []string{h.Key}
		}
		if !slices.ContainsFunc(files, func(wider File) bool { return wider.Path == f.Path && slices.Equal(wider.Under, f.Under) }) {
			files = append(files, f)
		}
	}
	return files
}

// Sources, read in November 2026: code.claude.com/docs/en/mcp, modelcontextprotocol.io
// (connect to local servers), cursor.com/docs/mcp, code.visualstudio.com/docs/copilot/
// reference/mcp-configuration, codex-rs/config/src/mcp_types.rs, docs.windsurf.com
// (cascade/mcp), zed.dev/docs/ai/mcp and crates/paths of Zed.
var hosts = []*Host{
	{
		Name: "claude-code", Title: "Claude Code", Format: JSON, Key: "mcpServers", vars: shellVariables, typed: true,
		files: func(s *System) []File {
			main := s.join(s.dir("CLAUDE_CONFIG_DIR", s.Home), ".claude.json")
			return []File{
				{Path: main, Scope: User},
				{Path: s.join(s.Project, ".mcp.json"), Scope: Project, Shared: true},
				{Path: main, Scope: Local, Under: []string{"projects", s.Project, "mcpServers"}},
			}
		},
	},
	{
		Name: "claude-desktop", Title: "Claude Desktop", Format: JSON, Key: "mcpServers", Desktop: true,
		files: func(s *System) []File {
			return []File{{Path: s.join(s.applications(), "Claude", "claude_desktop_config.json"), Scope: User}}
		},
	},
	{
		Name: "cursor", Title: "Cursor", Format: JSON, Key: "mcpServers", Desktop: true, vars: editorVariables,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.Home, ".cursor", "mcp.json"), Scope: User},
				{Path: s.join(s.Project, ".cursor", "mcp.json"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "vscode", Title: "VS Code", Format: JSON, Key: "servers", Desktop: true, vars: editorVariables, typed: true,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.applications(), "Code", "User", "mcp.json"), Scope: User},
				{Path: s.join(s.Project, ".vscode", "mcp.json"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "codex", Title: "Codex", Format: TOML, Key: "mcp_servers",
		clean: []string{"HOME", "LOGNAME", "PATH", "SHELL", "USER", "__CF_USER_TEXT_ENCODING", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ"},
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.dir("CODEX_HOME", s.join(s.Home, ".codex")), "config.toml"), Scope: User},
				{Path: s.join(s.Project, ".codex", "config.toml"), Scope: Project, Shared: true},
			}
		},
	},
	{
		Name: "windsurf", Title: "Windsurf", Format: JSON, Key: "mcpServers", Desktop: true, vars: editorVariables,
		files: func(s *System) []File {
			return []File{{Path: s.join(s.Home, ".codeium", "windsurf", "mcp_config.json"), Scope: User}}
		},
	},
	{
		Name: "zed", Title: "Zed", Format: JSON, Key: "context_servers", Desktop: true,
		files: func(s *System) []File {
			return []File{
				{Path: s.join(s.zed(), "settings.json"), Scope: User},
				{Path: s.join(s.Project, ".zed", "settings.json"), Scope: Project, Shared: true},
			}
		},
	},
}

// Metatool is the form of the product's own configuration, for comparing servers with the configured
// servers. Metatool is not among [Hosts].
var Metatool = &Host{Name: "mcp-metatool", Title: "mcp-metatool", Key: "upstream", vars: metatoolVariables, typed: true}

// anyFile is the form of a file of an unknown host.
var anyFile = &Host{Name: "file", Title: "a file", vars: allVariables}
