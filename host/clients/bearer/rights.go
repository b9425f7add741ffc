package bearer

import (
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/glob"
)

// Rights are what the clients with a token may do. They only narrow what the
// configuration gives to all clients. Nil Rights do not narrow it. Rights must not be
// changed once they are in use.
type Rights struct {
	// NoSave says that they may not save and delete tools.
	NoSave bool
	// Expose and Hide are patterns (package glob) of targets: SERVER.NAME with the real
	// name of a server and its own name of a tool or prompt, or the URI of a resource, or
	// tools.NAME for a saved tool, builtin.NAME for a built-in one. Clients see what Expose
	// matches, everything if it is empty; scripts may call the other tools, too. What Hide
	// matches, neither can use.
	Expose, Hide []string
	// Own is the name of the token if its clients have saved tools of their own; "" if they
	// share those of all.
	Own string

	nothing  bool
	view     string // see View, if it is prepared
	prepared bool
}

// Prepared returns a copy for which View takes no time.
func (r Rights) Prepared() *Rights {
	r.view, r.prepared = r.View(), true
	return &r
}

// Nothing are the rights of a client whose token is no longer accepted.
var Nothing = &Rights{NoSave: true, nothing: true}

// MaySave reports whether clients may save and delete tools.
func (r *Rights) MaySave() bool { return r == nil || !r.NoSave }

// View identifies what clients see: with the same View they see the same. It is "" if they
// see all that the configuration gives to all clients.
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

// Narrows reports whether clients see less than all that the configuration gives to all
// clients, or other saved tools.
func (r *Rights) Narrows() bool { return r.View() != "" }

// Hides reports whether neither clients nor their scripts may use the name of a server.
func (r *Rights) Hides(server, name string) bool {
	return r != nil && (r.nothing || len(r.Hide) > 0 && glob.Any(r.Hide, server+"."+name))
}

// Exposes reports whether clients see the name of a server, unless it is hidden.
func (r *Rights) Exposes(server, name string) bool {
	return r == nil || !r.nothing && (len(r.Expose) == 0 || glob.Any(r.Expose, server+"."+name))
}

// Shows reports whether clients see and may use the name of a server.
func (r *Rights) Shows(server, name string) bool {
	return r.Exposes(server, name) && !r.Hides(server, name)
}

// HidesServer reports whether nothing of a server may be used, whatever its name.
func (r *Rights) HidesServer(server string) bool {
	return r != nil && (r.nothing || glob.CoversAll(r.Hide, server+"."))
}

// ShowsResource reports whether clients may use a resource of a server. A URI can be
// written in several ways, and servers differ in what they make of it (wire.URIForms). So it
// is hidden if one of its forms is, and exposed only if all are.
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
