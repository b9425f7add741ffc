package tools

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Shared keeps the tools of several machines. The folder of a Store is then a copy that another
// component keeps up to date: the Store reads the folder, and writes only after the change has been
// made in Shared. Errors match the errors of this package where named below.
type Shared interface {
	// Get returns a document and its version; version "" for a missing document.
	Get(d Document) (data []byte, version string, err error)
	// Put replaces a document if its version is version, "" for a missing document. The error
	// matches ErrChanged if the document has another version, and ErrUnsure if the outcome of the
	// write is unknown.
	Put(d Document, version string, data []byte) error
	// Remove removes a document as Put replaces one.
	Remove(d Document, version string) error
	// Versions yields the documents of kind OfVersion of a tool, in no order. An error ends the
	// sequence.
	Versions(tool string) iter.Seq2[[]byte, error]
}

// Document is the name of a document in Shared.
type Document struct {
	Kind DocumentKind
	// Name is the name of a tool, for OfVersion followed by "/" and the name of the version's file
	// without its extension.
	Name string
}

// DocumentKind is a kind of documents.
type DocumentKind int

// The kinds.
const (
	OfTool    DocumentKind = iota // the file of a tool
	OfVersion                     // the file of a version
	OfNumber                      // the last number given to a version of a tool
)

var (
	// ErrChanged is matched by errors.Is if another machine has changed a tool in the meantime.
	// Nothing was written.
	ErrChanged = errors.New("it was changed on another machine in the meantime")
	// ErrAway is matched by errors.Is if the tools cannot be changed now. Nothing was written.
	ErrAway = errors.New("the store of the fleet does not answer, so that saved tools can be read and called, but not changed (try again later)")
	// ErrUnsure is matched by errors.Is if the outcome of a write is unknown.
	ErrUnsure = errors.New("it is not known whether it was written")
)

// RolledBackError reports a shared tool older than its copy.
type RolledBackError struct {
	Name        string
	Shared, Own time.Time // when they were modified
}

func (e *RolledBackError) Error() string {
	return fmt.Sprintf("tool %q: in the store of the fleet is a form of %s, but this machine has one of %s: somebody has put an old one back (save the tool again, or revert it)",
		e.Name, e.Shared.Format(time.RFC3339), e.Own.Format(time.RFC3339))
}

// UnsharedError reports a tool that is in the folder only.
type UnsharedError struct{ Name string }

func (e *UnsharedError) Error() string {
	return fmt.Sprintf("tool %q: is in the folder of this machine, but not in the store of the fleet, and its history does not say that it was deleted (save it again, or delete it)", e.Name)
}

// Accepts returns an error if the copy of a tool must not be replaced by the shared tool: the
// shared tool is invalid, is older, or was removed without a trace. copied is nil without a copy,
// and now is nil without a shared tool. A copy edited by hand is kept in the folder ".edited"
// before the copy is lost.
func (s *Store) Accepts(name string, copied, now []byte) error {
	if err := CheckName(name); err != nil {
		return err
	}
	mine, mineErr := decodeFile(copied, name, time.Time{})
	if now == nil {
		if copied == nil || mineErr != nil || s.wasShared(&mine) {
			return s.keepEdited(name, copied, mineErr != nil)
		}
		return &UnsharedError{name}
	}
	shared, err := decodeFile(now, name, time.Time{})
	if err == nil {
		err = shared.checkSchemas()
	}
	if err != nil {
		return fmt.Errorf("tool %q: what is in the store of the fleet is no tool: %w", name, err)
	}
	switch {
	case copied == nil:
		return s.checkCase(name)
	case mineErr != nil:
		return s.keepEdited(name, copied, true)
	case shared.Metadata.Modified.Before(mine.Metadata.Modified):
		return &RolledBackError{name, shared.Metadata.Modified, mine.Metadata.Modified}
	}
	// Saving an unchanged tool keeps no version. And during a change, versions may be copied after
	// the tool.
	edited := !mine.sameToAgents(&shared) && !s.wasShared(&mine) && !s.isVersion(&mine)
	return s.keepEdited(name, copied, edited)
}

