package confine

import (
	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
)

// Rights to files. LANDLOCK_ACCESS_FS_MAKE_CHAR and MAKE_BLOCK are never granted.
const (
	accessRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	accessExecute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	accessWrite   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO |
		unix.LANDLOCK_ACCESS_FS_REFER

	accessABI1 = 1<<13 - 1 // up to MAKE_SYM
)

// handledFiles returns the rights to files known to a version of Landlock.
func handledFiles(abi int) uint64 {
	if abi < abiFiles {
		return 0
	}
	handled := uint64(accessABI1)
	if abi >= abiRefer {
		handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiIoctl {
		handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return handled
}

// access returns Landlock's rights to a path for r.
func (r right) access(s *Settings) uint64 {
	access := uint64(0)
	if r&(read|write) != 0 {
		access |= accessRead
	}
	if r&execute != 0 {
		access |= accessRead | accessExecute
	}
	if r&write != 0 {
		access |= accessWrite
		if s.Unix {
			access |= unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
		}
	}
	return access
}

// rules sets the part of the profile for Landlock.
func (s *Settings) rules(p *restrict.Profile, k kernel, grants []grant) {
	p.HandledFiles = handledFiles(k.abi)
	if p.HandledFiles != 0 {
		for _, g := range grants {
			if access := g.right.access(s) & p.HandledFiles; access != 0 {
				p.Files = append(p.Files, restrict.File{Path: g.path, Access: access})
			}
		}
	}
	if k.abi >= abiPorts && s.NetworkOrNone() != NetworkAll {
		p.HandledPorts = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		if s.Network == NetworkPorts {
			for _, port := range s.Ports {
				p.Ports = append(p.Ports, restrict.Port{Number: port, Access: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP})
			}
			for _, port := range s.Listen {
				p.Ports = append(p.Ports, restrict.Port{Number: port, Access: unix.LANDLOCK_ACCESS_NET_BIND_TCP})
			}
		}
	}
	if k.abi >= abiScopes {
		p.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
}
