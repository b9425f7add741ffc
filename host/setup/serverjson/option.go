package serverjson

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Option is one of the ways in which a document says that its server can be run.
type Option struct {
	// Kind is npm, pypi, oci or nuget for packages, http or sse for addresses, or what the
	// document says.
	Kind string
	// Label names it for people: "npm @scope/server 1.0.2".
	Label string
	// Problem says why it cannot be used; "" if it can.
	Problem string

	where  string // in the document
	pkg    *Package
	remote *Remote
	name   string // of the document
}

// Options returns the packages and addresses of a document, in order.
func (d *Document) Options() []Option {
	var options []Option
	for i := range d.Packages {
		p := &d.Packages[i]
		o := Option{Kind: p.RegistryType, where: fmt.Sprintf("packages[%d]", i), pkg: p, name: d.Name}
		if o.Kind == "" {
			o.Kind = p.Registry
		}
		o.Label = strings.TrimSpace(o.Kind + " " + p.Identifier + " " + p.Version)
		if err := p.usable(o.where); err != nil {
			o.Problem = err.Error()
		}
		options = append(options, o)
	}
	for i := range d.Remotes {
		r := &d.Remotes[i]
		o := Option{Kind: r.Type, where: fmt.Sprintf("remotes[%d]", i), remote: r, name: d.Name}
		switch r.Type {
		case "streamable-http":
			o.Kind = string(config.StreamableHTTP)
		case "sse":
		default:
			o.Problem = fmt.Sprintf("the transport %s is not known", quoted(r.Type))
		}
		o.Label = strings.TrimSpace(o.Kind + " " + r.URL)
		options = append(options, o)
	}
	return options
}

// Runtime returns the command that runs the package: npx, uvx, docker or another one; ""
// for an address.
func (o *Option) Runtime() string {
	if o.pkg == nil || o.Problem != "" {
		return ""
	}
	command, _ := o.pkg.runtime()
	return command
}
