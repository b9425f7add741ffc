// Package confine says what a confined stdio server may do, and makes of it a profile that
// the kernel enforces. It works on Linux only, without root and without any helper
// program:
//
//	confine.go            Settings: what the configuration says
//	presets.go            presets, and the files that every program needs
//	prepare_linux.go      Prepare: Settings -> Plan, for one start
//	files_linux.go        which files: symbolic links, and files of ours
//	landlock_linux.go     rights of Landlock
//	filter_linux.go       the filter for system calls
//	filterfiles_linux.go  what it says about files
//	syscalls_*.go         which system calls are refused
//	kernel_linux.go       Kernel: what this machine can enforce
//	other.go              other systems, which can enforce nothing
//
// Package restrict (below this one) applies a profile, in a process of its own that then
// becomes the server.
package confine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Settings is the table [upstream.NAME.sandbox] of the configuration.
type Settings struct {
	// Presets are names of presets, which add up.
	Presets []Preset
	// Read, Write and Exec are absolute paths of files and folders that the server may read,
	// write (and read), or execute (and read). A folder includes everything below it.
	Read, Write, Exec []string

	Network Network
	// Ports are the TCP ports that the server may connect to; for NetworkPorts.
	Ports []uint16
	// Listen are the TCP ports on which it may listen; for NetworkPorts.
	Listen []uint16
	// UDP allows datagrams, to any address and port; for NetworkPorts.
	UDP bool
	// Unix allows sockets in the file system, of any program. The kernel cannot restrict
	// which.
	Unix bool

	// Memory is in bytes; 0: no limit. Where we have no control group, it is the limit of
	// each process's private memory.
	Memory uint64
	// CPUTime is what each process may compute; 0: no limit. Whole seconds.
	CPUTime time.Duration
	// Processes is how many processes and threads the server may have; 0: no limit.
	Processes int
	// OpenFiles is how many files each process may have open; 0: no limit of ours.
	OpenFiles int

	// AllowSyscalls are names of system calls that are allowed although they are refused by
	// default, DenySyscalls further ones that are refused.
	AllowSyscalls, DenySyscalls []string

	// Trace is a folder in which package trace writes what the server does; "": it is not
	// traced. Learn leaves the server unconfined meanwhile. Both are no settings of the
	// configuration.
	Trace string
	Learn bool

	// BestEffort starts the server even if the kernel cannot enforce everything.
	BestEffort bool
}

// Network says which connections a server may make.
type Network string

// The kinds of network access.
const (
	NetworkNone  Network = "none"  // the default
	NetworkAll   Network = "all"   // IPv4 and IPv6
	NetworkPorts Network = "ports" // TCP to certain ports
)

// TraceProfile is the file in Settings.Trace that has the profile of a traced server.
const TraceProfile = "profile"

// Place is what a start needs to know beyond the settings.
type Place struct {
	// Path is the program, an absolute path or one that is relative to our directory.
	Path string
	// Dir is the server's working directory, "" for ours; Env its environment.
	Dir string
	Env []string
	// Own are files and folders of ours that the server must not get by accident: the
	// configuration, the store, the journal, tokens, the cache.
	Own []string
}

// Home returns the home directory of the server, "" if it has none.
func (p Place) Home() string { return variable(p.Env, "HOME") }

// Plan is how to start one confined server.
type Plan struct {
	// Profile is restrict.Profile.Strings.
	Profile []string
	// Env is the server's environment.
	Env []string
	// Temp is a new folder for its temporary files; "" for none. Whoever starts the server
	// removes it.
	Temp string
	// Trace is Settings.Trace.
	Trace string
	// Lacks says what is not enforced, for [Settings.BestEffort]; nil: everything is.
	Lacks []string
}

// ErrUnsupported means that the machine cannot enforce the settings. The error is an
// *UnsupportedError.
var ErrUnsupported = errors.New("this machine cannot confine the server as configured")

// UnsupportedError says what a machine cannot enforce.
type UnsupportedError struct {
	// Lacks are the things that cannot be enforced, each with what it would need.
	Lacks []string
	// Level is what there is, such as "Linux 6.1 with Landlock ABI 2".
	Level string
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the server cannot be confined as configured: %s; this is %s (best_effort = true in its sandbox starts it without that)",
		strings.Join(e.Lacks, "; "), e.Level)
}

// Unwrap makes the error an ErrUnsupported.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }

// has reports whether a preset is chosen.
func (s *Settings) has(p Preset) bool { return slices.Contains(s.Presets, p) }

// NetworkOrNone returns the network access, with the default.
func (s *Settings) NetworkOrNone() Network {
	if s.Network == "" {
		return NetworkNone
	}
	return s.Network
}

// Contradiction returns what is contradictory about the settings, and under which key; ""
// for nothing.
func (s *Settings) Contradiction() (key, text string) {
	open := s.NetworkOrNone()
	switch {
	case s.has(ReadOnly) && len(s.Write) > 0:
		return "write", `cannot be combined with the preset "read-only" (leave one out)`
	case s.has(Offline) && open != NetworkNone:
		return "network", `cannot be combined with the preset "offline" (leave one out)`
	case s.has(Offline) && s.Unix:
		return "unix", `cannot be combined with the preset "offline" (leave one out)`
	case len(s.Listen) > 0 && open != NetworkPorts:
		return "listen", `needs network to be an array of ports, [] for none ("all" includes listening)`
	case s.UDP && open != NetworkPorts:
		return "udp", `needs network to be an array of ports, [] for none ("all" includes UDP)`
	}
	return "", ""
}

// NetworkText describes the network access for people, such as "to ports 443".
func (s *Settings) NetworkText() string {
	switch s.NetworkOrNone() {
	case NetworkNone:
		return "none"
	case NetworkAll:
		return "all"
	}
	text := "none"
	if len(s.Ports) > 0 {
		text = "to TCP ports " + joinPorts(s.Ports)
	}
	if len(s.Listen) > 0 {
		text += ", listens on " + joinPorts(s.Listen)
	}
	if s.UDP {
		text += ", all UDP"
	}
	return text
}

// Summary describes the settings in a few words, such as "node, network all"; "" for nil.
func (s *Settings) Summary() string {
	if s == nil {
		return ""
	}
	var parts []string
	for _, p := range s.Presets {
		parts = append(parts, string(p))
	}
	parts = append(parts, "network "+s.NetworkText())
	if s.BestEffort && len(Lacks(s)) > 0 {
		parts = append(parts, "in part")
	}
	return strings.Join(parts, ", ")
}

func joinPorts(ports []uint16) string {
	text := make([]string, len(ports))
	for i, p := range ports {
		text[i] = fmt.Sprint(p)
	}
	return strings.Join(text, " ")
}