// isVersion reports whether Shared has a version of a tool with this form, saved at any time.
func (s *Store) isVersion(d *Definition) bool {
	if s.shared == nil {
		return false
	}
	for data, err := range s.shared.Versions(d.Name) {
		if err != nil {
			return false
		}
		if v, err := decodeFile(data, d.Name, time.Time{}); err == nil && v.sameToAgents(d) {
			return true
		}
	}
	return false
}

// checkCase is checkClash for a shared tool, without reading the folder again.
func (s *Store) checkCase(name string) error {
	s.files.Lock()
	defer s.files.Unlock()
	s.refreshOrWarn()
	for other := range s.cache {
		if other != name && strings.EqualFold(other, name) {
			return &ClashError{name, other}
		}
	}
	return nil
}

// wasShared reports whether the history has a form of a tool.
func (s *Store) wasShared(d *Definition) bool {
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return false
	}
	defer root.Close()
	kept, err := versionFiles(root, d.Name)
	if err != nil {
		return false
	}
	for _, k := range slices.Backward(kept) {
		if v, err := k.read(root, d.Name); err == nil && sameForm(&v.Definition, d) {
			return true
		}
	}
	return false
}

// editedDir has copies of tools edited by hand, at most maxEdited.
const (
	editedDir = ".edited"
	maxEdited = 100
)

