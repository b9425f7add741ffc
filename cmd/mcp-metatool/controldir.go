package main

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

// runDir is the open folder run/ of a store. Everything in it is reached through
// the open folder and only if it is a socket of ours: who may write to the store
// cannot have us follow a link, or remove or change what is elsewhere.
type runDir struct {
	path string
	root *os.Root
	dir  *os.File // the same folder, for addresses of sockets
}

const (
	controlDir    = "run"
	socketSuffix  = ".sock"
	controlLock   = "lock" // held by whoever adds or removes a socket
	maxSocketPath = 100    // bytes; the least that a system takes is 103
)

// openRunDir opens run/ of the store in dir. It makes both where that is wanted;
// else the error for what is not there is fs.ErrNotExist. The caller closes it.
func openRunDir(dir string, create bool) (*runDir, error) {
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
		if err := store.Mkdir(controlDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	d := &runDir{path: filepath.Join(dir, controlDir)}
	if err := d.open(store); err != nil {
		d.close()
		return nil, err
	}
	if create {
		if err := d.dir.Chmod(0o700); err != nil && runtime.GOOS != "windows" { // which has no modes of folders
			d.close()
			return nil, err
		}
	}
	return d, nil
}

// open opens the folder if it is one of ours and no link.
func (d *runDir) open(store *os.Root) error {
	info, err := store.Lstat(controlDir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory (remove it)", d.path)
	}
	if !ours(info) {
		return fmt.Errorf("%s belongs to another user (remove it, or give the store another directory: store.dir)", d.path)
	}
	if d.root, err = store.OpenRoot(controlDir); err != nil {
		return err
	}
	if d.dir, err = d.root.Open("."); err != nil {
		return err
	}
	opened, err := d.dir.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = fmt.Errorf("%s has been replaced while it was opened (try again)", d.path)
	}
	return err
}

func (d *runDir) close() {
	if d.root != nil {
		d.root.Close()
	}
	if d.dir != nil {
		d.dir.Close()
	}
}

// sockets are the names of the sockets of ours in it.
func (d *runDir) sockets() []string {
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

func (d *runDir) isSocket(name string) bool {
	info, err := d.root.Lstat(name)
	if err != nil || !ours(info) {
		return false
	}
	// Windows has sockets as files that are neither regular nor anything else.
	return info.Mode()&fs.ModeSocket != 0 || runtime.GOOS == "windows" && !info.Mode().IsRegular() && !info.IsDir()
}

func (d *runDir) exists(name string) bool {
	_, err := d.root.Lstat(name)
	return err == nil
}

// address is that of a socket in it, short enough for the system.
func (d *runDir) address(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if len(path) <= maxSocketPath {
		return path, nil
	}
	if runtime.GOOS == "linux" {
		return fmt.Sprintf("/proc/self/fd/%d/%s", d.dir.Fd(), name), nil
	}
	return "", fmt.Errorf("the path of %s is too long for a socket (give the store a shorter one: store.dir)", path)
}

func (d *runDir) listen(name string) (net.Listener, error) {
	address, err := d.address(name)
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", address)
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false) // remove does, through the folder
	return ln, nil
}

func (d *runDir) dial(name string) (net.Conn, error) {
	address, err := d.address(name)
	if err != nil {
		return nil, err
	}
	return net.DialTimeout("unix", address, controlPatient)
}

// remove removes a socket of ours.
func (d *runDir) remove(name string) {
	if d.isSocket(name) {
		_ = d.root.Remove(name) // else the next one that sweeps does
	}
}

// sweep removes what servers left behind that were killed. The caller has the
// lock, so that none of the sockets is just being made.
func (d *runDir) sweep() {
	for _, name := range d.sockets() {
		conn, err := d.dial(name)
		if err == nil {
			conn.Close()
		} else if nobodyThere(err) {
			d.remove(name)
		}
	}
}

// nobodyThere tells whether the error of a dial means that the server has
// ended.
func nobodyThere(err error) bool {
	const wsaRefused = syscall.Errno(10061) // Windows has another number than package syscall
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaRefused) || errors.Is(err, fs.ErrNotExist)
}
