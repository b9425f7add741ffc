package smoke

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/expect"
	"github.com/mcp-metatool/mcp-metatool/host/smoke/report"
	"github.com/mcp-metatool/mcp-metatool/tools/jsonvalue"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// snapshot is an answer in a file below the folder of the file of checks.
type snapshot struct {
	name   string
	place  regular.Place
	ignore []pointer
}

// maxSnapshot is the size of the largest snapshot in bytes.
const maxSnapshot = 16 << 20

// readSnapshot reads true, or the name of the snapshot.
func readSnapshot(r *fileReader, s *config.Section, key string) (matcher, updater) {
	if r.planned != nil { // the name has values of this run now
		if r.planned.snapshot == nil {
			return nil, nil
		}
		snap := *r.planned.snapshot
		r.check.snapshot = &snap
		return snap.match(), nil
	}
	name := ""
	if s.IsString(key) {
		name, _ = s.Verbatim(key)
		if why := badSnapshotName(name); why != "" {
			s.Problem(key, "%s", why)
			return nil, nil
		}
	} else {
		var wanted bool
		if s.Bool(key, &wanted); !wanted {
			return nil, nil
		}
		name = snapshotName(r.check.Name)
		if c := r.check; c.Row > 0 && config.HasReferences(c.Name) { // the written name of all rows
			name = snapshotName(fmt.Sprintf("%s row %d", c.Name, c.Row))
		}
	}
	if owner := r.snapshots[strings.ToLower(name)]; owner != "" {
		remedy := `name this one: snapshot = "..."`
		if r.check.Row > 0 {
			remedy = `each row needs its own: put a column into its name, as in "{{city}}"`
		}
		s.Problem(key, "the snapshot %q is that of %s already (%s)", name, owner, remedy)
		return nil, nil
	}
	if r.snapshots == nil {
		r.snapshots = map[string]string{}
	}
	r.snapshots[strings.ToLower(name)] = r.check.label()
	snap := &snapshot{name: name, place: r.file.snapshotPlace(name)}
	r.check.snapshot = snap
	return snap.match(), nil
}

func (s *snapshot) match() matcher {
	return func(a *answer) *expect.Mismatch { return s.compare(a) }
}

// readSnapshotIgnore reads JSON pointers to members whose values do not matter.
func readSnapshotIgnore(r *fileReader, s *config.Section, key string) (matcher, updater) {
	for i, text := range s.Strings(key) {
		p, err := parsePointer(text)
		if err != nil {
			s.Problem(fmt.Sprintf("%s[%d]", key, i), "%v", err)
			continue
		}
		r.check.ignored = append(r.check.ignored, p)
	}
	return nil, nil
}

// maxSnapshotName is the length of the longest name of a snapshot.
const maxSnapshotName = 80

var (
	snapshotNames = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// deviceNames are names that Windows keeps for devices, with any ending.
	deviceNames = lazyregexp.New(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)
)

// badSnapshotName returns why a name cannot be the name of a file on every system; "" for a good
// name.
func badSnapshotName(name string) string {
	switch {
	case len(name) > maxSnapshotName:
		return fmt.Sprintf("is longer than %d characters", maxSnapshotName)
	case !snapshotNames.MatchString(name):
		return "cannot name a snapshot (use letters, digits, _, - and ., and begin with a letter or digit)"
	case deviceNames.MatchString(name):
		return "is the name of a device on Windows (use another name)"
	}
	return ""
}

// snapshotName makes the name of a snapshot from the name of a check: the same letters and digits,
// with - between them. A hash is added if the name would be too long or empty.
func snapshotName(check string) string {
	var b strings.Builder
	for _, r := range check {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || r == '_' || r == '.':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-._")
	if badSnapshotName(name) == "" {
		return name
	}
	const digits = 8
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(check)))[:digits]
	name = strings.Trim(name[:min(len(name), maxSnapshotName-digits-1)], "-._")
	if name == "" || deviceNames.MatchString(name) {
		name = "check"
	}
	return name + "-" + sum
}

// snapshotFolder returns the folder of the snapshots, relative to the folder of the file.
func (f *File) snapshotFolder() string {
	return strings.TrimSuffix(filepath.Base(f.Path), filepath.Ext(f.Path)) + ".snapshots"
}

// snapshotPlace returns the place of a snapshot, below the folder of the file even if the file may
// name files elsewhere.
func (f *File) snapshotPlace(name string) regular.Place {
	return regular.Place{Folder: filepath.Dir(f.Path), Name: filepath.Join(f.snapshotFolder(), name+".json")}
}

