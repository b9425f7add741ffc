package tools

import (
	"cmp"
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

// Limits of the history.
const (
	// MaxVersions is the largest number of kept earlier forms of a tool.
	MaxVersions = 50
	// MaxDeleted is the largest number of deleted tools with kept forms: an agent creating and
	// deleting tools all day must not fill the disk.
	MaxDeleted = 200
	// MaxHistoryBytes is about the largest size of all versions of all tools together. Beyond it,
	// the oldest versions of the tools with the largest histories are removed.
	MaxHistoryBytes = 256 << 20
)

// ErrNoVersion is matched by errors.Is for an unknown number of a version.
var ErrNoVersion = errors.New("no such version")

// Ending says how a form of a tool stopped being the current form.
type Ending string

// The endings.
const (
	SavedOver Ending = "saved"    // another form was saved under the name
	Deleted   Ending = "deleted"  // the tool was deleted
	Reverted  Ending = "reverted" // an earlier version was restored
	Imported  Ending = "imported" // another form was imported
)

// Version is an earlier form of a tool. A version never changes, and no later version of a tool of
// the same name gets its number.
type Version struct {
	Number int // from 1
	// Ended is when the form stopped being the current form, and EndedBy is how.
	Ended   time.Time
	EndedBy Ending
	// Definition is valid if Problem is nil. It has the metadata of the earlier form.
	Definition Definition
	Size       int64 // of the file, in bytes
	Problem    error // why the file cannot be used
}

// Changes names the members of the file in which two forms of a tool differ in a way that matters
// to agents and runs; nil without differences.
func (d *Definition) Changes(o *Definition) []string {
	var parts []string
	for _, part := range []struct{ name, a, b string }{
		{"name", d.Name, o.Name},
		{"description", d.Description, o.Description},
		{"inputSchema", string(d.InputSchema), string(o.InputSchema)},
		{"outputSchema", string(d.OutputSchema), string(o.OutputSchema)},
		{"limits", string(d.Limits.JSON()), string(o.Limits.JSON())},
		{"durable", d.Durability.text(), o.Durability.text()},
		{"permissions", d.bounds(), o.bounds()},
		{"code", d.Code, o.Code},
	} {
		if part.a != part.b {
			parts = append(parts, part.name)
		}
	}
	return parts
}

// History returns the versions of a tool, saved or deleted, newest first, without its current form.
// The error is ErrNotFound for an unknown tool without kept versions.
func (s *Store) History(name string) ([]Version, error) {
	if CheckName(name) != nil { // the name could be a path
		return nil, notFound(name)
	}
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("tool store: %w", err)
	}
	defer root.Close()
	var versions []Version
	for range historyAttempts {
		var complete bool
		if versions, complete, err = s.readHistory(root, name); complete || err != nil {
			break
		}
	}
	return versions, err
}

// historyAttempts is how often a history is read while other versions replace some of its versions.
const historyAttempts = 10

// readHistory reads the history of a tool once. The history is incomplete if a version was removed
// meanwhile: another version, not read, may stand for the same form.
func (s *Store) readHistory(root *os.Root, name string) (versions []Version, complete bool, err error) {
	kept, err := versionFiles(root, name)
	if err != nil {
		return nil, false, err
	}
	present, missing := s.Get(name)
	complete = true
	versions = make([]Version, 0, len(kept))
	for i, k := range slices.Backward(kept) {
		v, err := k.read(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			complete = false
			continue
		case err == nil && missing == nil && i == len(kept)-1 && sameForm(&v.Definition, &present):
			continue // the version was kept, but then saving failed
		}
		v.Problem = err
		if n := len(versions); n > 0 && err == nil && versions[n-1].Problem == nil && sameForm(&v.Definition, &versions[n-1].Definition) {
			continue // another machine kept the version, but then it was too late to save
		}
		versions = append(versions, v)
	}
	if len(versions) == 0 && errors.Is(missing, ErrNotFound) {
		return nil, complete, notFound(name)
	}
	return versions, complete, nil
}

// sameForm reports whether two definitions differ at most in the executions counted.
func sameForm(a, b *Definition) bool {
	return a.sameToAgents(b) && a.Metadata.Modified.Equal(b.Metadata.Modified)
}

