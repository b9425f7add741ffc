package plan

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

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
	// Trusted means: only processes with the key of the Place can write there.
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
