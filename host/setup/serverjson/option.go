package serverjson

import (
	"fmt"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Option is a way of running the server of a document.
type Option struct {
	// Kind is npm, pypi, oci or nuget for packages, http or sse for addresses, or the document's
	// word.
	Kind string
	// Label names the option for people: "npm @scope/server 1.0.2".
	Label string
	// Problem is why the option cannot be used; "" if possible.
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

// Runtime returns the command that runs the package: npx, uvx, docker or another command; "" for an
// address.
func (o *Option) Runtime() string {
	if o.pkg == nil || o.Problem != "" {
		return ""
	}
	command, _ := o.pkg.runtime()
	return command
}
