// Package confine makes from the settings of a confined stdio server a profile that the kernel
// enforces. The package works on Linux only, without root and without a helper program. Begin with
// Settings and Prepare.
//
// Package restrict (below this package) applies a profile, in a separate process that then becomes
// the server.
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
	// Read, Write and Exec are absolute paths of files and folders that the server may read, write
	// (and read), or execute (and read). A folder includes everything below the folder.
	Read, Write, Exec []string

	Network Network
	// Ports are the TCP ports that the server may connect to; for NetworkPorts.
	Ports []uint16
	// Listen are the TCP ports that the server may listen on; for NetworkPorts.
	Listen []uint16
	// UDP allows datagrams, to any address and port; for NetworkPorts.
	UDP bool
	// Unix allows sockets in the file system, of any program. The kernel cannot restrict
	// which.
	Unix bool

	// Memory is in bytes; 0: no limit. Without a control group, Memory limits the private memory of
	// each process.
	Memory uint64
	// CPUTime is the computing time of each process; 0: no limit. Whole seconds.
	CPUTime time.Duration
	// Processes is how many processes and threads the server may have; 0: no limit.
	Processes int
	// OpenFiles is how many files each process may have open; 0: no limit of ours.
	OpenFiles int

	// AllowSyscalls are names of system calls that are allowed although refused by default,
	// DenySyscalls names of additional refused system calls.
	AllowSyscalls, DenySyscalls []string

	// Trace is a folder in which package trace records the server's actions; "": no tracing. Learn
	// leaves the server unconfined meanwhile. Trace and Learn are no settings of the configuration.
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

// TraceProfile is the file in Settings.Trace with the profile of a traced server.
const TraceProfile = "profile"

// Place is the information for a start in addition to the settings.
type Place struct {
	// Path is the program: an absolute path, or a path relative to our directory.
	Path string
	// Dir is the server's working directory, "" for our directory; Env is the environment.
	Dir string
	Env []string
	// Own are files and folders of ours that the server must not get by accident: the
	// configuration, the store, the journal, tokens, the cache.
	Own []string
}

// Home returns the home directory of the server, or "".
func (p Place) Home() string { return variable(p.Env, "HOME") }

// Plan is the plan for starting a confined server.
type Plan struct {
	// Profile is restrict.Profile.Strings.
	Profile []string
	// Env is the server's environment.
	Env []string
	// Temp is a new folder for the server's temporary files; "" for none. The process that starts
	// the server removes Temp.
	Temp string
	// Trace is Settings.Trace.
	Trace string
	// Lacks lists the rules that are not enforced, for [Settings.BestEffort]; nil: everything is
	// enforced.
	Lacks []string
}

// ErrUnsupported means that the machine cannot enforce the settings. The error is an *UnsupportedError.
var ErrUnsupported = errors.New("this machine cannot confine the server as configured")

// UnsupportedError lists the settings that a machine cannot enforce.
type UnsupportedError struct {
	// Lacks are the unenforceable settings, each with the missing requirement.
	Lacks []string
	// Level is the level of the machine, for example "Linux 6.1 with Landlock ABI 2".
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

// Contradiction returns a description of a contradiction in the settings, and the key of the
// contradiction; "" for none.
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

// NetworkText describes the network access for people, for example "to ports 443".
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

// Summary describes the settings in a few words, for example "node, network all"; "" for nil.
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
