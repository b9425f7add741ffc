package plan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
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

// Place stores plans, and the claims of processes that have applied plans. Concurrent use is safe,
// also by several processes.
type Place interface {
	// Write adds a plan, and makes room among the plans of the same owner; see quota. The error is
	// a *FullError if no room can be made.
	Write(ctx context.Context, p Written) error
	// Read returns a plan. The error is fs.ErrNotExist for an unknown plan.
	Read(ctx context.Context, id string) ([]byte, error)
	// IDs returns the ids of all plans, the oldest first.
	IDs(ctx context.Context) ([]string, error)
	// Claim writes the claim for the plan with a digest. Of all callers in all processes, at most
	// the first succeeds, and claims the plan for ever. The error is fs.ErrExist for a claimed
	// plan. Claim returns a function that replaces the claim. From then on the plan with the id is
	// done.
	Claim(ctx context.Context, id, digest string, data []byte) (replace func(ctx context.Context, data []byte) error, err error)
	// Claimed returns the claim. The error is fs.ErrNotExist for an unclaimed plan.
	Claimed(ctx context.Context, digest string) ([]byte, error)
	// Clean removes plans that have been done for keptAfter, and claims of the same age if over
	// returns true.
	Clean(ctx context.Context, over func(claim []byte) bool)
	// Trusted means that only processes with the key of the Place can write there.
	Trusted() bool
}

// folder keeps plans in a folder that processes share, a file for each. The time of a file is the
// time when its plan is done, so Clean finds old plans without reading any file.
//
//	ID.json           a plan of the operator
//	of-OWNER/ID.json  a plan of another owner
//	applied/DIGEST    the claim of the process that applies the plan with the digest
type folder struct {
	dir  string
	now  func() time.Time
	most quota

	mu sync.Mutex // serializes Write, so that this process keeps to the quota exactly
}

var _ Place = (*folder)(nil)

// appliedDir is the folder of the claims, and ownerPrefix begins the names of the folders of
// owners.
const (
	appliedDir  = "applied"
	ownerPrefix = "of-"
)

func (p *folder) claimPath(digest string) string { return filepath.Join(p.dir, appliedDir, digest) }

// of returns the folder of an owner.
func (p *folder) of(owner string) string {
	if owner == "" {
		return p.dir
	}
	return filepath.Join(p.dir, ownerPrefix+tagOf(owner))
}

// folders returns the folders of all owners.
func (p *folder) folders() []string {
	all := []string{p.dir}
	entries, _ := os.ReadDir(p.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ownerPrefix) && e.IsDir() {
			all = append(all, filepath.Join(p.dir, e.Name()))
		}
	}
	return all
}

// find returns the file of a plan. For an unknown plan, find returns the path of a plan of the
// operator.
func (p *folder) find(id string) string {
	for _, dir := range p.folders() {
		if path := filepath.Join(dir, id+".json"); exists(path) {
			return path
		}
	}
	return filepath.Join(p.dir, id+".json")
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// plansIn returns the plans in the folder of an owner, the oldest first.
func plansIn(dir string) (all []entry) {
	files, _ := os.ReadDir(dir) // sorted, and ids begin with the time
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || !isID(id) {
			continue
		}
		if info, err := f.Info(); err == nil { // on error, the file was removed meanwhile
			all = append(all, entry{ID: id, Size: info.Size(), Done: info.ModTime()})
		}
	}
	return all
}

// Trusted implements [Place].
func (*folder) Trusted() bool { return false }

