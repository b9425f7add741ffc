package durable

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Folder is a Store in a folder that processes of one machine share:
//
//	ID.log            the log of a run
//	ID.lock           locked while somebody writes that log, or a document of the run
//	COLLECTION/NAME   a document
//	owners/NAME       locked as long as the process of that owner runs
//
// A log is a sequence of frames: the number of bytes and their CRC-32C, the fencing number, the
// number of the event, and its data. A frame that is cut off, since its writer died, is
// removed by the next writer. A fence is a frame with no data.
//
// It is safe for concurrent use.
type Folder struct {
	dir string
}

// NewFolder returns the Store in a folder, which need not exist yet.
func NewFolder(dir string) *Folder { return &Folder{dir} }

const (
	logSuffix   = ".log"
	lockSuffix  = ".lock"
	ownerFolder = "owners"
	frameHeader = 4 + 4 + 8 + 8
	lockPause   = 5 * time.Millisecond
	// lockTime bounds how long a lock is waited for: its owner may have been stopped.
	lockTime = 5 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// frame is an event in a file.
type frame struct {
	fence, number uint64
	data          []byte
	end           int64 // offset of the next one
}

func (f *frame) bytes() []byte {
	b := make([]byte, frameHeader, frameHeader+len(f.data))
	binary.BigEndian.PutUint32(b, uint32(len(f.data)))
	binary.BigEndian.PutUint64(b[8:], f.fence)
	binary.BigEndian.PutUint64(b[16:], f.number)
	b = append(b, f.data...)
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

// errTorn says that the end of a file is no whole frame.
var errTorn = errors.New("the last event is cut off")

// readFrame reads the frame at an offset. The error is io.EOF at the end, and errTorn.
func readFrame(r io.ReaderAt, at int64) (frame, error) {
	var head [frameHeader]byte
	if n, err := r.ReadAt(head[:], at); err != nil {
		if n == 0 && errors.Is(err, io.EOF) {
			return frame{}, io.EOF
		}
		if errors.Is(err, io.EOF) {
			return frame{}, errTorn
		}
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > store.MaxEvent+1024 {
		return frame{}, errTorn
	}
	all := make([]byte, 16+size)
	copy(all, head[8:])
	if _, err := r.ReadAt(all[16:], at+frameHeader); err != nil && (size > 0 || !errors.Is(err, io.EOF)) {
		if errors.Is(err, io.EOF) {
			return frame{}, errTorn
		}
		return frame{}, err
	}
	if crc32.Checksum(all, castagnoli) != binary.BigEndian.Uint32(head[4:]) {
		return frame{}, errTorn
	}
	return frame{
		fence: binary.BigEndian.Uint64(all), number: binary.BigEndian.Uint64(all[8:]), data: all[16:],
		end: at + frameHeader + int64(size),
	}, nil
}

// lock locks a file of the folder until unlock is called.
func (d *Folder) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	l := regular.NewLock(filepath.Join(d.dir, name))
	if _, err := l.TryLockContext(ctx, lockPause); err != nil {
		return nil, fmt.Errorf("%s: %w: cannot be locked: %w", filepath.Join(d.dir, name), store.ErrUnavailable, err)
	}
	return func() { _ = l.Close() }, nil
}

// writeLog calls f with the last frame of a log, under the lock of the log. f returns what is
// appended; nil for nothing.
func (d *Folder) writeLog(ctx context.Context, log string, from store.Position, create bool, f func(last frame) (*frame, error)) (store.Position, error) {
	if err := store.CheckLog(log); err != nil {
		return store.Position{}, err
	}
	unlock, err := d.lock(ctx, log+lockSuffix)
	if err != nil {
		return store.Position{}, err
	}
	defer unlock()
	flags := os.O_RDWR
	if create {
		flags |= os.O_CREATE
	}
	file, err := regular.OpenFile(d.logPath(log), flags, 0o600)
	if err != nil {
		return store.Position{}, err
	}
	defer file.Close()
	last := frame{fence: from.Fence, number: from.Number, end: int64(from.Mark)}
	for {
		next, err := readFrame(file, last.end)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errTorn) {
			if err := file.Truncate(last.end); err != nil {
				return store.Position{}, err
			}
			break
		}
		if err != nil {
			return store.Position{}, err
		}
		last = next
	}
	next, err := f(last)
	if err != nil {
		return last.position(), err
	}
	if next == nil {
		return last.position(), nil
	}
	b := next.bytes()
	if _, err := file.WriteAt(b, last.end); err != nil {
		return store.Position{}, errors.Join(err, file.Truncate(last.end))
	}
	next.end = last.end + int64(len(b))
	return next.position(), nil
}

func (f *frame) position() store.Position {
	return store.Position{Number: f.number, Fence: f.fence, Mark: uint64(f.end)}
}

// Create implements Store. Append always knows what has become of an event.
func (d *Folder) Create(context.Context, string) (store.Position, error) {
	return store.Position{}, nil
}

// Append implements Store.
func (d *Folder) Append(ctx context.Context, log string, e store.Entry) (store.Position, error) {
	if err := e.Check(); err != nil {
		return store.Position{}, err
	}
	at, err := d.writeLog(ctx, log, e.After, e.After.Number == 0, func(last frame) (*frame, error) {
		switch {
		case last.fence > e.Fence:
			return nil, &store.FencedError{Log: log, Number: last.fence}
		case last.number != e.After.Number:
			return nil, &store.ConflictError{What: "log " + log, Last: last.position()}
		}
		return &frame{fence: e.Fence, number: last.number + 1, data: e.Data}, nil
	})
	switch {
	case errors.Is(err, fs.ErrNotExist): // the run has ended
		err = &store.FencedError{Log: log}
	case err == nil && at.Number == 1:
		err = d.sync()
	}
	return at, err
}

// sync makes new files survive a crash of the machine.
func (d *Folder) sync() error {
	root, err := regular.OpenRoot(d.dir)
	if err != nil {
		return err
	}
	return errors.Join(regular.SyncFolder(root, "."), root.Close())
}

// Flush implements Store.
func (d *Folder) Flush(_ context.Context, log string) error {
	file, err := regular.OpenFile(d.logPath(log), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Fence implements Store.
func (d *Folder) Fence(ctx context.Context, log string, number uint64) (store.Position, error) {
	at, err := d.writeLog(ctx, log, store.Position{}, false, func(last frame) (*frame, error) {
		switch {
		case last.fence > number:
			return nil, &store.FencedError{Log: log, Number: last.fence}
		case last.fence == number:
			return nil, nil
		}
		return &frame{fence: number, number: last.number + 1}, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("run %s: %w", log, ErrNotFound)
	}
	if err == nil {
		err = d.Flush(ctx, log)
	}
	return at, err
}

// LastEvent implements Store.
func (d *Folder) LastEvent(store.Position) uint64 { return 0 }

// Read implements Store.
func (d *Folder) Read(ctx context.Context, log string, after store.Position) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		if err := store.CheckLog(log); err != nil {
			yield(store.Event{}, err)
			return
		}
		file, err := regular.Open(d.logPath(log))
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			yield(store.Event{}, err)
			return
		}
		defer file.Close()
		for at := int64(after.Mark); ; {
			f, err := readFrame(file, at)
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, errTorn): // it is being written, or never was
				return
			case err == nil && ctx.Err() != nil:
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(store.Event{}, err)
				return
			}
			if at = f.end; len(f.data) == 0 {
				continue
			}
			if !yield(store.Event{Position: f.position(), Data: f.data}, nil) {
				return
			}
		}
	}
}

