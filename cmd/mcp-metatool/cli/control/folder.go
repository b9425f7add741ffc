package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// Folder is the open folder run/ of a store. Files in the folder are accessed only through the open
// folder and only if the files are sockets of ours. So an attacker who can write to the store
// cannot make us follow a link, or remove or change files elsewhere.
type Folder struct {
	Path string
	root *os.Root
	dir  *os.File // the same folder, for addresses of sockets
}

const (
	FolderName    = "run"
	socketSuffix  = ".sock"
	lockName      = "lock" // held while a socket is added or removed
	maxSocketPath = 100    // bytes; the smallest limit of a system is 103
)

// OpenFolder opens run/ of the store in dir. With create, OpenFolder makes missing folders;
// otherwise the error for a missing folder is fs.ErrNotExist. The caller closes the Folder.
func OpenFolder(dir string, create bool) (*Folder, error) {
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	store, err := regular.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if create {
		if err := store.Mkdir(FolderName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	d := &Folder{Path: filepath.Join(dir, FolderName)}
	if err := d.open(store); err != nil {
		d.Close()
		return nil, err
	}
	if create {
		if err := d.dir.Chmod(0o700); err != nil && runtime.GOOS != "windows" { // Windows has no modes of folders
			d.Close()
			return nil, err
		}
	}
	return d, nil
}

// open opens a folder of ours, and refuses a link.
func (d *Folder) open(store *os.Root) error {
	info, err := store.Lstat(FolderName)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory (remove it)", d.Path)
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to another user (remove it, or give the store another directory: store.dir)", d.Path)
	}
	if d.root, err = store.OpenRoot(FolderName); err != nil {
		return err
	}
	if d.dir, err = d.root.Open("."); err != nil {
		return err
	}
	opened, err := d.dir.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%s has been replaced while it was opened (try again)", d.Path)
	}
	return err
}

func (d *Folder) Close() {
	if d.root != nil {
		d.root.Close()
	}
	if d.dir != nil {
		d.dir.Close()
	}
}

// Sockets returns the names of our sockets in the folder.
func (d *Folder) Sockets() []string {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), socketSuffix) && d.isSocket(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names
}

func (d *Folder) isSocket(name string) bool {
	info, err := d.root.Lstat(name)
	if err != nil || !ours(info) {
		return false
	}
	// On Windows a socket is an irregular file.
	return info.Mode()&fs.ModeSocket != 0 || runtime.GOOS == "windows" && !info.Mode().IsRegular() && !info.IsDir()
}

func (d *Folder) exists(name string) bool {
	_, err := d.root.Lstat(name)
	return err == nil
}

// address returns the address of a socket in the folder, short enough for the system.
func (d *Folder) address(name string) (string, error) {
	path := filepath.Join(d.Path, name)
	if len(path) <= maxSocketPath {
		return path, nil
	}
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", d.dir.Fd(), name), nil
	}
	return "", fmt.Errorf("the path of %s is too long for a socket (give the store a shorter one: store.dir)", path)
}

func (d *Folder) listen(name string) (net.Listener, error) {
	address, err := d.address(name)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // remove does so, through the open folder
	return ln, nil
}

func (d *Folder) dial(name string) (net.Conn, error) {
	address, err := d.address(name)
	if err != nil {
		return nil, err
	}
	return net.DialTimeout("unix", address, timeout)
}

// remove removes a socket of ours.
func (d *Folder) remove(name string) {
	if d.isSocket(name) {
		_ = d.root.Remove(name) // after a failure, the next sweep removes the socket
	}
}

// Sweep removes the sockets of killed servers. The caller holds the lock, so no socket is being
// created.
func (d *Folder) Sweep() {
	for _, name := range d.Sockets() {
		conn, err := d.dial(name)
		if err == nil {
			conn.Close()
		} else if Ended(err) {
			d.remove(name)
		}
	}
}

// Ended reports whether the error of a dial means that the server has ended.
func Ended(err error) bool {
	const wsaRefused = syscall.Errno(10061) // the value on Windows differs from the value in package syscall
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused) || errors.Is(err, fs.ErrNotExist)
}
