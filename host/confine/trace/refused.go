package trace

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// Refusal is a refused action of a server.
type Refusal struct {
	Kind    Kind   `json:"kind"`
	Object  string `json:"object"`
	Errno   string `json:"errno"`
	Call    string `json:"call"`    // the system call
	Program string `json:"program"` // the process
	// Setting is the setting that would allow the action, in TOML; "": no setting allows the
	// action, or the sandbox did not refuse the action.
	Setting string `json:"setting,omitempty"`
	// Reason is the reason of the refusal if no setting is missing.
	Reason string `json:"reason,omitempty"`
}

// Refusals returns the refused actions of a confined server, sorted.
func Refusals(events []Event, s *confine.Settings, at confine.Place) ([]Refusal, error) {
	allows, err := s.Allows(at)
	if err != nil {
		return nil, err
	}
	list := []Refusal{}
	for _, e := range events {
		if e.Kind == Omitted {
			list = append(list, Refusal{Kind: e.Kind, Reason: "it did more than the record holds"})
		}
		if e.Errno == "" {
			continue
		}
		r := Refusal{Kind: e.Kind, Object: e.Object, Errno: e.Errno, Call: e.Call, Program: e.Program}
		r.explain(allows, s, at)
		if e.Kind == Call && r.Reason == notUs {
			continue // every program gets some of these errors
		}
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, compareRefusals)
	return list, nil
}

// notUs is the reason of errors that do not come from the sandbox.
const notUs = "not by the sandbox"

// explain sets the setting that would allow the action, or the reason.
func (r *Refusal) explain(allows func(string, bool, bool) bool, s *confine.Settings, at confine.Place) {
	quoted := func(key, path string) { r.Setting = key + " = [" + strconv.Quote(path) + "]" }
	writes, executes := r.Kind == WriteFile, r.Kind == ExecuteFile
	switch r.Kind {
	case ReadFile, WriteFile, ExecuteFile:
		switch {
		case slices.ContainsFunc(at.Own, func(own string) bool { return r.Object == own || strings.HasPrefix(r.Object, own+"/") }):
			r.Reason = "belongs to mcp-metatool"
		case r.Errno == "EPERM" && confine.IsRefused(r.Call):
			r.Setting = callSetting(r.Call)
		case r.Errno == "EPERM" && slices.Contains([]string{"open", "openat", "creat", "mknod", "mknodat"}, r.Call) && allows(r.Object, writes, executes):
			r.Reason = "a set-user-ID bit would defeat the sandbox"
		case allows(r.Object, writes, executes):
			r.Reason = "permissions of the file"
		case writes && slices.Contains(s.Presets, confine.ReadOnly):
			r.Reason = "the preset read-only"
		case writes && (strings.HasPrefix(r.Object, "/dev/") || broad(filepath.Dir(r.Object), at.Home())):
			quoted("write", r.Object)
		case writes:
			quoted("write", filepath.Dir(r.Object))
		case executes:
			quoted("exec", r.Object)
		case strings.HasPrefix(r.Object, "/proc/"):
			r.Reason = "tells about other processes"
		default:
			quoted("read", r.Object)
		}
	case Connect, Listen:
		r.explainAddress()
	case Socket:
		r.explainSocket()
	case Call:
		r.explainCall()
	}
}

func (r *Refusal) explainAddress() {
	transport, address, _ := strings.Cut(r.Object, " ")
	port := strconv.Itoa(int(portOf(address)))
	switch {
	case transport == "unix":
		r.Setting = "unix = true"
	case transport == "udp":
		r.Setting = "udp = true"
	case r.Kind == Listen && port == "0":
		r.Setting = `network = "all"`
	case r.Kind == Listen:
		r.Setting = "listen = [" + port + "]"
	default:
		r.Setting = "network = [" + port + "]"
	}
}

func (r *Refusal) explainSocket() {
	switch r.Object {
	case "unix stream", "unix datagram":
		r.Setting = "unix = true"
	case "inet stream", "inet6 stream":
		r.Setting = "network = [443]"
		r.Reason = "with its ports"
	case "inet datagram", "inet6 datagram":
		r.Setting = "network = [443], udp = true"
		r.Reason = "with its ports"
	case "netlink raw", "netlink datagram":
		r.Setting = "network = []"
		r.Reason = "asks for the list of network interfaces"
	}
}

func (r *Refusal) explainCall() {
	switch {
	case r.Errno == "EMFILE":
		r.Setting = "open_files"
	case r.Errno == "ENOMEM":
		r.Setting = "memory"
	case r.Errno == "EAGAIN":
		r.Setting = "processes"
	case r.Call == "ioctl" && r.Errno == "EACCES":
		r.Reason = "controls a device"
	case confine.IsRefused(r.Call) || confine.IsOptional(r.Call):
		if r.Setting = callSetting(r.Call); r.Setting == "" {
			r.Reason = "would defeat the sandbox"
		}
	case r.Call == "listen":
		r.Setting = `network = "all"`
	case slices.Contains([]string{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "pidfd_send_signal"}, r.Call):
		r.Reason = "signals go to its own processes only"
	case slices.Contains([]string{"clone", "ioctl", "prlimit64", "setpriority", "personality", "socketpair", "sendto", "sendmsg", "sendmmsg", "setsockopt", "fchmod"}, r.Call):
		r.Reason = "with these arguments it would defeat the sandbox"
	default:
		r.Reason = notUs
	}
}

func callSetting(name string) string {
	if confine.IsOptional(name) {
		return `allow_syscalls = ["` + name + `"]`
	}
	return ""
}
