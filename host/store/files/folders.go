package files

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools"
)

// The collections whose folders are older than this package. What else has these folders open
// takes the same locks.
const (
	// Tools are saved tools: tools/NAME.json.
	Tools = "tools"
	// History has earlier forms of saved tools: tools/.history/NAME/FORM.json, where the name
	// of the document is NAME/FORM.
	History = "history"
	// Approvals are the calls that wait for a decision: approvals/queue/ID.json.
	Approvals = "approvals"
	// Remembered are decisions that are remembered: approvals/remembered/ID.json.
	Remembered = "remembered"
)

// folder is where the documents of a collection are.
type folder struct {
	dir  string
	lock string // path
	// file returns the path of a document below dir, and name the name by the path. ok is
	// false if a document cannot have the name, or no document has the path.
	file func(name string) (path string, ok bool)
	name func(path string) (name string, ok bool)
	// nested says that the documents are in folders below dir.
	nested bool
}

// folders returns the folders of the collections that have one of their own.
func folders(dir string) map[string]folder {
	saved, approvals := filepath.Join(dir, "tools"), filepath.Join(dir, "approvals")
	return map[string]folder{
		Tools: named(saved, filepath.Join(saved, ".lock"), func(name string) bool { return tools.CheckName(name) == nil }),
		History: {
			dir: filepath.Join(saved, ".history"), lock: filepath.Join(saved, ".lock"), nested: true,
			file: func(name string) (string, bool) {
				tool, form, ok := strings.Cut(name, "/")
				return filepath.Join(tool, form+".json"), ok && tools.CheckName(tool) == nil && forms.MatchString(form)
			},
			name: func(path string) (string, bool) {
				name, ok := strings.CutSuffix(filepath.ToSlash(path), ".json")
				tool, form, found := strings.Cut(name, "/")
				return name, ok && found && tools.CheckName(tool) == nil && forms.MatchString(form)
			},
		},
		Approvals:  named(filepath.Join(approvals, "queue"), filepath.Join(approvals, ".lock"), ids.MatchString),
		Remembered: named(filepath.Join(approvals, "remembered"), filepath.Join(approvals, ".lock"), ids.MatchString),
	}
}

var (
	forms = lazyregexp.New(`^[0-9]{6,9}-[0-9A-Z.]{1,24}-[a-z]{1,12}$`)
	ids   = lazyregexp.New(`^[0-9a-z]{1,16}$`)
)

// named returns a folder whose files are NAME.json.
func named(dir, lock string, ok func(string) bool) folder {
	return folder{
		dir: dir, lock: lock,
		file: func(name string) (string, bool) { return name + ".json", ok(name) },
		name: func(path string) (string, bool) {
			name, found := strings.CutSuffix(path, ".json")
			return name, found && ok(name)
		},
	}
}

// folder returns the folder of a collection.
func (s *Store) folder(collection string) (folder, error) {
	if err := store.CheckCollection(collection); err != nil {
		return folder{}, err
	}
	if f, ok := s.folders[collection]; ok {
		return f, nil
	}
	all := filepath.Join(s.opts.Dir, "documents")
	return folder{
		dir: filepath.Join(all, collection), lock: filepath.Join(all, ".lock"),
		file: func(name string) (string, bool) { return escape(name), true },
		name: unescape,
	}, nil
}

// place returns where a document is.
func (s *Store) place(key store.Key) (f folder, path string, err error) {
	if err := key.Check(); err != nil {
		return f, "", err
	}
	if f, err = s.folder(key.Collection); err != nil {
		return f, "", err
	}
	path, ok := f.file(key.Name)
	if !ok {
		return f, "", &store.NameError{What: "document", Name: key.String(), Reason: "is none of this collection"}
	}
	return f, path, nil
}
