// Package serverjson reads server.json, the description of MCP servers for registries (schema
// 2025-12-11), and makes configured servers of the description. Begin with [Parse], [Document] and
// [Option.Server]; [Registry] fetches documents.
//
// A document comes from strangers, and describes programs that are then run. So nothing here starts
// a shell: an argument stays a single argument. Names of packages cannot be options, addresses or
// files; control characters and invisible characters are refused; and nothing in a document is a
// variable of the configuration. A person must see the remaining command, and agree to run the
// publisher's program.
package serverjson

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxSize is the largest document that is read, in bytes.
const MaxSize = 1 << 20

// Document is a server.json.
type Document struct {
	Schema      string    `json:"$schema"`
	Name        string    `json:"name"`
	Title       string    `json:"title"`
	Description string    `json:"description"`
	Version     string    `json:"version"`
	Packages    []Package `json:"packages"`
	Remotes     []Remote  `json:"remotes"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`

	// Status is the registry's status: active, deprecated or deleted; "" if unknown. StatusMessage
	// has details.
	Status        string `json:"-"`
	StatusMessage string `json:"-"`
}

// Package is a program that a package manager can run.
type Package struct {
	RegistryType         string     `json:"registryType"`
	RegistryBaseURL      string     `json:"registryBaseUrl"`
	Identifier           string     `json:"identifier"`
	Version              string     `json:"version"`
	RuntimeHint          string     `json:"runtimeHint"`
	Transport            Remote     `json:"transport"`
	RuntimeArguments     []Argument `json:"runtimeArguments"`
	PackageArguments     []Argument `json:"packageArguments"`
	EnvironmentVariables []Named    `json:"environmentVariables"`

	// Registry is the older name of RegistryType (schema 2025-07-09).
	Registry string `json:"registry_type"`
}

// Remote is a server with an address.
type Remote struct {
	Type      string           `json:"type"`
	URL       string           `json:"url"`
	Headers   []Named          `json:"headers"`
	Variables map[string]Field `json:"variables"`
}

// Field is a value that is fixed, or that people fill in.
type Field struct {
	Description string           `json:"description"`
	IsRequired  bool             `json:"isRequired"`
	IsSecret    bool             `json:"isSecret"`
	Format      string           `json:"format"`
	Value       string           `json:"value"`
	Default     string           `json:"default"`
	Placeholder string           `json:"placeholder"`
	Choices     []string         `json:"choices"`
	Variables   map[string]Field `json:"variables"`
}

// Named is an environment variable or a header.
type Named struct {
	Name string `json:"name"`
	Field
}

// Argument is an argument of a command.
type Argument struct {
	Type       string `json:"type"` // positional, named
	Name       string `json:"name"` // of a named argument, with its dashes
	ValueHint  string `json:"valueHint"`
	IsRepeated bool   `json:"isRepeated"`
	Field
}

// Error is a fault of a document.
type Error struct {
	// Where is the place in the document, such as packages[0].identifier; "" for the whole
	// document.
	Where string
	// Text may quote the document, without control characters.
	Text string
}

func (e *Error) Error() string {
	if e.Where == "" {
		return "server.json: " + e.Text
	}
	return fmt.Sprintf("server.json: %s %s", e.Where, e.Text)
}

func wrong(where, format string, args ...any) error {
	return &Error{where, fmt.Sprintf(format, args...)}
}

// envelope is the answer of a registry.
type envelope struct {
	Server jsontext.Value `json:"server"`
	Meta   struct {
		Official struct {
			Status        string `json:"status"`
			StatusMessage string `json:"statusMessage"`
		} `json:"io.modelcontextprotocol.registry/official"`
	} `json:"_meta"`
}

// Parse reads a document, alone or in the form of a registry's answer. The error is an [*Error].
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxSize {
		return nil, wrong("", "is larger than %d bytes", MaxSize)
	}
	var e envelope
	if err := unmarshal(data, &e); err != nil {
		return nil, err
	}
	d := &Document{}
	if e.Server != nil {
		data = e.Server
		d.Status, d.StatusMessage = e.Meta.Official.Status, e.Meta.Official.StatusMessage
	}
	if err := unmarshal(data, d); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	return d, nil
}

// unmarshal reads JSON. Repeated names and invalid UTF-8 are errors.
func unmarshal(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &semantic):
		return wrong("", "has the wrong type at %s", quoted(string(semantic.JSONPointer)))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return wrong("", "has a name twice in an object")
	case errors.As(err, &syntax):
		return wrong("", "is not valid JSON (at byte %d)", syntax.ByteOffset)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return wrong("", "is not complete")
	}
	return wrong("", "is not valid JSON")
}