// compare compares an answer with the snapshot.
func (s *snapshot) compare(a *answer) *expect.Mismatch {
	want, err := s.place.Read(context.Background(), maxSnapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &expect.Mismatch{
			Message: fmt.Sprintf("there is no snapshot %s yet (--update writes it: look at it before you commit it)", s.place),
			Got:     string(s.document(a)),
		}
	case err != nil:
		return &expect.Mismatch{Message: fmt.Sprintf("the snapshot %s cannot be read: %v", s.place, reason(err))}
	}
	if !json.Valid(want) {
		return &expect.Mismatch{Message: fmt.Sprintf("the snapshot %s is not JSON (--update writes it again)", s.place)}
	}
	m := expect.Equal(s.hide(want), s.document(a))
	if m != nil {
		m.Message += fmt.Sprintf("; the snapshot is %s (--update accepts the answer)", s.place)
	}
	return m
}

// document returns the content of a snapshot for an answer: JSON with members sorted by name,
// without secrets. For a script, the content is the result or the error.
func (s *snapshot) document(a *answer) []byte {
	var doc wire.Object
	if _, script := a.script(); script {
		if class, message := a.failure(); class != "" { // without the place in the script, which changes with other lines
			var failure wire.Object
			failure.Text("type", class)
			failure.Text("message", message)
			doc.Raw("error", failure.Bytes())
		} else {
			doc.Raw("result", a.value())
		}
	} else {
		for _, name := range []string{"content", "structuredContent", "isError"} {
			if v, ok := wire.Get(a.result, name); ok {
				doc.Raw(name, v)
			}
		}
	}
	raw := doc.Bytes()
	if a.redact != nil {
		raw = a.redact(raw)
	}
	return s.hide(raw)
}

// hide returns JSON in canonical form: members sorted by name, encoded data replaced by its hash,
// and values that do not matter by a placeholder.
func (s *snapshot) hide(raw []byte) []byte {
	v, err := jsonvalue.Decode(raw)
	if err != nil {
		return raw // expect.Equal reports the fault
	}
	v = shortenData(v)
	for _, p := range s.ignore {
		v = p.replace(v, ignoredValue)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return raw
	}
	return b.Bytes()
}

// ignoredValue stands for a value in snapshot_ignore.
const ignoredValue = "(ignored)"

// maxSnapshotData is the size of the longest data that are kept unchanged, in characters.
const maxSnapshotData = 256

// shortenData replaces the data of images, sounds and resources, which are unreadable in a diff.
func shortenData(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = shortenData(v[i])
		}
	case map[string]any:
		_, typed := v["mimeType"]
		for name, sub := range v {
			if text, ok := sub.(string); ok && typed && (name == "data" || name == "blob") && len(text) > maxSnapshotData {
				v[name] = fmt.Sprintf("(%d characters, sha256 %x)", len(text), sha256.Sum256([]byte(text)))
			} else {
				v[name] = shortenData(sub)
			}
		}
	}
	return v
}

// write writes the answer to a check as its snapshot, if different. write reports whether a file
// was written.
func (s *snapshot) write(a *answer) (bool, error) {
	doc := s.document(a)
	if len(doc) > maxSnapshot {
		return false, fmt.Errorf("it has %d bytes, and at most %d are kept", len(doc), maxSnapshot)
	}
	before, err := s.place.Read(context.Background(), maxSnapshot)
	if err == nil && json.Valid(before) && expect.Equal(s.hide(before), doc) == nil {
		return false, nil
	}
	root, err := regular.OpenRoot(s.place.Folder)
	if err != nil {
		return false, err
	}
	defer root.Close()
	if err := root.Mkdir(filepath.Dir(s.place.Name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return true, s.place.Replace(doc, 0o644)
}

// updateSnapshot writes the snapshot of a check whose answer is suitable, and returns the result
// with the snapshot.
func (r *run) updateSnapshot(c *checkRun, before report.Result) (report.Result, error) {
	s := c.snapshot
	if s == nil || c.answer.result == nil || c.basicProblem(c.answer) != nil {
		return before, nil
	}
	changed, err := s.write(c.answer)
	if err != nil {
		err = broken(err, "the snapshot %s is not written: %v", s.place, reason(err))
	}
	if changed {
		r.wrote(s.place.String(), "a snapshot")
	}
	return c.resultOf(c.fileRun.path, c.answer, err), err
}

// staleSnapshots returns the snapshots of the file without a check.
func (f *File) staleSnapshots() []string {
	folder := filepath.Join(filepath.Dir(f.Path), f.snapshotFolder())
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil // no snapshot exists
	}
	used := map[string]bool{}
	for _, c := range f.Checks {
		if c.snapshot != nil {
			used[strings.ToLower(c.snapshot.name)] = true
		}
	}
	var stale []string
	for _, e := range entries {
		name, isJSON := strings.CutSuffix(e.Name(), ".json")
		if isJSON && !e.IsDir() && !used[strings.ToLower(name)] {
			stale = append(stale, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(stale)
	return stale
}
