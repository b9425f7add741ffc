package plan

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Place is where plans lie, and the claims of those who have applied them. It is safe for
// concurrent use, also by several processes.
type Place interface {
	// Write replaces the plan with an id.
	Write(ctx context.Context, id string, data []byte) error
	// Read returns it. The error is fs.ErrNotExist if there is none.
	Read(ctx context.Context, id string) ([]byte, error)
	// IDs returns the ids of all plans, the oldest first.
	IDs(ctx context.Context) ([]string, error)
	// Claim writes the claim for the plan with a digest. Of all that do, in all processes, one
	// succeeds at most, and claims it for ever. The error is fs.ErrExist if there is one. It
	// returns a function that replaces the claim.
	Claim(ctx context.Context, digest string, data []byte) (replace func(ctx context.Context, data []byte) error, err error)
	// Claimed returns the claim. The error is fs.ErrNotExist if there is none.
	Claimed(ctx context.Context, digest string) ([]byte, error)
	// Clean removes plans that are older than keptAfter or more than maxKept, and those claims
	// as old of which over says that they can go.
	Clean(ctx context.Context, over func(claim []byte) bool)
	// Trusted says that only processes with the key of the Place can write there.
	Trusted() bool
}

// folder keeps plans in a folder that processes share, one file for each.
//
//	ID.json         a plan
//	applied/DIGEST  that somebody has begun to apply the plan with that digest
type folder struct {
	dir string
	now func() time.Time
}

var _ Place = folder{}

// appliedDir is the folder of the claims.
const appliedDir = "applied"

func (p folder) path(id string) string { return filepath.Join(p.dir, id+".json") }

func (p folder) claimPath(digest string) string { return filepath.Join(p.dir, appliedDir, digest) }

// Trusted implements [Place].
func (folder) Trusted() bool { return false }

// Write implements [Place].
func (p folder) Write(_ context.Context, id string, data []byte) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	return regular.Write(p.path(id), data, 0o600)
}

// Read implements [Place].
func (p folder) Read(ctx context.Context, id string) ([]byte, error) {
	return regular.Read(ctx, p.path(id), MaxFile)
}

// IDs implements [Place].
func (p folder) IDs(context.Context) ([]string, error) {
	entries, _ := os.ReadDir(p.dir) // sorted, and ids begin with the time
	var ids []string
	for _, e := range entries {
		if id, ok := strings.CutSuffix(e.Name(), ".json"); ok && isID(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Claim implements [Place].
func (p folder) Claim(_ context.Context, digest string, data []byte) (func(context.Context, []byte) error, error) {
	dir := filepath.Join(p.dir, appliedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := regular.OpenFile(p.claimPath(digest), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(data)
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
func (p folder) Claimed(ctx context.Context, digest string) ([]byte, error) {
	return regular.Read(ctx, p.claimPath(digest), maxClaim)
}

// Clean implements [Place]. What cannot be removed now is removed later.
func (p folder) Clean(ctx context.Context, over func(claim []byte) bool) {
	ids, _ := p.IDs(ctx)
	for i, id := range ids {
		info, err := os.Lstat(p.path(id))
		if err == nil && (len(ids)-i > maxKept || p.now().Sub(info.ModTime()) > keptAfter) {
			os.Remove(p.path(id))
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
