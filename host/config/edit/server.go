package edit

import (
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/tomldoc"
)

// Server is a server as it is written into a configuration. Texts are in the language of the
// configuration: ${VAR} is a variable; see [Literal]. The zero value of a field is not
// written.
type Server struct {
	// Command, Args, Env and Dir are for servers that are started.
	Command string
	Args    []string
	Env     []Setting
	Dir     string
	// URL, Transport and Headers are for servers with an address. Transport is written for
	// config.LegacySSE only: config.StreamableHTTP is the default.
	URL       string
	Transport config.Transport
	Headers   []Setting
	// OAuth adds an empty table, which makes the server one that is logged in to.
	OAuth bool
	// Expose and Hide are patterns for names of tools.
	Expose, Hide []string
	// Timeout is a duration such as "30s".
	Timeout string
	// Disabled servers are not started.
	Disabled bool
}

// Setting is an environment variable or a header.
type Setting struct{ Name, Value string }

// Literal returns a text that stands for itself in a configuration: what looks like a
// variable is escaped.
func Literal(text string) string { return strings.ReplaceAll(text, "${", "$${") }

// table returns the keys of the server in the order in which people write them.
func (s *Server) table() tomldoc.InlineTable {
	var t tomldoc.InlineTable
	add := func(key string, value any, set bool) {
		if set {
			t = append(t, tomldoc.Entry{Key: key, Value: value})
		}
	}
	add("url", s.URL, s.URL != "")
	add("transport", string(s.Transport), s.Transport == config.LegacySSE)
	add("command", s.Command, s.Command != "")
	add("args", s.Args, len(s.Args) > 0)
	add("cwd", s.Dir, s.Dir != "")
	add("timeout", s.Timeout, s.Timeout != "")
	add("expose", s.Expose, s.Expose != nil)
	add("hide", s.Hide, len(s.Hide) > 0)
	add("disabled", true, s.Disabled)
	add("env", settings(s.Env), len(s.Env) > 0)
	add("headers", settings(s.Headers), len(s.Headers) > 0)
	add("oauth", tomldoc.InlineTable{}, s.OAuth)
	return t
}

func settings(list []Setting) tomldoc.InlineTable {
	t := tomldoc.InlineTable{}
	for _, s := range list {
		t = append(t, tomldoc.Entry{Key: s.Name, Value: s.Value})
	}
	return t
}
