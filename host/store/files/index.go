package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// The kinds of records.
const (
	kindEvent = 1
	kindFence = 2 // there is no line: the log has a later owner
)

// recordSize is the size of a record in bytes:
//
//	0   version, which is 1, the kind, and six bytes that are 0
//	8   number of the event, or of the one before
//	16  fencing number
//	24  id of the event (16 bytes)
//	40  offset of the line in its file
//	48  size of the line, with its newline
//	56  the first 16 bytes of the SHA-256 of the line
//	72  name of the file, filled with zeros (48 bytes)
//	120 CRC-32 (IEEE) of all before, and four bytes that are 0
//
// Numbers are in big-endian order.
const (
	recordSize    = 128
	recordVersion = 1
	fileNameSize  = 48
)

// record is an event in the index of a log, or what fences the log.
type record struct {
	kind          byte
	number, fence uint64
	id            store.ID
	place         journal.Place
	size          int
	digest        [16]byte
}

func (r *record) position() store.Position { return store.Position{Number: r.number, Fence: r.fence} }

func (r *record) encode() []byte {
	b := make([]byte, recordSize)
	b[0], b[1] = recordVersion, r.kind
	binary.BigEndian.PutUint64(b[8:], r.number)
	binary.BigEndian.PutUint64(b[16:], r.fence)
	copy(b[24:40], r.id[:])
	binary.BigEndian.PutUint64(b[40:], uint64(r.place.Offset))
	binary.BigEndian.PutUint64(b[48:], uint64(r.size))
	copy(b[56:72], r.digest[:])
	copy(b[72:72+fileNameSize], r.place.File)
	binary.BigEndian.PutUint32(b[120:], crc32.ChecksumIEEE(b[:120]))
	return b
}

// decode reads a record; ok is false if it is not whole.
func decode(b []byte) (r record, ok bool) {
	if len(b) < recordSize || b[0] != recordVersion || binary.BigEndian.Uint32(b[120:]) != crc32.ChecksumIEEE(b[:120]) {
		return r, false
	}
	r = record{
		kind: b[1], number: binary.BigEndian.Uint64(b[8:]), fence: binary.BigEndian.Uint64(b[16:]),
		size: int(binary.BigEndian.Uint64(b[48:])),
		place: journal.Place{
			File:   string(bytes.TrimRight(b[72:72+fileNameSize], "\x00")),
			Offset: int64(binary.BigEndian.Uint64(b[40:])),
		},
	}
	copy(r.id[:], b[24:40])
	copy(r.digest[:], b[56:72])
	return r, true
}

func digestOf(line []byte) (d [16]byte) {
	sum := sha256.Sum256(line)
	copy(d[:], sum[:])
	return d
}

func (s *Store) indexPath(log string) string { return filepath.Join(s.positions(), log) }

// line reads the line of a record. The error is errVoid if it is not there, or not whole, or
// another one, and store.ErrGone if its file is not there any more.
func (s *Store) line(r *record) ([]byte, error) {
	if r.size <= 0 || r.size > maxLine {
		return nil, errVoid
	}
	line, err := journal.ReadLine(s.opts.Journal.Dir(), r.place, r.size)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, store.ErrGone
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errVoid
	case err != nil:
		return nil, err
	case digestOf(line) != r.digest:
		return nil, errVoid
	}
	return line, nil
}

// errVoid says that the line of a record was not written.
var errVoid = errors.New("the line is not what the index says")

// index is the open index of a log.
type index struct {
	file *os.File
	n    int64  // of the records that count
	end  record // the last of them; the zero value if there is none
}

// openIndex opens the index of a log and finds the last record that counts. Without create, it
// returns nil if there is no index.
func (s *Store) openIndex(log string, create bool) (*index, error) {
	flags := os.O_RDONLY
	if create {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := regular.OpenFile(s.indexPath(log), flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	x := &index{file: f}
	if err := s.findEnd(log, x); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return x, nil
}

// findEnd finds the last record that counts: the last one, or the one before, if the process
// that has written the last one has not come to write its line.
func (s *Store) findEnd(log string, x *index) error {
	info, err := x.file.Stat()
	if err != nil {
		return err
	}
	x.n = (info.Size() + recordSize - 1) / recordSize
	for tries := 0; x.n > 0; tries++ {
		r, ok, err := x.read(x.n - 1)
		if err != nil {
			return err
		}
		if ok {
			err := s.counts(log, &r)
			if err == nil {
				x.end = r
				return nil
			}
			if !errors.Is(err, errVoid) {
				return err
			}
		}
		if tries > 0 {
			return &store.CorruptError{What: "log " + log, Reason: fmt.Sprintf("record %d of its index is damaged", x.n)}
		}
		x.n--
	}
	return nil
}

// counts returns errVoid if the line of a record was not written.
func (s *Store) counts(log string, r *record) error {
	if r.kind == kindFence {
		return nil
	}
	s.mu.Lock()
	known := s.verified[log] == *r
	s.mu.Unlock()
	if known {
		return nil
	}
	_, err := s.line(r)
	if errors.Is(err, store.ErrGone) { // old files are removed, and were whole
		err = nil
	}
	if err == nil {
		s.remember(log, r)
	}
	return err
}

// maxVerified is how many logs a Store remembers the last record of.
const maxVerified = 4096

// remember notes that the last record of a log counts.
func (s *Store) remember(log string, r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.verified) >= maxVerified {
		clear(s.verified)
	}
	s.verified[log] = *r
}

// read reads a record by its index from 0; ok is false if it is not whole.
func (x *index) read(i int64) (r record, ok bool, err error) {
	var b [recordSize]byte
	if _, err := x.file.ReadAt(b[:], i*recordSize); err != nil && !errors.Is(err, io.EOF) {
		return r, false, err
	}
	r, ok = decode(b[:])
	return r, ok, nil
}

// add writes a record behind those that count.
func (x *index) add(r *record, sync bool) error {
	if _, err := x.file.WriteAt(r.encode(), x.n*recordSize); err != nil {
		return err
	}
	if sync {
		return x.file.Sync()
	}
	return nil
}

// behind returns the index of the first record behind an event. Numbers never get smaller.
func (x *index) behind(number uint64) (int64, error) {
	low, high := int64(0), x.n
	for low < high {
		middle := (low + high) / 2
		r, ok, err := x.read(middle)
		if err != nil {
			return 0, err
		}
		if ok && r.number <= number {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// event returns the record of the event with a number from 1; ok is false if there is none.
// Fences have the number of the event before them, so that the first record with a number is
// that of the event.
func (x *index) event(number uint64) (r record, ok bool, err error) {
	if number == 0 {
		return r, false, nil
	}
	i, err := x.behind(number - 1)
	if err != nil || i == x.n {
		return r, false, err
	}
	r, ok, err = x.read(i)
	return r, ok && r.kind == kindEvent && r.number == number, err
}
