package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

// Store keeps plans in a [Place], and marks applied plans. Concurrent use is safe, also by several
// processes.
type Store struct {
	place  Place
	sealer *requeststate.Sealer
	now    func() time.Time
}

// NewStore returns the store in a folder, which need not exist yet.
func NewStore(dir string, sealer *requeststate.Sealer, now func() time.Time) *Store {
	return NewStoreIn(&folder{dir: dir, now: now, most: usual}, sealer, now)
}

// NewStoreIn returns the store in a Place.
func NewStoreIn(in Place, sealer *requeststate.Sealer, now func() time.Time) *Store {
	return &Store{in, sealer, now}
}

// ErrNotFound is the error for a plan that a store does not have.
var ErrNotFound = errors.New("there is no such plan")

// AppliedError is the error for a plan that was applied before. A plan is applied at most once.
type AppliedError struct {
	Plan string    `json:"plan"` // id
	Run  string    `json:"run"`  // id of the run that carries out the plan; "" without a journal
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

// Keep seals a plan and writes the plan. The error matches *FullError if the owner has too many
// plans.
func (s *Store) Keep(ctx context.Context, f *File) error {
	if err := s.Seal(f); err != nil {
		return fmt.Errorf("plan %s cannot be sealed: %w", f.Plan.ID, err)
	}
	s.clean(ctx)
	w := Written{Owner: f.owner, ID: f.Plan.ID, Data: f.JSON(), Done: f.Plan.Expires}
	if len(w.Data) > MaxFile {
		return fmt.Errorf("plan %s cannot be kept: it has %d bytes (at most %d)", f.Plan.ID, len(w.Data), MaxFile)
	}
	if err := s.place.Write(ctx, w); err != nil {
		return fmt.Errorf("plan %s cannot be kept: %w", f.Plan.ID, err)
	}
	return nil
}

// binding is the owner of a seal.
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

// Load returns a plan of the store. The error is ErrNotFound for an unknown plan, and for a plan
// whose writer did not have the key of the store.
func (s *Store) Load(ctx context.Context, id string) (*File, error) {
	if !isID(id) {
		return nil, fmt.Errorf("plan %q: %w", clip(id), ErrNotFound)
	}
	data, err := s.place.Read(ctx, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("plan %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", id, err)
	}
	f, err := Parse(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("plan %s: %w", id, err)
	case f.Plan.ID != id:
		return nil, fmt.Errorf("plan %s: %w: its file has another one", id, ErrNotFound)
	case s.place.Trusted():
		return f, nil
	case s.now().After(f.Plan.Expires):
		return f, nil // an expired plan cannot be applied, and its seal has expired, too
	case !s.Sealed(f):
		return nil, fmt.Errorf("plan %s: %w: its file was edited", id, ErrNotFound)
	}
	return f, nil
}

// List returns the ids of the plans, the oldest first.
func (s *Store) List(ctx context.Context) ([]string, error) { return s.place.IDs(ctx) }

// Claim is the right to apply a plan.
type Claim struct {
	store   *Store
	file    *File
	replace func(ctx context.Context, data []byte) error
}

// Claim takes the right to apply a plan. Of all callers in the processes that share the store, the
// first gets the right, and all later callers get an *AppliedError. After another error, the right
// may be lost for all.
func (s *Store) Claim(ctx context.Context, f *File) (*Claim, error) {
	s.clean(ctx)
	replace, err := s.place.Claim(ctx, f.Plan.ID, f.Digest, s.claim(f, ""))
	if errors.Is(err, fs.ErrExist) {
		used, err := s.Applied(ctx, f.Digest)
		return nil, errors.Join(err, used.error())
	}
	if err != nil {
		return nil, fmt.Errorf("plan %s cannot be applied: %w", f.Plan.ID, err)
	}
	return &Claim{s, f, replace}, nil
}

func (s *Store) claim(f *File, run string) []byte {
	return wire.Marshal(AppliedError{Plan: f.Plan.ID, Run: run, At: s.now().UTC(), Until: f.Plan.Expires})
}

// Began adds the id of the run to the claim.
func (c *Claim) Began(ctx context.Context, run string) error {
	return c.replace(ctx, c.store.claim(c.file, run))
}

// Applied returns when the plan with a digest was applied; nil for a plan that was not.
func (s *Store) Applied(ctx context.Context, digest string) (*AppliedError, error) {
	text, err := s.place.Claimed(ctx, digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return readClaim(digest, text), nil
}

func readClaim(digest string, text []byte) *AppliedError {
	used := new(AppliedError)
	if err := json.Unmarshal(text, used); err != nil { // another process is just writing the claim, or the machine has crashed
		used.Plan = "with digest " + digest
	}
	return used
}

// keptAfter is how long plans and claims are kept after the plans have expired, and plans after
// they were applied, space permitting.
const keptAfter = 30 * 24 * time.Hour

// clean removes old plans and claims.
func (s *Store) clean(ctx context.Context) {
	s.place.Clean(ctx, func(claim []byte) bool { return s.now().After(readClaim("", claim).Until) })
}
