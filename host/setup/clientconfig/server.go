package clientconfig

import (
	"slices"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Server is one server of a file, in the terms of our configuration: texts have our
// variables, and characters that only look like variables are escaped.
type Server struct {
	// Name is the name that our configuration allows; Original the one in the file.
	Name, Original string
	// Transport is how it is reached; "" if that is unknown, and then Problem is set.
	Transport config.Transport
	// Command, Args, Env and Dir are for config.Stdio. Command is as the file has it,
	// except that a relative path is absolute.
	Command string
	Args    []string
	Env     []Setting
	Dir     string
	// URL and Headers are for the other transports.
	URL     string
	Headers []Setting
	// Expose and Hide are tools that the host shows alone, or not at all; nil: all are
	// shown.
	Expose, Hide []string
	// Timeout of one call; 0: the default.
	Timeout time.Duration
	// Disabled servers are listed but not started.
	Disabled bool

	// References are variables that the host itself gives their values, with what its
	// file says for that: GITHUB_TOKEN and ${env:GITHUB_TOKEN}, for example.
	References []Setting

	// Self says that the server is mcp-metatool itself.
	Self bool
	// Problem says why the server cannot be taken over; "" if it can.
	Problem string
	// Notes say what was left out or changed, one sentence each.
	Notes []string
}

// Setting is a named text: an environment variable or a header.
type Setting struct{ Name, Value string }

// Listing is what Read finds in one place.
type Listing struct {
	File File
	// Exists says that there is such a file.
	Exists bool
	// Data is the text of the file.
	Data []byte
	// Servers in the order of the file.
	Servers []Server
}

// Others returns how many of the servers are not mcp-metatool.
func (l *Listing) Others() int {
	n := 0
	for i := range l.Servers {
		if !l.Servers[i].Self {
			n++
		}
	}
	return n
}

// Self returns the entry of mcp-metatool, nil if there is none.
func (l *Listing) Self() *Server {
	for i := range l.Servers {
		if l.Servers[i].Self {
			return &l.Servers[i]
		}
	}
	return nil
}

// Clone returns a copy that shares nothing with s.
func (s *Server) Clone() *Server {
	c := *s
	c.Args, c.Env, c.Headers = slices.Clone(s.Args), slices.Clone(s.Env), slices.Clone(s.Headers)
	c.References = slices.Clone(s.References)
	c.Expose, c.Hide, c.Notes = slices.Clone(s.Expose), slices.Clone(s.Hide), slices.Clone(s.Notes)
	return &c
}
