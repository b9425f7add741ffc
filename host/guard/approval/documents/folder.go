package documents

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// The files are below the folder "approvals" of the store. Each is replaced as a whole, under a
// lock that all processes share, and has a code that only processes with the key of the store can
// make. The folder is for its user only: a process that can write there and read the key can
// decide.
const (
	folder       = "approvals"
	holderFolder = "holders"
	lockName     = ".lock"
	suffix       = ".json"
)

// lockTimeout is how long to wait for the lock of another process.
const lockTimeout = 10 * time.Second

// poll is the time between two looks of a waiting call for a decision. The folder may be on any
// file system, and few calls wait, so polling is enough.
const poll = 200 * time.Millisecond

// Folder keeps documents in files.
type Folder struct {
	store string
	dir   string

	mu     sync.Mutex // a leaf
	secret []byte     // nil until the first use
	holder *holder    // nil until a call waits in this process
}

var _ Place = (*Folder)(nil)

// InFolder returns the documents in the folder of a store, without touching a file. The caller must
// Close the Folder.
func InFolder(store string) *Folder {
	return &Folder{store: store, dir: filepath.Join(store, folder)}
}

// Close implements [Place].
func (p *Folder) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holder.release()
	p.holder = nil
}

// Secret implements [Place].
func (p *Folder) Secret(ctx context.Context) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secret != nil {
		return p.secret, nil
	}
	secret, err := requeststate.LoadKey(ctx, p.store)
	if err == nil {
		p.secret = secret
	}
	return secret, err
}

// Changed implements [Place].
func (*Folder) Changed() <-chan struct{} {
	changed := make(chan struct{})
	time.AfterFunc(poll, func() { close(changed) })
	return changed
}

// Fresh implements [Place]: View reads the files.
func (*Folder) Fresh(context.Context, Name) error { return nil }

// Abandoned implements [Place].
func (*Folder) Abandoned(string) bool { return false }

// files are the open folder.
type files struct {
	key  []byte
	ctx  context.Context // of the operation
	root *os.Root
}

var _ Documents = (*files)(nil)

// open opens the folder for reading; nil for a missing folder.
func (p *Folder) open(ctx context.Context) (*files, error) {
	if _, err := os.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if _, err := owner.Check(p.dir); err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	secret, err := p.Secret(ctx)
	if err != nil {
		return nil, err
	}
	root, err := regular.OpenRoot(p.dir)
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return &files{MAC(secret, "mcp-metatool approvals: files"), ctx, root}, nil
}

// View implements [Place].
func (p *Folder) View(ctx context.Context, f func(Documents) error) error {
	opened, err := p.open(ctx)
	switch {
	case err != nil:
		return err
	case opened == nil:
		return f(noFolder{})
	}
	defer opened.root.Close()
	return f(opened)
}

// Change implements [Place]. A missing folder is made.
func (p *Folder) Change(ctx context.Context, f func(Documents) error) error {
	for _, sub := range []string{Queue, Remembered, holderFolder} {
		if err := os.MkdirAll(filepath.Join(p.dir, sub), 0o700); err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
	}
	opened, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer opened.root.Close()
	lock := regular.NewLock(filepath.Join(p.dir, lockName))
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return fmt.Errorf("approvals: another process keeps %s locked: %w", filepath.Join(p.dir, lockName), err)
	}
	p.sweepHolders(opened)
	return f(opened)
}

// protected is the content of a file.
type protected struct {
	Approval json.RawMessage `json:"approval"`
	MAC      string          `json:"mac"` // of the name of the file and the approval, lower-case hex
}

func (n Name) file() string { return filepath.Join(n.Kind, n.ID+suffix) }

func (f *files) code(n Name, body []byte) string {
	return hex.EncodeToString(MAC(f.key, n.String()+suffix, string(body)))
}

// MAC returns the HMAC-SHA256 of texts.
func MAC(key []byte, texts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, text := range texts {
		fmt.Fprintf(h, "%d:%s", len(text), text)
	}
	return h.Sum(nil)
}

// Write implements [Documents]. People read arguments as they are in the file, so the special
// characters of HTML are not escaped.
func (f *files) Write(n Name, v any) error {
	body := wire.Marshal(v)
	data := wire.Marshal(protected{body, f.code(n, body)})
	if len(data) > maxSize {
		return tooLarge(len(data))
	}
	return regular.WriteIn(f.root, n.file(), append(data, '\n'), 0o600)
}

// Read implements [Documents].
func (f *files) Read(n Name, v any) error {
	data, err := regular.ReadIn(f.ctx, f.root, n.file(), maxSize)
	if err != nil {
		return err
	}
	var s protected
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("approvals: %s: %w", n.file(), err)
	}
	if !hmac.Equal([]byte(s.MAC), []byte(f.code(n, s.Approval))) {
		return fmt.Errorf("approvals: %s %w", n.file(), ErrForged)
	}
	return json.Unmarshal(s.Approval, v)
}

// IDs implements [Documents].
func (f *files) IDs(kind string) ([]string, error) {
	names, err := regular.Names(f.root, kind, Max+100)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, n := range names {
		if id, ok := strings.CutSuffix(n, suffix); ok {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// Remove implements [Documents].
func (f *files) Remove(n Name) error { return f.remove(n.file()) }

func (f *files) remove(path string) error {
	if err := f.root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Use implements [Documents]. The caller holds the lock of the folder.
func (f *files) Use(n Name) error { return f.root.Remove(n.file()) }

// noFolder is a missing folder.
type noFolder struct{}

// errNoFolder is the error for a write in View.
var errNoFolder = errors.New("approvals: there is no folder")

func (noFolder) IDs(string) ([]string, error) { return nil, nil }
func (noFolder) Read(n Name, _ any) error     { return missing(n) }
func (noFolder) Write(Name, any) error        { return errNoFolder }
func (noFolder) Remove(Name) error            { return nil }
func (noFolder) Use(n Name) error             { return missing(n) }

// holder is a file that a process keeps locked while calls wait in the process. At the end of the
// process, however abrupt, the lock is gone, and other processes see the end of the wait.
type holder struct {
	name string
	lock *flock.Flock
}

// Holder implements [Place]. The caller holds the lock of the folder, so no other process takes the
// file for the file of an ended process.
func (p *Folder) Holder() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holder != nil {
		return p.holder.name, nil
	}
	name := rand.Text()
	lock := regular.NewLock(filepath.Join(p.dir, holderFolder, name))
	if _, err := lock.TryLock(); err != nil {
		return "", err
	}
	p.holder = &holder{name, lock}
	return name, nil
}

func (h *holder) release() {
	if h != nil {
		_ = h.lock.Close() // the end of the process does the same
	}
}

// Holds implements [Place].
func (p *Folder) Holds(name string) bool {
	if name == "" {
		return false
	}
	p.mu.Lock()
	own := p.holder != nil && p.holder.name == name
	p.mu.Unlock()
	if own {
		return true
	}
	path := filepath.Join(p.dir, holderFolder, filepath.Base(name))
	if _, err := os.Stat(path); err != nil {
		return false
	}
	lock := regular.NewLock(path)
	defer lock.Close()
	free, err := lock.TryRLock() // a shared lock, so two processes that look do not take each other for the holder
	return err == nil && !free
}

// sweepHolders removes the files of ended processes. The caller holds the lock of the folder.
func (p *Folder) sweepHolders(f *files) {
	names, _ := regular.Names(f.root, holderFolder, Max)
	for _, name := range names {
		if !p.Holds(name) {
			_ = f.remove(filepath.Join(holderFolder, name)) // the next sweep tries again
		}
	}
}
