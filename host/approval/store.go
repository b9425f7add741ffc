package approval

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/wire"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// The files of a Queue are below the folder "approvals" of the store. Each is replaced as a
// whole, under a lock that all processes share, and has a code that only processes with the
// key of the store can make. The folder is for its user only: whoever can write there and
// read the key can decide.
const (
	folder           = "approvals"
	queueFolder      = "queue"
	rememberedFolder = "remembered"
	holderFolder     = "holders"
	lockName         = ".lock"
	suffix           = ".json"
)

// Bounds of the files.
const (
	maxFile  = 4 << 20 // bytes
	maxFiles = 2000    // in one folder
)

// lockTimeout is how long to wait for other processes that change something.
const lockTimeout = 10 * time.Second

// Queue has the calls that wait for a decision, and the decisions that are remembered. All
// processes with the same store share them. It is safe for concurrent use.
type Queue struct {
	store string // folder
	dir   string
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex // a leaf
	loaded *keys
	holder *holder // nil until a call waits in this process
}

// OpenQueue returns the queue of a store's folder. It touches no file. The caller must Close
// it.
func OpenQueue(store string, log *slog.Logger) *Queue {
	return &Queue{store: store, dir: filepath.Join(store, folder), log: log, now: time.Now}
}

// Close says that no call waits in this process any more.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holder.release()
	q.holder = nil
}

// keys returns the keys, which are made with the first call.
func (q *Queue) keys(ctx context.Context) (*keys, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.loaded != nil {
		return q.loaded, nil
	}
	secret, err := requeststate.LoadKey(ctx, q.store)
	if err != nil {
		return nil, err
	}
	q.loaded = newKeys(secret)
	return q.loaded, nil
}

// files are the open folder of a Queue.
type files struct {
	*keys
	ctx  context.Context // of the operation
	root *os.Root
}

// open opens the folder for reading; nil if there is none.
func (q *Queue) open(ctx context.Context) (*files, error) {
	if _, err := os.Stat(q.dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if _, err := owner.Check(q.dir); err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	k, err := q.keys(ctx)
	if err != nil {
		return nil, err
	}
	root, err := regular.OpenRoot(q.dir)
	if err != nil {
		return nil, fmt.Errorf("approvals: %w", err)
	}
	return &files{k, ctx, root}, nil
}

// change calls f with the folder, which is made if there is none, while no other process
// changes something.
func (q *Queue) change(ctx context.Context, f func(*files) error) error {
	for _, sub := range []string{queueFolder, rememberedFolder, holderFolder} {
		if err := os.MkdirAll(filepath.Join(q.dir, sub), 0o700); err != nil {
			return fmt.Errorf("approvals: %w", err)
		}
	}
	opened, err := q.open(ctx)
	if err != nil {
		return err
	}
	defer opened.root.Close()
	lock := regular.NewLock(filepath.Join(q.dir, lockName))
	defer lock.Close()
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 5*time.Millisecond); err != nil {
		return fmt.Errorf("approvals: another process keeps %s locked: %w", filepath.Join(q.dir, lockName), err)
	}
	return f(opened)
}

// sealed is the content of a file.
type sealed struct {
	Approval json.RawMessage `json:"approval"`
	MAC      string          `json:"mac"` // of the name of the file and the approval, lower-case hex
}

func (f *files) code(name string, body []byte) string {
	return hex.EncodeToString(mac(f.keys.files, filepath.ToSlash(name), string(body)))
}

// write replaces a file. Arguments are shown to people as they are in it, so characters that
// mean something in HTML are not escaped.
func (f *files) write(name string, v any) error {
	body := wire.Marshal(v)
	data := wire.Marshal(sealed{body, f.code(name, body)})
	if len(data) > maxFile {
		return fmt.Errorf("approvals: %d bytes are too many for a file (at most %d)", len(data), maxFile)
	}
	return regular.WriteIn(f.root, name, append(data, '\n'), 0o600)
}

// errForged says that a file was not written by a process with the key.
var errForged = errors.New("was changed by something else than mcp-metatool")

// read reads a file into v.
func (f *files) read(name string, v any) error {
	data, err := regular.ReadIn(f.ctx, f.root, name, maxFile)
	if err != nil {
		return err
	}
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("approvals: %s: %w", name, err)
	}
	if !hmac.Equal([]byte(s.MAC), []byte(f.code(name, s.Approval))) {
		return fmt.Errorf("approvals: %s %w", name, errForged)
	}
	return json.Unmarshal(s.Approval, v)
}

// ids returns the ids of the files in a folder.
func (f *files) ids(sub string) ([]string, error) {
	names, err := regular.Names(f.root, sub, maxFiles+100)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, n := range names {
		if id, ok := strings.CutSuffix(n, suffix); ok && isID(id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func (f *files) remove(name string) error {
	if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// all yields what is in a folder. What cannot be read is logged and left out.
func all[T any](f *files, sub string, log *slog.Logger) ([]T, error) {
	ids, err := f.ids(sub)
	var list []T
	for _, id := range ids {
		var v T
		if err := f.read(filepath.Join(sub, id+suffix), &v); err == nil {
			list = append(list, v)
		} else if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("an approval is ignored", "err", err)
		}
	}
	return list, err
}

// letters are those of ids: people type them, so none is like another or makes words.
const letters = "23456789bcdfghjkmnpqrstvwxz"

// idLength is the length of an id.
const idLength = 5

// newID returns an id that no file has.
func (f *files) newID() string {
	for {
		var random [idLength]byte
		_, _ = rand.Read(random[:]) // never fails
		for i, b := range random {
			random[i] = letters[int(b)%len(letters)] // nothing depends on that ids are hard to guess
		}
		id := string(random[:])
		_, queued := f.root.Stat(filepath.Join(queueFolder, id+suffix))
		_, kept := f.root.Stat(filepath.Join(rememberedFolder, id+suffix))
		if queued != nil && kept != nil {
			return id
		}
	}
}

// isID reports whether text has the form of an id, so that it is no path.
func isID(text string) bool {
	return len(text) == idLength && strings.Trim(text, letters) == ""
}
