package shared

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// state is how far a folder was shipped.
type state struct {
	Folder string        `json:"folder"` // id of the folder, unique in the fleet
	Marks  journal.Marks `json:"shipped"`
}

// maxState bounds the files of this package, in bytes.
const maxState = 4 << 20

// stateDir is the subfolder of the journal for the state of a fleet.
func (j *Journal) stateDir() string { return filepath.Join(j.opts.Dir, "fleet", j.opts.Fleet) }

func (j *Journal) statePath() string { return filepath.Join(j.stateDir(), "shipped.json") }

// readState reads the state of a folder. The error is fs.ErrNotExist for a missing state.
func readState(ctx context.Context, path string) (s state, err error) {
	data, err := regular.Read(ctx, path, maxState)
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(data, &s); err == nil && (len(s.Folder) != 2*folderID || store.CheckLog(s.Folder) != nil) {
		err = errors.New("it has no id")
	}
	return s, err
}

// folderID is the length of the id of a folder in bytes.
const folderID = 8

// openState reads the state of the folder, and makes a missing state. Only the shipping process
// calls openState.
func (j *Journal) openState() (state, error) {
	s, err := readState(j.ctx, j.statePath())
	if err == nil || errors.Is(err, context.Canceled) {
		return s, err
	}
	if !errors.Is(err, fs.ErrNotExist) { // then everything is shipped again, which changes nothing
		j.opts.Log.Warn("the position up to which the journal was shipped is not known: the whole journal is shipped again", "file", j.statePath(), "err", err)
	}
	var id [folderID]byte
	_, _ = rand.Read(id[:]) // never fails
	s = state{Folder: hex.EncodeToString(id[:]), Marks: journal.Marks{}}
	return s, writeJSON(j.statePath(), s)
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return regular.Write(path, data, 0o600)
}

// cursors are how far the logs of a day were read, by their folders.
type cursors map[string]store.Position

func (j *Journal) cursorPath(day string) string {
	return filepath.Join(j.stateDir(), "read-"+day+".json")
}

// readCursors returns the read positions of a day. The positions do not count if the copied lines
// were removed.
func (j *Journal) readCursors(ctx context.Context, day string) cursors {
	c := cursors{}
	if !journal.HasCopied(j.opts.Dir, day) {
		return c
	}
	data, err := regular.Read(ctx, j.cursorPath(day), maxState)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.opts.Log.Debug("a day is read again", "file", j.cursorPath(day), "err", err)
		return cursors{}
	}
	return c
}