// Histories returns the names of the tools with versions, including deleted ones, sorted.
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

// Revert makes a version the current form of its tool again, and restores a deleted tool. Number 0
// means the newest version different from the current form, so a second Revert undoes the first.
// changed is false if the tool equals the version already. Errors: as for [Store.Save],
// ErrNotFound, ErrNoVersion, or a failure to read the version.
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
		return Version{}, false, fmt.Errorf("tool %q: %w before the current form", name, ErrNoVersion)
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
		def.Extra = []Member{} // not nil, which would keep the members of the current form
	}
	_, _, err = s.save(def, Reverted)
	return to, err == nil, err
}

// historyDir has a folder for each tool with a file for each version, a copy of the tool's file.
// Reading and watching the tools directory ignores folders. The temporary files of versions are
// created outside these folders.
const historyDir = ".history"

// endedFormat is the format of times in file names. Windows allows no colons in file names.
const endedFormat = "20060102T150405.000Z"

// versionFile is the file of a version, as described by the file's name.
type versionFile struct {
	file    string
	number  int
	ended   time.Time
	endedBy Ending
}

// name returns the name of the file, for example 000012-20260131T120000.000Z-saved.json.
func (k versionFile) name() string {
	return fmt.Sprintf("%06d-%s-%s%s", k.number, k.ended.UTC().Format(endedFormat), k.endedBy, extension)
}

func parseVersionFile(file string) (versionFile, bool) {
	parts := strings.Split(strings.TrimSuffix(file, extension), "-")
	if len(parts) != 3 {
		return versionFile{}, false
	}
	number, err := strconv.Atoi(parts[0])
	ended, timeErr := time.Parse(endedFormat, parts[1])
	k := versionFile{file, number, ended, Ending(parts[2])}
	return k, err == nil && timeErr == nil && number > 0 && k.name() == file
}

// versionFiles returns the files of a tool's versions, oldest first.
func versionFiles(root *os.Root, name string) ([]versionFile, error) {
	files, err := namesIn(root, path.Join(historyDir, name))
	if err != nil {
		return nil, fmt.Errorf("tool %q: its history cannot be read: %w", name, err)
	}
	var out []versionFile
	for _, file := range files {
		if k, ok := parseVersionFile(file); ok {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b versionFile) int { return a.number - b.number })
	return out, nil
}

// namesIn returns the names in a folder, none if the folder does not exist.
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

