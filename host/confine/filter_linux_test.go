package confine

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// verdict runs a filter as the kernel would (seccomp(2)) and returns its result.
func verdict(t *testing.T, filter []byte, machine uint32, number int, args ...uint64) uint32 {
	t.Helper()
	data := binary.NativeEndian.AppendUint32(nil, uint32(number))
	data = binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint32(data, machine), 0)
	for i := range 6 {
		arg := uint64(0)
		if i < len(args) {
			arg = args[i]
		}
		data = binary.NativeEndian.AppendUint64(data, arg)
	}
	code := make([]unix.SockFilter, len(filter)/8)
	if err := binary.Read(bytes.NewReader(filter), binary.NativeEndian, code); err != nil {
		t.Fatal(err)
	}
	a := uint32(0)
	jump := func(in unix.SockFilter, yes bool) int {
		if yes {
			return int(in.Jt)
		}
		return int(in.Jf)
	}
	for at := 0; at < len(code); at++ {
		switch in := code[at]; in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.NativeEndian.Uint32(data[in.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= in.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			at += jump(in, a == in.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			at += jump(in, a > in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			at += jump(in, a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			t.Fatalf("instruction %d is %+v", at, in)
		}
	}
	t.Fatal("the filter has no result")
	return 0
}

// TestFilter checks what is refused, whatever the arguments are, and what is not.
func TestFilter(t *testing.T) {
	if arch == 0 {
		t.Skip("there are no filters for this processor")
	}
	known := knownSyscalls()
	newest := slices.Max(slices.Collect(maps.Values(known)))
	s := &Settings{AllowSyscalls: []string{"chmod", "fchmodat", "utimensat", "socket"}, DenySyscalls: []string{"getpid", "openat"}}
	plain, err := (&Settings{}).filter()
	if err != nil {
		t.Fatal(err)
	}
	changed, err := s.filter()
	if err != nil {
		t.Fatal(err)
	}
	conditional := map[string]bool{}
	for _, c := range s.conditions() {
		conditional[c.name] = true
	}
	for name, number := range known {
		want := allow
		if slices.Contains(strings.Fields(forbiddenNames+sharedNames), name) {
			want = refuse
		}
		if got := verdict(t, plain, arch, number); !conditional[name] && got != want {
			t.Errorf("%s: %#x, want %#x", name, got, want)
		}
		switch {
		case slices.Contains(s.AllowSyscalls, name):
			want = allow
		case slices.Contains(s.DenySyscalls, name):
			want = refuse
		case conditional[name]:
			continue
		}
		if got := verdict(t, changed, arch, number, 2, 1<<40|3, 3, 0o7777); got != want {
			t.Errorf("%s, with changes: %#x, want %#x", name, got, want)
		}
	}
	for _, number := range []int{newest + 1, 1000, 0x40000000, 0x40000000 | known["openat"], -1} {
		if got := verdict(t, plain, arch, number); got != missing {
			t.Errorf("number %d: %#x", number, got)
		}
	}
	for _, machine := range []uint32{0, unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM} {
		if got := verdict(t, plain, machine, known["read"]); got != kill {
			t.Errorf("machine %#x: %#x", machine, got)
		}
	}
}

// TestFilterOfArguments checks the results that depend on arguments.
func TestFilterOfArguments(t *testing.T) {
	if arch == 0 {
		t.Skip("there are no filters for this processor")
	}
	const high = 1 << 32 // the kernel ignores the upper half of most arguments
	known := knownSyscalls()
	ports := &Settings{Network: NetworkPorts}
	for name, c := range map[string]struct {
		settings *Settings
		call     string
		args     []uint64
		want     uint32
	}{
		"open to read":              {&Settings{}, "openat", []uint64{0, 0, unix.O_RDONLY, 0o4755}, allow},
		"open to create":            {&Settings{}, "openat", []uint64{0, 0, unix.O_CREAT | unix.O_RDWR, 0o755}, allow},
		"open to create, set-ID":    {&Settings{}, "openat", []uint64{0, 0, unix.O_CREAT | unix.O_RDWR, 0o2755}, refuse},
		"temporary file, set-ID":    {&Settings{}, "openat", []uint64{0, 0, unix.O_TMPFILE | unix.O_RDWR, high | 0o4755}, refuse},
		"open a folder":             {&Settings{}, "openat", []uint64{0, 0, unix.O_DIRECTORY, 0o4755}, allow},
		"open for ioctl":            {&Settings{}, "openat", []uint64{0, 0, high | unix.O_CLOEXEC | 3}, noRight},
		"openat2":                   {&Settings{}, "openat2", nil, missing},
		"set times":                 {&Settings{}, "utimensat", []uint64{0, 1}, refuse},
		"set times, high":           {&Settings{}, "utimensat", []uint64{0, high}, refuse},
		"set times of a descriptor": {&Settings{}, "utimensat", []uint64{3, 0}, allow},
		"own priority":              {&Settings{}, "setpriority", []uint64{unix.PRIO_PROCESS, high}, allow},
		"priority of a process":     {&Settings{}, "setpriority", []uint64{unix.PRIO_PROCESS, 1}, refuse},
		"priority of the user":      {&Settings{}, "setpriority", []uint64{unix.PRIO_USER, 0}, refuse},
		"thread":                    {&Settings{}, "clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD}, allow},
		"user namespace":            {&Settings{}, "clone", []uint64{unix.CLONE_NEWUSER | 17}, refuse},
		"listen":                    {ports, "listen", nil, noRight},
		"listen on ports":           {&Settings{Network: NetworkPorts, Listen: []uint16{1}}, "listen", nil, allow},
		"listen on a path":          {&Settings{Network: NetworkPorts, Unix: true}, "listen", nil, allow},
		"listen, all":               {&Settings{Network: NetworkAll}, "listen", nil, allow},
		"TCP":                       {ports, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_CLOEXEC, unix.IPPROTO_TCP}, allow},
		"MPTCP":                     {ports, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, noRight},
		"UDP":                       {ports, "socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 0}, noRight},
		"UDP, allowed":              {&Settings{Network: NetworkPorts, UDP: true}, "socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM, 0}, allow},
		"ICMP with UDP":             {&Settings{Network: NetworkPorts, UDP: true}, "socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, noRight},
		"raw":                       {ports, "socket", []uint64{unix.AF_INET, unix.SOCK_RAW, 0}, noRight},
		"none":                      {&Settings{}, "socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, noRight},
	} {
		filter, err := c.settings.filter()
		if err != nil {
			t.Fatal(err)
		}
		if got := verdict(t, filter, arch, known[c.call], c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", name, got, c.want)
		}
	}
}
