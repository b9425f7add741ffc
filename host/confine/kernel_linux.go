package confine

import (
	"fmt"
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mcp-metatool/mcp-metatool/host/confine/subreaper"
)

// kernel is the set of features of this machine for confining servers.
type kernel struct {
	abi     int    // of Landlock; 0: no Landlock
	reason  string // the reason for the lack of Landlock
	filters bool   // filters for system calls
	release string
	root    bool // we are root, to whom RLIMIT_NPROC does not apply
	groups  bool // a control group can limit processes
}

// Restrictions by version of Landlock (landlock(7), and Documentation/userspace-api/landlock.rst in
// the kernel).
const (
	abiFiles    = 1 // Linux 5.13
	abiRefer    = 2 // Linux 5.19: moving files between folders
	abiTruncate = 3 // Linux 6.2
	abiPorts    = 4 // Linux 6.7
	abiIoctl    = 5 // Linux 6.10: devices
	abiScopes   = 6 // Linux 6.12: signals, abstract sockets
)

// thisKernel determines the features of this machine.
var thisKernel = sync.OnceValue(func() kernel {
	k := kernel{root: os.Geteuid() == 0}
	_, k.groups = subreaper.Controls()
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		k.release = unix.ByteSliceToString(name.Release[:])
	}
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	switch errno {
	case 0:
		k.abi = int(abi)
	case unix.EOPNOTSUPP:
		k.reason = "Landlock is switched off (the kernel's parameter lsm= lacks it)"
	default:
		k.reason = "the kernel has no Landlock"
	}
	if arch != 0 {
		_, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
		k.filters = err == nil
	}
	return k
})

// level describes the kernel.
func (k kernel) level() string {
	text := "Linux " + k.release
	switch {
	case k.abi == 0:
		text += ", where " + k.reason
	default:
		text += fmt.Sprintf(" with Landlock ABI %d", k.abi)
	}
	if !k.filters {
		text += ", without filters for system calls on " + runtime.GOARCH
	}
	return text
}

// lacks returns the unenforceable settings.
func (k kernel) lacks(s *Settings) []string {
	var lacks []string
	needs := func(abi int, right, version string) {
		if k.abi < abi {
			lacks = append(lacks, fmt.Sprintf("%s needs Landlock ABI %d (Linux %s)", right, abi, version))
		}
	}
	if k.abi < abiFiles {
		needs(abiFiles, "restricting files", "5.13")
	} else {
		needs(abiTruncate, "keeping the server from emptying files that it may not write", "6.2")
	}
	if s.NetworkOrNone() == NetworkPorts {
		needs(abiPorts, "restricting TCP ports", "6.7")
	}
	needs(abiScopes, "keeping the server from signalling other processes", "6.12")
	if !k.filters {
		lacks = append(lacks, "refusing system calls, and with them the network, needs seccomp and a processor of the type amd64 or arm64")
	}
	if s.Processes > 0 && k.root && !k.groups {
		lacks = append(lacks, "limiting the processes of root needs a control group (cgroup v2, delegated to us, with the controller pids)")
	}
	return lacks
}

// Level describes the features of this machine, for example "Linux 6.12 with Landlock ABI 6".
func Level() string { return thisKernel().level() }

// Lacks returns the settings that this machine cannot enforce, or nil.
func Lacks(s *Settings) []string { return thisKernel().lacks(s) }