// read reads the version in a file. The error says why the definition is missing.
func (k versionFile) read(root *os.Root, name string) (Version, error) {
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

// keepVersion copies the current form of a tool to its history before a new form is written. After
// an error the caller must not overwrite the current form.
func (s *Store) keepVersion(root *os.Root, old *Definition, ending Ending, at time.Time, c *sharing) error {
	versions, err := versionFiles(root, old.Name)
	if err != nil {
		return err
	}
	folder := path.Join(historyDir, old.Name)
	if n := len(versions); n > 0 && c == nil { // otherwise another machine may be about to save the version
		// This form was kept before, but writing the new form failed.
		last, err := versions[n-1].read(root, old.Name)
		if err == nil && sameForm(&last.Definition, old) {
			now := versionFile{number: last.Number, ended: at, endedBy: ending}
			return regular.Rename(root, path.Join(folder, versions[n-1].file), path.Join(folder, now.name()))
		}
	}
	data, err := old.File()
	if err != nil {
		return fmt.Errorf("tool %q: %w", old.Name, err)
	}
	k, err := s.newVersion(root, old.Name, ending, at, c)
	if err == nil {
		err = c.keep(k, old)
	}
	var file string
	if err == nil {
		file, err = versionPath(root, old.Name, k)
	}
	if err == nil {
		err = writeVersion(root, file, data)
	}
	if err == nil { // before the tool's file is overwritten
		err = syncHistory(root, old.Name)
	}
	if err != nil {
		return fmt.Errorf("tool %q: cannot be written: the previous version cannot be kept: %w (what was saved before is unchanged)", old.Name, err)
	}
	return nil
}

// newVersion returns the next version of a tool, which is not written yet.
func (s *Store) newVersion(root *os.Root, name string, ending Ending, at time.Time, c *sharing) (k versionFile, err error) {
	k = versionFile{number: 1, ended: at, endedBy: ending}
	versions, err := versionFiles(root, name)
	if n := len(versions); n > 0 {
		k.number = versions[n-1].number + 1
	}
	if err == nil && c != nil {
		k.number, err = c.number(versions)
	}
	return k, err
}

// versionPath returns the path of a version. The folder is created if needed.
func versionPath(root *os.Root, name string, k versionFile) (file string, err error) {
	folder := path.Join(historyDir, name)
	return path.Join(folder, k.name()), root.MkdirAll(folder, 0o700)
}

// writeVersion writes the file of a version. The temporary file is in the tools directory, where
// leftovers of a crash are removed.
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

// prune removes the oldest versions of a tool. A failure is only logged.
func (s *Store) prune(root *os.Root, name string) {
	versions, err := versionFiles(root, name)
	for len(versions) > MaxVersions && err == nil {
		if err = s.unshare(versions[0].document(name)); err == nil {
			err = root.Remove(path.Join(historyDir, name, versions[0].file))
		}
		versions = versions[1:]
	}
	if err != nil {
		s.log.Warn("old versions are not removed", "tool", name, "error", err)
	}
}

// pruneBytes removes versions if their total size is too large. Measuring all versions takes long,
// so the first call measures, and later calls only after enough new bytes were written. The caller
// holds writing.
func (s *Store) pruneBytes(root *os.Root, written int64) {
	if s.unlooked += written; s.unlooked < s.mostHistory/16 {
		return
	}
	s.unlooked = 0
	names, err := histories(root)
	sizes, total := make(map[string]int64, len(names)), int64(0)
	for _, name := range names {
		versions, readErr := versionFiles(root, name)
		err = errors.Join(err, readErr)
		for _, k := range versions {
			size := k.size(root, name)
			sizes[name], total = sizes[name]+size, total+size
		}
	}
	for total > s.mostHistory && err == nil {
		largest := slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
		versions, readErr := versionFiles(root, largest)
		if err = readErr; err != nil || len(versions) == 0 {
			break
		}
		size := versions[0].size(root, largest)
		if err = s.unshare(versions[0].document(largest)); err == nil {
			err = root.Remove(path.Join(historyDir, largest, versions[0].file))
		}
		sizes[largest], total = sizes[largest]-size, total-size
	}
	if err != nil {
		s.log.Warn("old versions are not removed", "error", err)
	}
}

// size returns the size of a version in bytes; 0 if the version is gone.
func (k versionFile) size(root *os.Root, name string) int64 {
	info, err := root.Lstat(path.Join(historyDir, name, k.file))
	if err != nil {
		return 0
	}
	return info.Size()
}

// pruneDeleted removes the versions of the tools deleted longest ago. saved reports whether a tool
// exists.
func (s *Store) pruneDeleted(root *os.Root, saved func(name string) bool) {
	names, err := histories(root)
	names = slices.DeleteFunc(names, saved)
	if err == nil && len(names) > MaxDeleted {
		last := make(map[string]time.Time, len(names))
		for _, name := range names {
			if versions, err := versionFiles(root, name); err == nil && len(versions) > 0 {
				last[name] = versions[len(versions)-1].ended
			}
		}
		slices.SortFunc(names, func(a, b string) int { return last[a].Compare(last[b]) })
		for _, name := range names[:len(names)-MaxDeleted] {
			err = errors.Join(err, s.forgetHistory(root, name))
		}
	}
	if err != nil {
		s.log.Warn("versions of deleted tools are not removed", "error", err)
	}
}

// forgetHistory removes all versions of a tool.
func (s *Store) forgetHistory(root *os.Root, name string) error {
	versions, err := versionFiles(root, name)
	for _, k := range versions {
		err = errors.Join(err, s.unshare(k.document(name)))
	}
	if err != nil {
		return err
	}
	return root.RemoveAll(path.Join(historyDir, name))
}
