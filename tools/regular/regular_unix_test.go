//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// TestSpecialFilesAreRefused opens everything that is not a regular file. Each would wait for another
// process, or have no end.
func TestSpecialFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // names of sockets must be short
	if err := errors.Join(syscall.Mkfifo("fifo", 0o600), os.Mkdir("folder", 0o700),
		os.Symlink("fifo", "link"), os.Symlink("/dev/zero", "zero")); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for name, kind := range map[string]string{
		"fifo": "a named pipe", "link": "a named pipe", "folder": "a directory", "socket": "a socket",
		"zero": "a device", "/dev/tty": "a device",
	} {
		_, err := regular.Read(t.Context(), name, 1<<20)
		if !errors.Is(err, regular.ErrNotRegular) && !(name == "/dev/tty" && errors.Is(err, fs.ErrNotExist)) {
			t.Errorf("%s: error %v", name, err)
		} else if !strings.Contains(err.Error(), kind) {
			t.Errorf("%s: %v does not say %q", name, err, kind)
		}
		if filepath.IsAbs(name) || name == "zero" { // os.Root does not lead outside
			continue
		}
		if _, err := regular.ReadIn(t.Context(), root, name, 1<<20); !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("%s below a folder: error %v", name, err)
		}
		for _, flag := range []int{os.O_WRONLY | os.O_APPEND | os.O_CREATE, os.O_RDWR} {
			if _, err := regular.OpenFile(name, flag, 0o600); !errors.Is(err, regular.ErrNotRegular) {
				t.Errorf("%s with flags %#x: error %v", name, flag, err)
			}
		}
	}
}

// TestFileReplacedByPipe replaces a file by a named pipe and back all the time, and
// checks that opening does not wait and a pipe is never read.
func TestFileReplacedByPipe(t *testing.T) {
	dir := t.TempDir()
	file, pipe, name := filepath.Join(dir, "file"), filepath.Join(dir, "pipe"), filepath.Join(dir, "name")
	if err := errors.Join(os.WriteFile(file, []byte("content"), 0o600), syscall.Mkfifo(pipe, 0o600), os.Link(file, name)); err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			temp := filepath.Join(dir, "temp")
			if err := errors.Join(os.Link([]string{file, pipe}[i%2], temp), os.Rename(temp, name)); err != nil {
				done <- err
				return
			}
			os.Remove(temp) // rename leaves two links to one file as they are
		}
	}()
	for range 2000 {
		data, err := regular.Read(t.Context(), name, 100)
		if err == nil && string(data) != "content" || err != nil && !errors.Is(err, regular.ErrNotRegular) {
			t.Errorf("%q, %v", data, err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
