package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// codeRegion is a range of addresses with native code that wazero has made or loaded.
type codeRegion struct{ from, to uintptr }

// codeRegions returns the regions of this process; none if the system does not tell.
func codeRegions() map[codeRegion]bool {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	regions := map[codeRegion]bool{}
	for line := range strings.Lines(string(text)) {
		var r codeRegion
		var permissions, offset, device, inode string
		n, _ := fmt.Sscanf(line, "%x-%x %s %s %s %s", &r.from, &r.to, &permissions, &offset, &device, &inode)
		if n == 6 && permissions == "r-xp" && inode == "0" && !strings.Contains(line, "[") {
			regions[r] = true
		}
	}
	return regions
}

func (r codeRegion) size() uintptr { return r.to - r.from }

// largestNew returns the largest range of addresses that is in a region of now and in
// none of before. The system shows regions that touch each other as one, so a region that
// is new can contain an old one, which is not ours.
func largestNew(before, now map[codeRegion]bool) (largest codeRegion) {
	old := slices.SortedFunc(maps.Keys(before), func(a, b codeRegion) int { return cmp.Compare(a.from, b.from) })
	for r := range now {
		for _, o := range old {
			if o.to <= r.from || o.from >= r.to {
				continue
			}
			if part := (codeRegion{r.from, o.from}); o.from > r.from && part.size() > largest.size() {
				largest = part
			}
			r.from = min(o.to, r.to)
		}
		if r.size() > largest.size() {
			largest = r
		}
	}
	return largest
}

// bytes returns the code. It must not be changed.
func (r codeRegion) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), r.from)), int(r.to-r.from))
}

// minMapped is the size, in bytes, of the smallest region that is worth a file.
const minMapped = 1 << 20

// mapCode replaces the largest region that was not there before by a private mapping
// of a file with the same bytes. The caller makes sure that nobody else in the process
// has loaded code in between. Then the system keeps in memory what is executed of
// the code, and shares that between processes. The file is made if there is none, or
// if it differs. If anything fails, the code stays where it is.
func (c *compileCache) mapCode(ctx context.Context, before map[codeRegion]bool) error {
	largest := largestNew(before, codeRegions())
	if largest.size() < minMapped {
		return nil
	}
	f, err := c.codeFile(ctx, largest.bytes())
	if err != nil {
		return fmt.Errorf("a file for its native code: %w", err)
	}
	defer f.Close()
	if err := checkLocal(f); err != nil {
		return err
	}
	// A run that executes this code now waits until the new mapping is there.
	_, err = unix.MmapPtr(int(f.Fd()), 0, unsafe.Pointer(unsafe.SliceData(largest.bytes())), largest.to-largest.from,
		unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("mapping its native code: %w", err)
	}
	return nil
}

// localFileSystems are types of file systems, from statfs(2), on which an open file
// keeps its content when it is removed. On others, such as NFS, another machine can
// remove it, and executing the code would end the process.
var localFileSystems = map[int64]bool{
	unix.BTRFS_SUPER_MAGIC: true, unix.EXT4_SUPER_MAGIC: true, unix.F2FS_SUPER_MAGIC: true,
	unix.OVERLAYFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true, unix.XFS_SUPER_MAGIC: true,
}

func checkLocal(f *os.File) error {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	if !localFileSystems[int64(s.Type)] {
		return fmt.Errorf("%s: native code is not mapped from a file system of type %#x, which may not be local", f.Name(), s.Type)
	}
	return nil
}

// codeFile opens the file with code, and writes it first if that is needed.
func (c *compileCache) codeFile(ctx context.Context, code []byte) (*os.File, error) {
	path := filepath.Join(c.dir, codeName)
	if f, err := openCode(ctx, path, code); err == nil {
		return f, nil
	}
	if err := writeCode(ctx, path, code); err != nil {
		return nil, err
	}
	return openCode(ctx, path, code)
}

// codePart is how much of the code is written or compared at a time, in bytes.
const codePart = 256 << 10

// writeCode writes the file with code. It is not synced: the next start compares it.
func writeCode(ctx context.Context, path string, code []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), regular.TempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove(f.Name()))
		}
	}()
	for part := range slices.Chunk(code, codePart) {
		if err = ctx.Err(); err == nil {
			_, err = f.Write(part)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

var errOtherCode = errors.New("it has other content")

// openCode opens a file and compares it with code, byte by byte.
func openCode(ctx context.Context, path string, code []byte) (_ *os.File, err error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if info, err := f.Stat(); err != nil || info.Size() != int64(len(code)) {
		return nil, errors.Join(errOtherCode, err)
	}
	buffer := make([]byte, codePart)
	for part := range slices.Chunk(code, codePart) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		same := buffer[:len(part)]
		if _, err := io.ReadFull(f, same); err != nil {
			return nil, err
		}
		if !bytes.Equal(same, part) {
			return nil, errOtherCode
		}
	}
	return f, nil
}

// trim lets go of the pages of the image that were only read to make it.
func (i *cowImage) trim() { _ = unix.Madvise(i.source, unix.MADV_DONTNEED) }