// Write implements [Place].
func (p *folder) Write(_ context.Context, w Written) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	dir := p.of(w.Owner)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	gone, _, err := p.most.room(plansIn(dir), w.entry(), p.now())
	if err != nil {
		return err
	}
	for _, e := range gone {
		if err := os.Remove(filepath.Join(dir, e.ID+".json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	path := filepath.Join(dir, w.ID+".json")
	if err := regular.Write(path, w.Data, 0o600); err != nil {
		return err
	}
	return os.Chtimes(path, w.Done, w.Done)
}

// Read implements [Place].
func (p *folder) Read(ctx context.Context, id string) ([]byte, error) {
	return regular.Read(ctx, p.find(id), MaxFile)
}

// IDs implements [Place].
func (p *folder) IDs(context.Context) (ids []string, err error) {
	for _, dir := range p.folders() {
		for _, e := range plansIn(dir) {
			ids = append(ids, e.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// Claim implements [Place].
func (p *folder) Claim(_ context.Context, id, digest string, data []byte) (func(context.Context, []byte) error, error) {
	dir := filepath.Join(p.dir, appliedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := regular.OpenFile(p.claimPath(digest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
	if path, now := p.find(id), p.now(); err == nil && exists(path) {
		_ = os.Chtimes(path, now, now) // on error, the plan stays as long as an open plan
	}
	return func(_ context.Context, data []byte) error { return regular.Write(p.claimPath(digest), data, 0o600) },
		errors.Join(err, file.Sync(), file.Close(), syncFolder(dir))
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

// maxClaim is the size of the largest claim in bytes.
const maxClaim = 1 << 16

// Claimed implements [Place].
func (p *folder) Claimed(ctx context.Context, digest string) ([]byte, error) {
	return regular.Read(ctx, p.claimPath(digest), maxClaim)
}

// Clean implements [Place]. A file that cannot be removed now is removed later.
func (p *folder) Clean(ctx context.Context, over func(claim []byte) bool) {
	for _, dir := range p.folders() {
		for _, e := range plansIn(dir) {
			if p.now().Sub(e.Done) > keptAfter {
				os.Remove(filepath.Join(dir, e.ID+".json"))
			}
		}
	}
	entries, _ := os.ReadDir(filepath.Join(p.dir, appliedDir))
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !isDigest(e.Name()) || p.now().Sub(info.ModTime()) < keptAfter {
			continue
		}
		if claim, err := p.Claimed(ctx, e.Name()); err == nil && over(claim) {
			os.Remove(p.claimPath(e.Name()))
		}
	}
}

// Owners of plans, next to the principals of tokens.
const (
	operator  = ""          // of the commands
	anonymous = "anonymous" // all clients without a token together
)

// ownerOf returns the owner of the plans of an origin; nil is a command.
func ownerOf(o route.Origin) string {
	if o == nil {
		return operator
	}
	if p := o.Session().Principal(); p != "" {
		return "token " + p
	}
	return anonymous
}

// tagOf returns a name for an owner that is valid in file names.
func tagOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// quota bounds the kept plans of an owner. A new plan replaces the oldest of the owner's done
// plans. A plan that can still be applied is never replaced: the new plan is refused.
type quota struct {
	plans int
	bytes int64
}

// usual is the quota of every owner.
var usual = quota{plans: 1000, bytes: 256 << 20}

// entry is a plan in a Place.
type entry struct {
	ID   string `json:"id"`
	Size int64  `json:"size"`
	// Done is when the plan expires, or was applied.
	Done time.Time `json:"done"`
}

// Written is a plan for a Place.
type Written struct {
	Owner, ID string
	Data      []byte
	Done      time.Time // when the plan expires
}

func (w *Written) entry() entry { return entry{w.ID, int64(len(w.Data)), w.Done.UTC()} }

// FullError is the error for an owner with too many plans that are neither applied nor expired.
type FullError struct {
	Plans int // open plans
	Bytes int64
	Next  time.Time // when the first of them expires; zero for none
	Most  quota
}

func (e *FullError) Error() string {
	wait := ""
	if !e.Next.IsZero() {
		wait = fmt.Sprintf(", or wait until %s, when the first of them expires", e.Next.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("there is no room for another plan: %d with %s are kept that can still be applied (of one owner at most %d with %s): apply some of them%s",
		e.Plans, units.FormatSize(uint64(e.Bytes)), e.Most.plans, units.FormatSize(uint64(e.Most.bytes)), wait)
}

// room makes room for a new plan among the plans of its owner, the oldest first. room returns the
// plans to be removed, and the plans that remain with the new plan. The error is a *FullError.
func (q quota) room(all []entry, added entry, now time.Time) (removed, left []entry, err error) {
	n, bytes := 1, added.Size
	for _, e := range all {
		if e.ID != added.ID {
			n, bytes = n+1, bytes+e.Size
			left = append(left, e)
		}
	}
	left = slices.DeleteFunc(left, func(e entry) bool {
		goes := (n > q.plans || bytes > q.bytes) && !e.Done.After(now)
		if goes {
			n, bytes = n-1, bytes-e.Size
			removed = append(removed, e)
		}
		return goes
	})
	if n <= q.plans && bytes <= q.bytes {
		return removed, append(left, added), nil
	}
	full := &FullError{Plans: n - 1, Bytes: bytes - added.Size, Most: q}
	for _, e := range left {
		if e.Done.After(now) && (full.Next.IsZero() || e.Done.Before(full.Next)) {
			full.Next = e.Done
		}
	}
	return nil, all, full
}