// keepEdited keeps the copy of a tool if the copy was edited by hand.
func (s *Store) keepEdited(name string, copied []byte, edited bool) error {
	if !edited || len(copied) == 0 {
		return nil
	}
	root, err := regular.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(editedDir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	all, err := namesIn(root, editedDir)
	if err != nil || len(all) >= maxEdited {
		return err
	}
	sum := sha256.Sum256(copied)
	file := path.Join(editedDir, fmt.Sprintf("%s-%x%s", name, sum[:4], extension))
	if _, err := root.Lstat(file); err == nil {
		return nil
	}
	if err := writeVersion(root, file, copied); err != nil {
		return err
	}
	s.log.Warn("a saved tool was edited by hand, which is undone: the fleet has another form (import the file to save it)",
		"tool", name, "file", s.dir+string(os.PathSeparator)+file)
	return nil
}

// sharing is the change of one tool in Shared, while the folder is locked. A nil sharing belongs to
// a Store that shares nothing.
type sharing struct {
	*Store
	name    string
	version string     // of the shared tool
	kept    Document   // the version made by this change, if the name is set
	form    Definition // the kept form
}

// share begins to change a tool. old is the copy, nil without a copy. The error matches ErrChanged
// if the shared tool is a different one.
func (s *Store) share(root *os.Root, name string, old *entry) (*sharing, error) {
	if s.shared == nil {
		return nil, nil
	}
	data, version, err := s.shared.Get(Document{OfTool, name})
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	same := (old == nil) == (version == "") && (old == nil || sha256.Sum256(data) == old.sum)
	if !same && !s.isOlder(root, name, data, version) {
		return nil, fmt.Errorf("tool %q: %w (look at it again, and then change it)", name, ErrChanged)
	}
	return &sharing{Store: s, name: name, version: version}, nil
}

// isOlder reports whether a shared tool is not used because the copy is newer, so the copy may
// replace the shared tool.
func (s *Store) isOlder(root *os.Root, name string, data []byte, version string) bool {
	copied, err := ReadFile(root, name+extension, MaxFileBytes)
	if err != nil {
		return false
	}
	if version == "" {
		data = nil
	}
	err = s.Accepts(name, copied, data)
	return errors.As(err, new(*RolledBackError)) || errors.As(err, new(*UnsharedError))
}

// modified returns the time of a change, which is later than the time of the previous form, even if
// another machine made that form: a shared tool with an earlier time is outdated.
func (c *sharing) modified(now, before time.Time) time.Time {
	if c != nil && !now.After(before) {
		return before.Add(time.Millisecond)
	}
	return now
}

// number returns the number of the next version of a tool. No other machine uses it.
func (c *sharing) number(versions []versionFile) (int, error) {
	known := 0
	if n := len(versions); n > 0 {
		known = versions[n-1].number
	}
	for {
		data, version, err := c.shared.Get(Document{OfNumber, c.name})
		if err != nil {
			return 0, err
		}
		last, err := strconv.Atoi(string(bytes.TrimSpace(data)))
		if err != nil || last < 0 || last >= maxNumber { // none, or not written by this program
			last = 0
		}
		n := max(last, known) + 1
		err = c.shared.Put(Document{OfNumber, c.name}, version, []byte(strconv.Itoa(n)))
		if !errors.Is(err, ErrChanged) {
			return n, err
		}
	}
}

// maxNumber is the largest number of a version.
const maxNumber = 999_999_999

// document returns the name of a version in Shared.
func (k versionFile) document(name string) Document {
	return Document{OfVersion, name + "/" + strings.TrimSuffix(k.name(), extension)}
}

// keep puts a version into Shared before the tool is changed there.
func (c *sharing) keep(k versionFile, form *Definition) error {
	if c == nil {
		return nil
	}
	data, err := form.File()
	if err != nil {
		return err
	}
	d := k.document(c.name)
	if err := c.shared.Put(d, "", data); err != nil {
		return err
	}
	c.kept, c.form = d, *form
	return nil
}

// tidyAmong is how many of the newest versions can belong to changes never made.
const tidyAmong = 5

// tidy removes the versions kept for other changes of the replaced form: these changes can no
// longer be made.
func (c *sharing) tidy(root *os.Root) {
	if c == nil || c.kept.Name == "" {
		return
	}
	versions, err := versionFiles(root, c.name)
	for _, k := range versions[max(0, len(versions)-tidyAmong):] {
		v, bad := k.read(root, c.name)
		if k.document(c.name) == c.kept || bad != nil || !sameForm(&v.Definition, &c.form) {
			continue
		}
		if err = c.unshare(k.document(c.name)); err == nil {
			err = root.Remove(path.Join(historyDir, c.name, k.file))
		}
	}
	if err != nil {
		c.log.Debug("versions of changes that were not made are still there", "tool", c.name, "error", err)
	}
}

// publish makes the change in Shared; data is the file of the tool, nil to remove it. If another
// machine was faster, the version is removed again.
func (c *sharing) publish(data []byte) error {
	if c == nil {
		return nil
	}
	var err error
	switch {
	case data != nil:
		err = c.shared.Put(Document{OfTool, c.name}, c.version, data)
	case c.version != "":
		err = c.shared.Remove(Document{OfTool, c.name}, c.version)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnsure):
		return fmt.Errorf("%w (look at it before you change it again)", err)
	case errors.Is(err, ErrChanged):
		err = fmt.Errorf("%w (look at it again, and then change it)", err)
	}
	c.withdraw()
	return err
}

// withdraw removes the version of a change that was not made. After a failure, History hides the
// version.
func (c *sharing) withdraw() {
	if c == nil || c.kept.Name == "" {
		return
	}
	if err := c.unshare(c.kept); err != nil {
		c.log.Debug("the version of a change that was not made is still there", "version", c.kept.Name, "error", err)
	}
	c.kept.Name = ""
}

// unshare removes a version from Shared, if the Store shares anything.
func (s *Store) unshare(d Document) error {
	if s.shared == nil {
		return nil
	}
	_, version, err := s.shared.Get(d)
	if err != nil || version == "" {
		return err
	}
	return s.shared.Remove(d, version)
}
