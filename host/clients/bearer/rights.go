package bearer

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// Rights are the rights of the clients with a token. Rights only narrow the rights that the
// configuration gives to all clients; nil Rights do not narrow them. Rights in use must not be
// changed.
type Rights struct {
	// NoSave forbids saving and deleting tools.
	NoSave bool
	// Expose and Hide are patterns (package glob) of targets: SERVER.NAME with the real name of a
	// server and the server's name of a tool or prompt, or the URI of a resource, or tools.NAME for
	// a saved tool, or builtin.NAME for a built-in tool. Clients see the targets that Expose
	// matches, or all targets if Expose is empty; scripts may also call the other tools. Targets
	// that Hide matches are closed to clients and scripts.
	Expose, Hide []string
	// Own is the name of the token if the token's clients have saved tools of their own, and "" if
	// they share the saved tools of all clients.
	Own string

	nothing  bool
	view     string // see View, if prepared
	prepared bool
}

// Prepared returns a copy for which View takes no time.
func (r Rights) Prepared() *Rights {
	r.view, r.prepared = r.View(), true
	return &r
}

// Nothing are the rights of a client with a token that is no longer accepted.
var Nothing = &Rights{NoSave: true, nothing: true}

// MaySave reports whether clients may save and delete tools.
func (r *Rights) MaySave() bool { return r == nil || !r.NoSave }

// View identifies the view of the clients: clients with equal Views see the same targets. View is
// "" if the clients see everything that the configuration gives to all clients.
func (r *Rights) View() string {
	switch {
	case r == nil:
		return ""
	case r.prepared:
		return r.view
	case r.nothing:
		return "nothing"
	case len(r.Expose)+len(r.Hide) == 0 && r.Own == "":
		return ""
	}
	return strings.Join(slices.Concat([]string{r.Own}, r.Expose, []string{""}, r.Hide), "\x00")
}

// Narrows reports whether clients see less than the configuration gives to all clients, or other
// saved tools.
func (r *Rights) Narrows() bool { return r.View() != "" }

// Hides reports whether neither clients nor their scripts may use the name of a server.
func (r *Rights) Hides(server, name string) bool {
	return r != nil && (r.nothing || len(r.Hide) > 0 && glob.Any(r.Hide, server+"."+name))
}

// Exposes reports whether clients see a server's name, unless Hide matches the name.
func (r *Rights) Exposes(server, name string) bool {
	return r == nil || !r.nothing && (len(r.Expose) == 0 || glob.Any(r.Expose, server+"."+name))
}

// Shows reports whether clients see and may use the name of a server.
func (r *Rights) Shows(server, name string) bool {
	return r.Exposes(server, name) && !r.Hides(server, name)
}

// HidesServer reports whether all targets of a server are closed.
func (r *Rights) HidesServer(server string) bool {
	return r != nil && (r.nothing || glob.CoversAll(r.Hide, server+"."))
}

// ShowsResource reports whether clients may use a resource of a server. A URI has several
// spellings, and servers differ in reading them (wire.URIForms). So the resource is hidden if Hide
// matches any spelling, and exposed only if Expose matches all spellings.
func (r *Rights) ShowsResource(server, uri string) bool {
	if r == nil {
		return true
	}
	forms, _ := wire.URIForms(uri)
	withheld := func(form string) bool { return !r.Exposes(server, form) }
	return !slices.ContainsFunc(forms, withheld) && !r.HidesResource(server, uri)
}

// HidesResource reports whether clients may not use a resource of a server, exposed or
// not. For the forms of a URI see ShowsResource.
func (r *Rights) HidesResource(server, uri string) bool {
	if r == nil {
		return false
	}
	hides := func(form string) bool { return r.Hides(server, form) }
	forms, bare := wire.URIForms(uri)
	return slices.ContainsFunc(forms, hides) || slices.ContainsFunc(bare, hides)
}
