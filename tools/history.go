package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// How much of the past is kept.
const (
	// MaxVersions is how many earlier forms of one tool are kept.
	MaxVersions = 50
	// MaxDeleted is of how many deleted tools they are: an agent that makes and
	// deletes tools all day must not fill the disk.
	MaxDeleted = 200
)

// ErrNoVersion is what errors.Is finds when a tool has no version of that
// number.
var ErrNoVersion = errors.New("no such version")

// Ending is what became of a form that a tool had.
type Ending string

// The endings.
const (
	SavedOver Ending = "saved"    // another form was saved under its name
	Deleted   Ending = "deleted"  // the tool was deleted
	Reverted  Ending = "reverted" // an earlier version was brought back
	Imported  Ending = "imported" // another form was imported
)

// Version is a form that a tool had. It stays what it is; its number is never
// given to another version of a tool of that name.
type Version struct {
	Number int // from 1
	// Ended is when the form stopped being the tool's, EndedBy how.
	Ended   time.Time
	EndedBy Ending
	// Definition is valid if Problem is nil, with the metadata that it had.
	Definition Definition
	Size       int64 // of the file, in bytes
	Problem    error // why the file cannot be used
}

// Changes names the parts in which two forms of a tool differ for agents and
// runs, as members of its file; nil if they do not.
func (d *Definition) Changes(o *Definition) []string {
	var parts []string
	for _, part := range []struct{ name, a, b string }{
		{"name", d.Name, o.Name},
		{"description", d.Description, o.Description},
		{"inputSchema", string(d.InputSchema), string(o.InputSchema)},
		{"outputSchema", string(d.OutputSchema), string(o.OutputSchema)},
		{"limits", string(d.Limits.JSON()), string(o.Limits.JSON())},
		{"code", d.Code, o.Code},
	} {
		if part.a != part.b {
			parts = append(parts, part.name)
		}
	}
	return parts
}

// History returns the versions of a tool, saved or deleted, newest first; its
// present form is not among them. ErrNotFound if there is no such tool and
// never was, as far as that is kept.
func (s *Store) History(name string) ([]Version, error) {
	if CheckName(name) != nil { // it may be a path
		return nil, notFound(name)
	}
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	kept, err := keptVersions(root, name)
	if err != nil {
		return nil, err
	}
	present, err := s.Get(name)
	there := err == nil
	versions := make([]Version, 0, len(kept))
	for i, k := range slices.Backward(kept) {
		v, err := k.read(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // a newer one has just taken its place
		case err == nil && there && i == len(kept)-1 && sameForm(&v.Definition, &present):
			continue // kept, but then not written over
		}
		v.Problem = err
		versions = append(versions, v)
	}
	if len(versions) == 0 && errors.Is(err, ErrNotFound) {
		return nil, notFound(name)
	}
	return versions, nil
}

// sameForm tells whether two definitions are one, of which at most executions
// were counted in between.
func sameForm(a, b *Definition) bool {
	return a.sameToAgents(b) && a.Metadata.Modified.Equal(b.Metadata.Modified)
}

// Histories names the tools that have versions, deleted ones too, sorted.
func (s *Store) Histories() ([]string, error) {
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	return histories(root)
}

func histories(root *os.Root) ([]string, error) {
	names, err := namesIn(root, historyDir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckName(name) != nil }), nil
}

// Revert makes a version the present form of its tool again, and brings back
// a tool that was deleted. Number 0 means the newest version that is not the
// same as the present form, so that a second Revert undoes the first. changed
// is false if the tool is like the version already. Errors: as those of
// [Store.Save], ErrNotFound, ErrNoVersion, or that the version cannot be read.
func (s *Store) Revert(name string, number int) (to Version, changed bool, err error) {
	versions, err := s.History(name)
	if err != nil {
		return Version{}, false, err
	}
	present, err := s.Get(name)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Version{}, false, err
	}
	there := err == nil
	same := func(v Version) bool { return there && v.Definition.sameToAgents(&present) }
	i := slices.IndexFunc(versions, func(v Version) bool {
		if number == 0 {
			return v.Problem == nil && !same(v)
		}
		return v.Number == number
	})
	switch {
	case i < 0 && number == 0:
		return Version{}, false, fmt.Errorf("tool %q: %w before the present form", name, ErrNoVersion)
	case i < 0:
		return Version{}, false, fmt.Errorf("tool %q: %w: %d", name, ErrNoVersion, number)
	case versions[i].Problem != nil:
		return Version{}, false, fmt.Errorf("tool %q: version %d cannot be used: %w", name, number, versions[i].Problem)
	}
	to = versions[i]
	if same(to) {
		return to, false, nil
	}
	def := to.Definition
	if def.Extra == nil {
		def.Extra = []Member{} // not those of the present form
	}
	_, _, err = s.save(def, Reverted)
	return to, err == nil, err
}

// historyDir has a folder for each tool, a file for each version: the tool's
// file as it was. Neither reading the tools directory nor watching it looks
// into folders, and their temporary files are made outside of them.
const historyDir = ".history"

// endedFormat is how a file's name has the time: no colons, for Windows.
const endedFormat = "20060102T150405.000Z"

// kept is the file of a version, by what its name says.
type kept struct {
	file    string
	number  int
	ended   time.Time
	endedBy Ending
}

// name is the file's name, such as 000012-20260131T120000.000Z-saved.json.
func (k kept) name() string {
	return fmt.Sprintf("%06d-%s-%s%s", k.number, k.ended.UTC().Format(endedFormat), k.endedBy, extension)
}