// Leases implements Store.
func (d *Folder) Leases(ctx context.Context) iter.Seq2[store.Document, error] {
	return func(yield func(store.Document, error) bool) {
		entries, err := os.ReadDir(d.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			yield(store.Document{}, err)
			return
		}
		for _, e := range entries {
			log, ok := strings.CutSuffix(e.Name(), logSuffix)
			if !ok || !e.Type().IsRegular() || store.CheckLog(log) != nil {
				continue
			}
			key := store.Key{Collection: leases, Name: log}
			doc, err := d.Get(ctx, key)
			if err != nil { // whoever needs it gets the error
				doc = store.Document{Key: key}
			}
			if !yield(doc, nil) {
				return
			}
		}
	}
}

// Whole implements Store. Nothing is removed from a folder to make room.
func (d *Folder) Whole(context.Context, string) error { return nil }

// Drop implements Store.
func (d *Folder) Drop(ctx context.Context, log string) error {
	unlock, err := d.lock(ctx, log+lockSuffix)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.Remove(d.logPath(log)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.dir, leases, log)); errors.Is(err, fs.ErrNotExist) { // nothing is left of the run
		_ = os.Remove(filepath.Join(d.dir, log+lockSuffix)) // otherwise a sweep does it
	}
	return nil
}

func (d *Folder) path(key store.Key) (string, error) {
	if err := key.Check(); err != nil {
		return "", err
	}
	if store.CheckLog(key.Name) != nil {
		return "", &store.NameError{What: "document", Name: key.Name, Reason: "is not that of a run"}
	}
	return filepath.Join(d.dir, key.Collection, key.Name), nil
}

const maxDocument = 64 << 10

func versionOf(data []byte) store.Version {
	sum := sha256.Sum256(data)
	return store.Version(hex.EncodeToString(sum[:]))
}

// Get implements Store.
func (d *Folder) Get(ctx context.Context, key store.Key) (store.Document, error) {
	path, err := d.path(key)
	if err != nil {
		return store.Document{}, err
	}
	data, err := regular.Read(ctx, path, maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return store.Document{}, fmt.Errorf("%s: %w", key, store.ErrNotFound)
	}
	if err != nil {
		return store.Document{}, err
	}
	return store.Document{Key: key, Version: versionOf(data), Data: data}, nil
}

// change calls f under the lock of a run if its document has that version.
func (d *Folder) change(ctx context.Context, key store.Key, old store.Version, f func(path string) error) error {
	path, err := d.path(key)
	if err != nil {
		return err
	}
	unlock, err := d.lock(ctx, key.Name+lockSuffix)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := d.Get(ctx, key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if is := now.Version; is != old {
		return &store.ConflictError{What: key.String()}
	}
	return f(path)
}

// Put implements Store.
func (d *Folder) Put(ctx context.Context, key store.Key, old store.Version, data []byte) (store.Version, error) {
	err := d.change(ctx, key, old, func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return regular.Write(path, data, 0o600)
	})
	if err != nil {
		return "", err
	}
	return versionOf(data), nil
}

// Remove implements Store.
func (d *Folder) Remove(ctx context.Context, key store.Key, old store.Version) error {
	return d.change(ctx, key, old, func(path string) error { return os.Remove(path) })
}

func (d *Folder) logPath(log string) string { return filepath.Join(d.dir, log+logSuffix) }

var _ Store = (*Folder)(nil)
