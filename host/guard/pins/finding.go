package pins

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// Reason is why something is to be said about a definition.
type Reason string

// The reasons.
const (
	Differs    Reason = "changed"    // differs from the pin
	Unknown    Reason = "new"        // not pinned, although its server is
	Shadows    Reason = "shadows"    // has a name like the name of another server's item
	Unpinnable Reason = "unpinnable" // cannot be recorded; Err says why
	Renamed    Reason = "renamed"    // the server has changed its own name since it was pinned
	Unreadable Reason = "unreadable" // the file cannot be read
	Unwritten  Reason = "unwritten"  // the file cannot be written, or has not been yet
	Unread     Reason = "unread"     // the server has announced changes that have not been read yet
	Gone       Reason = "gone"       // pinned, but no longer offered
)

// Finding is a problem of a definition, or of a server as a whole, with the Surface About. As an
// error, a Finding says why the definition may not be used, without any text of the server except
// names. A Finding does not change.
type Finding struct {
	Item
	Reason Reason
	// Other is the item with a similar name, as "server.name"; "" for none.
	Other string
	// Withheld marks an item that clients and scripts do not get.
	Withheld bool
	// Err is why a file cannot be used, or why the definition cannot be pinned; else nil.
	Err error

	was, is []byte // canonical; nil for a missing side
}

// General reports whether the finding is about the server's whole offer.
func (f *Finding) General() bool {
	return f.Reason == Renamed || f.Reason == Unreadable || f.Reason == Unwritten
}

// Error implements error.
func (f *Finding) Error() string {
	target, _ := f.argument()
	return fmt.Sprintf("%s may not be used: %s (the user who runs mcp-metatool can look at it with \"mcp-metatool pins diff %s\" and accept it)",
		f.Item, f.Summary(), target)
}

// Summary describes the finding in a few words without text of the server except names.
func (f *Finding) Summary() string {
	text := map[Reason]string{
		Differs:    "its definition has changed since it was pinned",
		Unknown:    "it is new since the server was pinned",
		Shadows:    "its name can be taken for another",
		Unpinnable: "it cannot be pinned",
		Renamed:    "the server calls itself otherwise than when it was pinned",
		Unreadable: "the pins cannot be read",
		Unwritten:  "its server is not pinned",
		Gone:       "it is gone",
		Unread:     "it has announced changes that could not be read yet",
	}[f.Reason]
	if f.Reason == Differs && f.Surface == About {
		text = "its instructions have changed since they were pinned"
	}
	if f.Other != "" {
		text += fmt.Sprintf(", and it can be taken for %q", f.Other)
	}
	return text
}

// Text is the Summary for the person who runs the proxy, with the change or failure.
func (f *Finding) Text() string {
	text := f.Item.String() + ": " + f.Summary()
	switch {
	case f.Withheld && f.Reason == Differs && f.Surface == About:
		text += ", so they are withheld"
	case f.Withheld:
		text += ", so it is withheld"
	}
	var details []string
	if f.Err != nil {
		details = append(details, f.Err.Error())
	}
	for i, c := range f.Changes() {
		if i == maxDetails {
			details = append(details, "…")
			break
		}
		details = append(details, c.describe())
	}
	if len(details) > 0 {
		text += ": " + strings.Join(details, "; ")
	}
	return text
}

// maxDetails is how many changes Text names.
const maxDetails = 3

// Remedy tells the person who runs the proxy how to react.
func (f *Finding) Remedy() string {
	switch f.Reason {
	case Unreadable:
		return "repair the file, restore it from version control, or pin what the servers offer now with mcp-metatool pins accept"
	case Unwritten:
		return "make the file writable"
	case Unpinnable:
		return "report it to the authors of the server"
	}
	target, exact := f.argument()
	if !exact {
		return fmt.Sprintf("look at it with mcp-metatool pins diff %s", target)
	}
	return fmt.Sprintf("mcp-metatool pins accept %s", target)
}

// argument returns the item as a word for a shell, since people copy the word: servers choose their
// names. exact is false if the word is the whole server, because the name cannot be shown
// unchanged.
func (f *Finding) argument() (word string, exact bool) {
	target := f.Target()
	hidden := func(r rune) bool { return r == '\n' || r == '\t' || !display.Harmless(r) }
	if !utf8.ValidString(target) || len(f.Name) > maxName || strings.ContainsFunc(target, hidden) {
		return f.Server, false
	}
	return shellquote.Join(target), true
}

// Changes returns the changes of a definition; none for a new definition.
func (f *Finding) Changes() []Change {
	if f.was == nil || f.is == nil {
		return nil
	}
	c := Change{Server: f.Server, Surface: f.Surface, Name: f.Name}
	if found := c.compare(f.was, f.is, false); len(found) > 0 {
		return found
	}
	if found := c.compare(f.was, f.is, true); len(found) > 0 {
		return found
	}
	c.Kind, c.Path, c.steps = Changed, "$", []any{"number"}
	c.Was, c.Is = "one way of writing it", "another"
	return []Change{c}
}

// Pinned and Offered return the canonical JSON of the pinned and of the current definition; nil for
// a missing definition.
func (f *Finding) Pinned() []byte { return f.was }

// Offered is described with Pinned.
func (f *Finding) Offered() []byte { return f.is }

// pinned are the surfaces whose definitions are pinned. Resources are not pinned: their lists are
// data, such as the files of a folder.
var pinned = []wire.Surface{wire.Tools, wire.Prompts, wire.Templates}