func parseKept(file string) (kept, bool) {
	parts := strings.Split(strings.TrimSuffix(file, extension), "-")
	if len(parts) != 3 {
		return kept{}, false
	}
	number, err := strconv.Atoi(parts[0])
	ended, timeErr := time.Parse(endedFormat, parts[1])
	k := kept{file, number, ended, Ending(parts[2])}
	return k, err == nil && timeErr == nil && number > 0 && k.name() == file
}

// keptVersions are the files of a tool's versions, oldest first.
func keptVersions(root *os.Root, name string) ([]kept, error) {
	files, err := namesIn(root, path.Join(historyDir, name))
	if err != nil {
		return nil, fmt.Errorf("tool %q: its history cannot be read: %w", name, err)
	}
	var out []kept
	for _, file := range files {
		if k, ok := parseKept(file); ok {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b kept) int { return a.number - b.number })
	return out, nil
}

// namesIn are the names in a folder, none if it is not there.
func namesIn(root *os.Root, folder string) ([]string, error) {
	sub, err := root.OpenRoot(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	return readNames(sub)
}

// read is the version in a file; the error is why there is no definition.
func (k kept) read(root *os.Root, name string) (Version, error) {
	v := Version{Number: k.number, Ended: k.ended, EndedBy: k.endedBy}
	file := path.Join(historyDir, name, k.file)
	info, err := root.Lstat(file)
	if err != nil {
		return v, err
	}
	v.Size = info.Size()
	data, _, err := readTool(root, file, info)
	if err == nil {
		v.Definition, err = decodeFile(data, name, k.ended)
	}
	return v, err
}

// keep makes the present form of a tool a version, before another one is
// written. What cannot be kept is not overwritten either: the caller must not
// go on after an error.
func (s *Store) keep(root *os.Root, old *Definition, ending Ending, at time.Time) error {
	versions, err := keptVersions(root, old.Name)
	if err != nil {
		return err
	}
	folder := path.Join(historyDir, old.Name)
	if n := len(versions); n > 0 {
		// When writing failed after this form was kept, it is there already.
		last, err := versions[n-1].read(root, old.Name)
		if err == nil && sameForm(&last.Definition, old) {
			now := kept{number: last.Number, ended: at, endedBy: ending}
			return regular.Rename(root, path.Join(folder, versions[n-1].file), path.Join(folder, now.name()))
		}
	}
	data, err := old.File()
	if err != nil {
		return fmt.Errorf("tool %q: %w", old.Name, err)
	}
	file, err := placeInHistory(root, old.Name, nextVersion(versions, ending, at))
	if err == nil {
		err = writeVersion(root, file, data)
	}
	if err == nil { // before the tool's file is written over
		err = syncHistory(root, old.Name)
	}
	if err != nil {
		return fmt.Errorf("tool %q: cannot be written: the version before cannot be kept: %w (what was saved before is unchanged)", old.Name, err)
	}
	return nil
}

func nextVersion(versions []kept, ending Ending, at time.Time) kept {
	k := kept{number: 1, ended: at, endedBy: ending}
	if n := len(versions); n > 0 {
		k.number = versions[n-1].number + 1
	}
	return k
}

// placeInHistory is the path of a version, in a folder that is there.
func placeInHistory(root *os.Root, name string, k kept) (file string, err error) {
	folder := path.Join(historyDir, name)
	return path.Join(folder, k.name()), root.MkdirAll(folder, 0o700)
}

// writeVersion writes the file of a version. Its temporary file is in the tools
// directory, where leftovers of a crash are removed.
func writeVersion(root *os.Root, file string, data []byte) error {
	temp, err := regular.WriteTemp(root, ".", data, 0o600)
	if err != nil {
		return err
	}
	return temp.Rename(file)
}

// syncHistory makes new names in a tool's history durable.
func syncHistory(root *os.Root, name string) error {
	return errors.Join(regular.SyncFolder(root, path.Join(historyDir, name)), regular.SyncFolder(root, historyDir))
}

// prune forgets the oldest versions of a tool. Having too many is no reason to
// fail.
func (s *Store) prune(root *os.Root, name string) {
	versions, err := keptVersions(root, name)
	for len(versions) > MaxVersions && err == nil {
		err = root.Remove(path.Join(historyDir, name, versions[0].file))
		versions = versions[1:]
	}
	if err != nil {
		s.log.Warn("old versions are not removed", "tool", name, "error", err)
	}
}

// pruneDeleted forgets the tools that were deleted longest ago. saved says
// whether a tool is there.
func (s *Store) pruneDeleted(root *os.Root, saved func(name string) bool) {
	names, err := histories(root)
	names = slices.DeleteFunc(names, saved)
	if err == nil && len(names) > MaxDeleted {
		last := make(map[string]time.Time, len(names))
		for _, name := range names {
			if versions, err := keptVersions(root, name); err == nil && len(versions) > 0 {
				last[name] = versions[len(versions)-1].ended
			}
		}
		slices.SortFunc(names, func(a, b string) int { return last[a].Compare(last[b]) })
		for _, name := range names[:len(names)-MaxDeleted] {
			err = errors.Join(err, root.RemoveAll(path.Join(historyDir, name)))
		}
	}
	if err != nil {
		s.log.Warn("versions of deleted tools are not removed", "error", err)
	}
}
