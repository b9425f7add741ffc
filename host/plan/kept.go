package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Store keeps plans in a folder that processes share, one file for each, and which of them
// were applied. It is safe for concurrent use, also by several processes.
//
//	ID.json         a plan
//	applied/DIGEST  that somebody has begun to apply the plan with that digest
type Store struct {
	dir    string
	sealer *requeststate.Sealer
	now    func() time.Time
}

// NewStore returns the store in a folder, which need not exist yet.
func NewStore(dir string, sealer *requeststate.Sealer, now func() time.Time) *Store {
	return &Store{dir, sealer, now}
}

// appliedDir is the folder of the claims.
const appliedDir = "applied"

// ErrNotFound says that a store does not have a plan.
var ErrNotFound = errors.New("there is no such plan")

// AppliedError says that a plan was applied before. Plans are applied once at most.
type AppliedError struct {
	Plan string    `json:"plan"` // id
	Run  string    `json:"run"`  // id of the run that carries it out; "" if it is not in the journal
	At   time.Time `json:"at"`
	// Until is when the claim can be forgotten: the plan has expired then.
	Until time.Time `json:"until"`
}

func (e *AppliedError) Error() string {
	return fmt.Sprintf("plan %s was applied before, at %s, and a plan is applied once at most (mcp-metatool plan show %s says what was done; make a new plan)",
		e.Plan, e.At.UTC().Format(time.RFC3339), e.Plan)
}

// error returns e as an error; nil for nil.
func (e *AppliedError) error() error {
	if e == nil {
		return nil
	}
	return e
}

// Keep seals a plan and writes it into the folder.
func (s *Store) Keep(f *File) error {
	if err := s.Seal(f); err != nil {
		return fmt.Errorf("plan %s cannot be sealed: %w", f.Plan.ID, err)
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("plan %s cannot be kept: %w", f.Plan.ID, err)
	}
	s.clean()
	if err := regular.Write(s.path(f.Plan.ID), f.JSON(), 0o600); err != nil {
		return fmt.Errorf("plan %s cannot be kept: %w", f.Plan.ID, err)
	}
	return nil
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+".json") }

// binding is what a seal belongs to.
func (f *File) binding() requeststate.Binding {
	var params wire.Object
	params.Text("digest", f.Digest)
	return requeststate.Binding{Principal: f.Principal, Method: "plan", Params: params.Bytes()}
}

// Seal seals a plan with the key of the store.
func (s *Store) Seal(f *File) (err error) {
	f.Seal, err = s.sealer.Seal(requeststate.Plan, f.binding(), []byte(f.Plan.ID), max(time.Minute, f.Plan.Expires.Sub(s.now())))
	return err
}

// Sealed reports whether a plan was made with this store, for the same principal, and has
// not expired.
func (s *Store) Sealed(f *File) bool {
	kind, id, err := s.sealer.Open(f.binding(), f.Seal)
	return err == nil && kind == requeststate.Plan && string(id) == f.Plan.ID
}

// Load returns a plan of the folder. The error is ErrNotFound if there is none, or if the
// file is not sealed with the key of the store.
func (s *Store) Load(id string) (*File, error) {
	if !isID(id) {
		return nil, fmt.Errorf("plan %q: %w", clip(id), ErrNotFound)
	}
	f, err := ReadFile(context.Background(), s.path(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("plan %s: %w", id, ErrNotFound)
	case err != nil:
		return nil, err
	case f.Plan.ID != id:
		return nil, fmt.Errorf("plan %s: %w: its file has another one", id, ErrNotFound)
	case s.now().After(f.Plan.Expires):
		return f, nil // it cannot be applied, and its seal has expired with it
	case !s.Sealed(f):
		return nil, fmt.Errorf("plan %s: %w: its file was edited", id, ErrNotFound)
	}
	return f, nil
}

// List returns the ids of the plans in the folder, the oldest first.
func (s *Store) List() []string {
	entries, _ := os.ReadDir(s.dir) // sorted, and ids begin with the time
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && isID(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Claim takes the right to apply a plan. One caller of all processes that share the folder
// gets it, the others get an *AppliedError.
func (s *Store) Claim(f *File) error {
	dir := filepath.Join(s.dir, appliedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("plan %s cannot be applied: %w", f.Plan.ID, err)
	}
	s.clean()
	text := wire.Marshal(s.claim(f, ""))
	file, err := regular.OpenFile(filepath.Join(dir, f.Digest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		used, err := s.Applied(f.Digest)
		return errors.Join(err, used.error())
	}
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Sync(), file.Close(), syncFolder(dir))
	}
	if err != nil {
		return fmt.Errorf("plan %s cannot be applied: %w", f.Plan.ID, err)
	}
	return nil
}

// syncFolder makes the names in a folder durable: a claim must survive a crash of the machine.
func syncFolder(dir string) error {
	root, err := regular.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return regular.SyncFolder(root, ".")
}

func (s *Store) claim(f *File, run string) AppliedError {
	return AppliedError{Plan: f.Plan.ID, Run: run, At: s.now().UTC(), Until: f.Plan.Expires}
}

// Began adds the id of the run to the claim for a plan.
func (s *Store) Began(f *File, run string) error {
	return regular.Write(filepath.Join(s.dir, appliedDir, f.Digest), wire.Marshal(s.claim(f, run)), 0o600)
}

// Applied returns when the plan with a digest was applied; nil if it was not.
func (s *Store) Applied(digest string) (*AppliedError, error) {
	text, err := regular.Read(context.Background(), filepath.Join(s.dir, appliedDir, digest), 1<<16)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	used := new(AppliedError)
	if err := json.Unmarshal(text, used); err != nil { // it is just being written, or the machine has crashed
		used.Plan = "with digest " + digest
	}
	return used, nil
}

// keptAfter is how long plans and claims are kept after the plans have expired.
const keptAfter = 30 * 24 * time.Hour

// maxKept is how many plans are kept.
const maxKept = 1000

// clean removes what is too old. What cannot be removed now is removed later.
func (s *Store) clean() {
	ids := s.List()
	for i, id := range ids {
		info, err := os.Lstat(s.path(id))
		if err == nil && (len(ids)-i > maxKept || s.now().Sub(info.ModTime()) > keptAfter) {
			os.Remove(s.path(id))
		}
	}
	entries, _ := os.ReadDir(filepath.Join(s.dir, appliedDir))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isDigest(e.Name()) || s.now().Sub(info.ModTime()) < keptAfter {
			continue
		}
		if used, err := s.Applied(e.Name()); err == nil && used != nil && s.now().After(used.Until) {
			os.Remove(filepath.Join(s.dir, appliedDir, e.Name()))
		}
	}
}
