package regular

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// chunk is the number of bytes read between two checks of the context.
const chunk = 1 << 20

// Read reads a regular file of at most limit bytes, even if the file grows during the read.
// Symbolic links are followed. Errors are from the file system, [ErrNotRegular], a [*SizeError],
// each in a [*fs.PathError], or the cause of ctx.
func Read(ctx context.Context, name string, limit int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	return readFile(ctx, f, limit)
}

// ReadIn is [Read] for a file below a folder. Links cannot lead out of the folder.
func ReadIn(ctx context.Context, root *os.Root, name string, limit int64) ([]byte, error) {
	f, err := OpenIn(root, name)
	if err != nil {
		return nil, err
	}
	return readFile(ctx, f, limit)
}

// readFile reads a file from Open, and closes the file.
func readFile(ctx context.Context, f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tooLarge := &fs.PathError{Op: "read", Path: f.Name(), Err: &SizeError{limit}}
	if info.Size() > limit {
		return nil, tooLarge
	}
	data, err := readAll(ctx, f, limit, info.Size())
	if sized := new(SizeError); errors.As(err, &sized) {
		return nil, tooLarge
	}
	return data, err
}

// ReadAll reads a stream of at most limit bytes; the error for a longer stream is a [*SizeError].
// ctx does not interrupt a blocked r; only closing r does.
func ReadAll(ctx context.Context, r io.Reader, limit int64) ([]byte, error) {
	return readAll(ctx, r, limit, 0)
}

// readAll reads at most limit bytes from r; expected is a guess at their number.
func readAll(ctx context.Context, r io.Reader, limit, expected int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(expected, limit)) + bytes.MinRead)
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		more := int64(chunk)
		if left := limit - int64(b.Len()); left < more {
			more = left + 1 // another byte, to detect a longer stream
		}
		n, err := b.ReadFrom(io.LimitReader(r, more))
		switch {
		case err != nil:
			return nil, err
		case int64(b.Len()) > limit:
			return nil, &SizeError{limit}
		case n == 0:
			return b.Bytes(), nil
		}
	}
}

func size(n int64) string { return units.FormatSize(uint64(n)) }
