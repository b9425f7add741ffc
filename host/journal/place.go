package journal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Place is where a line is in a journal.
type Place struct {
	File   string // name of the file
	Offset int64  // of the line, in bytes
}

// refusedError is the error with which a caller refused a write.
type refusedError struct{ error }

// AppendLine writes a line, an event that ends with a newline, for callers with an index of their
// events. before is called with the line's place before the write, and must not use the Log. If
// before returns an error, AppendLine returns the error and writes nothing. written is true if the
// line is in the file and merely could not be synced to disk.
func (l *Log) AppendLine(line []byte, before func(Place) error) (written bool, err error) {
	end, err := l.writeAt(line, nil, before)
	if err != nil {
		return false, err
	}
	if l.options().Sync == SyncAlways {
		err = l.flush(end)
	}
	return true, err
}

// ReadLine reads a line with the given size in bytes, including the newline, of the journal in a
// directory. The error is fs.ErrNotExist if the file was removed, and io.EOF or io.ErrUnexpectedEOF
// if the file is shorter.
func ReadLine(dir string, at Place, size int) ([]byte, error) {
	if _, ok := parseName(at.File); !ok {
		return nil, fmt.Errorf("%q is no file of a journal", at.File)
	}
	f, err := regular.Open(filepath.Join(dir, at.File))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case at.Offset < 0 || size < 0 || at.Offset+int64(size) > info.Size():
		return nil, io.ErrUnexpectedEOF
	}
	line := make([]byte, size)
	_, err = f.ReadAt(line, at.Offset)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return line, err
}

// Syncs reports whether lines are synced to disk one by one.
func (l *Log) Syncs() bool { return l.options().Sync == SyncAlways }
