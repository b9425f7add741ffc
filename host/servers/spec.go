package servers

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/servers/httpclient"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
)

// DefaultTimeout is the default of Spec.Timeout.
const DefaultTimeout = 60 * time.Second

// The transports of a Spec.
const (
	TransportStdio = "stdio" // a subprocess
	TransportHTTP  = "http"  // streamable HTTP (revisions 2025-03-26 and later)
	TransportSSE   = "sse"   // HTTP with SSE (revision 2024-11-05)
)

// The values of Spec.Restart.
const (
	RestartAlways = "always"
	RestartNever  = "never"
)

// Spec describes how to reach a server: a subprocess that speaks MCP on standard input and output,
// or an address.
type Spec struct {
	// Name is the name of the upstream in the configuration, for logs and errors.
	Name string
	// Transport is one of the constants; "": TransportHTTP with a URL, else TransportStdio.
	Transport string

	// Protocol is ProtocolAuto, ProtocolLegacy, or the only revision of the stateless era
	// to use; "": ProtocolAuto.
	Protocol string

	// For stdio.

	// Command is a path (relative to Dir if the path has a separator), or a name to look up in the
	// PATH of the server's own environment.
	Command string
	Args    []string
	// Env holds KEY=VALUE for the configured variables. The server gets these and a
	// short list of our own variables (process/environ.go), nothing else.
	Env []string
	// Dir is the working directory; "": ours.
	Dir string
	// Sandbox confines the process; nil: the process has our rights. Own are files of ours that the
	// process does not get by accident; see confine.Place.
	Sandbox *confine.Settings
	Own     []string

	// For HTTP and SSE.

	// URL is the address of the server's endpoint.
	URL string
	// Headers are sent with every request. They may be secrets and never appear in
	// logs or errors.
	Headers map[string]string
	// OAuth says how to get the server's access tokens; nil: none are needed.
	OAuth *oauth.Config

	// For all of them.

	// Timeout is how long a request may take without activity. Activity is progress of the request,
	// or an answer in progress, perhaps by a person, to a request of the server. 0: DefaultTimeout.
	// Timeout also limits a whole handshake, and a whole listing. Timeout does not apply to
	// tasks/result, which waits for the end of a task by design.
	Timeout time.Duration
	// MaxTimeout is how long a request may take in any case; 0: no limit.
	MaxTimeout time.Duration
	// MaxMessage is the size limit for a message of the server in bytes; 0:
	// wire.DefaultMaxMessage.
	MaxMessage int
	// MaxList is the size limit for a list of the server with all pages, in bytes; 0: no limit.
	MaxList int
	// Restart says whether to start a server again after an exit, a lost connection or a failed
	// start; "": RestartAlways.
	Restart string
}

func (s Spec) transport() string {
	switch {
	case s.Transport != "":
		return s.Transport
	case s.URL != "":
		return TransportHTTP
	}
	return TransportStdio
}

// HTTP returns how to reach a server with a URL.
func (s Spec) HTTP() httpclient.Config {
	return httpclient.Config{Name: s.Name, URL: s.URL, Headers: s.Headers}
}

// client makes an HTTP client for the server, with the server's access tokens. The caller closes
// the client.
func (s Spec) client() (*httpclient.Client, error) {
	c, err := httpclient.New(s.HTTP())
	if err != nil || s.OAuth == nil {
		return c, err
	}
	tokens, err := oauth.New(c, *s.OAuth)
	if err != nil {
		return nil, err
	}
	c.SetAuthorizer(tokens)
	return c, nil
}
