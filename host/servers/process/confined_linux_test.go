package process

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
	"github.com/mcp-metatool/mcp-metatool/host/confine/subreaper"
	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// refusals are the refused actions of a confined server without network, with the refusing layer.
// TestConfined and TestUnconfined show that the sandbox refuses them, whatever the name of an
// attempt says.
var refusals = []struct{ attempt, errno, layer string }{
	{"read a secret", "EACCES", "Landlock"},
	{"list its folder", "EACCES", "Landlock"},
	{"write what is readable", "EACCES", "Landlock"},
	{"create in the readable", "EACCES", "Landlock"},
	{"create outside", "EACCES", "Landlock"},
	{"truncate outside", "EACCES", "Landlock"},
	{"remove outside", "EACCES", "Landlock"},
	{"make a folder outside", "EACCES", "Landlock"},
	{"make a FIFO outside", "EACCES", "Landlock"},
	{"make a device", "EACCES", "Landlock"},
	{"make a socket", "EACCES", "Landlock"},
	{"follow a link of its own", "EACCES", "Landlock"},
	{"link a secret", "EXDEV", "Landlock"},
	{"move a secret", "EACCES", "Landlock"},
	{"move out", "EACCES", "Landlock"},
	{"exchange", "EACCES", "Landlock"},
	{"change a mode", "EPERM", "seccomp"},
	{"change an owner", "EPERM", "seccomp"},
	{"set an attribute", "EPERM", "seccomp"},
	{"open for ioctl alone", "EACCES", "seccomp"},
	{"open for ioctl alone, high bits", "EACCES", "seccomp"},
	{"open for ioctl alone, openat2", "ENOSYS", "seccomp"},
	{"set times", "EPERM", "seccomp"},
	{"set an attribute of its own", "EPERM", "seccomp"},
	{"change an owner of its own", "EPERM", "seccomp"},
	{"set-user-ID bit", "EPERM", "seccomp"},
	{"set-user-ID file", "EPERM", "seccomp"},
	{"set-group-ID file, by mknod", "EPERM", "seccomp"},
	{"leave by /proc", "EACCES", "Landlock"},
	{"leave by ..", "EACCES", "Landlock"},
	{"open by handle", "EPERM", "seccomp"},
	{"execute its own", "EACCES", "Landlock"},
	{"execute other", "EACCES", "Landlock"},
	{"connect TCP", "EACCES", "seccomp"},
	{"connect TCP 6", "EACCES", "seccomp"},
	{"connect UDP", "EACCES", "seccomp"},
	{"connect MPTCP", "EACCES", "seccomp"},
	{"TCP Fast Open", "EACCES", "seccomp"},
	{"listen", "EACCES", "seccomp"},
	{"raw socket", "EACCES", "seccomp"},
	{"packet socket", "EACCES", "seccomp"},
	{"netlink", "EACCES", "seccomp"},
	{"vsock", "EACCES", "seccomp"},
	{"kernel crypto", "EACCES", "seccomp"},
	{"socket, high bits", "EACCES", "seccomp"},
	{"unix socket", "EACCES", "seccomp"},
	{"abstract socket", "EACCES", "seccomp"},
	{"datagram by a socket pair", "EACCES", "seccomp"},
	{"signal the supervisor", "EPERM", "Landlock"},
	{"signal us", "EPERM", "Landlock"},
	{"signal us by pidfd", "EPERM", "Landlock"},
	{"trace the supervisor", "EPERM", "seccomp"},
	{"read memory", "EACCES", "Landlock"},
	{"write memory", "EACCES", "Landlock"},
	{"read an environment", "EACCES", "Landlock"},
	{"read a command line", "EACCES", "Landlock"},
	{"process_vm_readv", "EPERM", "seccomp"},
	{"take a descriptor", "EPERM", "seccomp"},
	{"limit us", "EPERM", "seccomp"},
	{"slow us down", "EPERM", "seccomp"},
	{"slow down all of the user", "EPERM", "seccomp"},
	{"slow down a group", "EPERM", "seccomp"},
	{"shared memory", "EPERM", "seccomp"},
	{"user namespace", "EPERM", "seccomp"},
	{"namespace by clone", "EPERM", "seccomp"},
	{"clone3", "ENOSYS", "seccomp"},
	{"x32", "ENOSYS", "seccomp"},
	{"join a namespace", "EPERM", "seccomp"},
	{"mount", "EPERM", "seccomp"},
	{"mount, new style", "EPERM", "seccomp"},
	{"chroot", "EPERM", "seccomp"},
	{"io_uring", "EPERM", "seccomp"},
	{"userfaultfd", "EPERM", "seccomp"},
	{"performance events", "EPERM", "seccomp"},
	{"BPF", "EPERM", "seccomp"},
	{"key ring", "EPERM", "seccomp"},
	{"kernel module", "EPERM", "seccomp"},
	{"kexec", "EPERM", "seccomp"},
	{"reboot", "EPERM", "seccomp"},
	{"terminal input", "EPERM", "seccomp"},
	{"terminal, high bits", "EPERM", "seccomp"},
	{"personality", "EPERM", "seccomp"},
	{"open 10000 files", "EMFILE", "resource limit"},
	{"use a gigabyte", "ENOMEM", "resource limit"},
}

// granted are the allowed actions of a confined server, and conditions that must hold for the
// server.
var granted = []string{
	"read what is readable", "create in the writable", "create temporary", "execute the allowed", "socket pair",
	"set times of its own", "change a mode of its own", "limit itself", "signal its child's process", "inherited descriptors",
	"no new privileges", "no capabilities", "filtered", "an hour of processor time", "no core dumps", "ends with its parent",
}

// scene is where a hostile server acts.
type scene struct {
	t *testing.T
	order
	dir string
}

// newScene makes the files and sockets.
func newScene(t *testing.T) *scene {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, dir: dir}
	for _, sub := range []string{"secret", "outside", "readable", "writable"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s.order = order{
		Secret: dir + "/secret/key", Outside: dir + "/outside", Readable: dir + "/readable", Writable: dir + "/writable",
		Program: "/bin/true", Unix: dir + "/outside/stream", Datagrams: dir + "/outside/datagrams", Parent: os.Getpid(),
		Abstract: "mcp-metatool-test-" + filepath.Base(filepath.Dir(dir)) + t.Name(),
	}
	s.restore()
	if err := os.WriteFile(dir+"/readable/r", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	tcp := s.listener("tcp4", "127.0.0.1:0")
	s.TCP = tcp.Addr().(*net.TCPAddr).Port
	s.listener("unix", s.Unix)
	s.listener("unix", "@"+s.Abstract)
	for network, address := range map[string]string{"udp4": "127.0.0.1:0", "unixgram": s.Datagrams} {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if udp, ok := c.LocalAddr().(*net.UDPAddr); ok {
			s.UDP = udp.Port
		}
	}
	return s
}

// restore writes the secret, which an attempt without a sandbox may have taken away.
func (s *scene) restore() {
	if err := os.WriteFile(s.Secret, []byte("secret"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// listener accepts connections, as the kernel does for the listener.
func (s *scene) listener(network, address string) net.Listener {
	l, err := net.Listen(network, address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { l.Close() })
	return l
}

// settings returns a sandbox for the scene.
func (s *scene) settings() *confine.Settings {
	return &confine.Settings{
		Read: []string{s.Readable}, Write: []string{s.Writable}, Exec: []string{s.Program},
		OpenFiles: 100, Memory: 512 << 20, CPUTime: time.Hour,
	}
}

// try starts a hostile server and returns the outcome of the server's attempts.
func (s *scene) try(sandbox *confine.Settings, attempts ...string) map[string]string {
	s.t.Helper()
	s.Attempts = attempts
	text, err := json.Marshal(s.order)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := Start(Command{Name: os.Args[0], Env: []string{hostileEnv + "=" + string(text)}, Sandbox: sandbox}, Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	out := p.Stdout()
	outcome := map[string]string{}
	if err := json.NewDecoder(out).Decode(&outcome); err != nil {
		s.t.Errorf("the server said nothing: %v; %s", err, strings.Join(p.StderrTail(), "\n"))
	}
	p.Stdin().Close()
	p.Stop(time.Minute, nil)
	_, _ = io.Copy(io.Discard, out)
	out.Close()
	p.Release()
	return outcome
}

// needs skips a test if the machine cannot enforce the settings.
func needs(t *testing.T, s *confine.Settings) {
	t.Helper()
	if lacks := confine.Lacks(s); len(lacks) > 0 {
		testenv.Lacks(t, "confinement", "%s: %s", confine.Level(), strings.Join(lacks, "; "))
	}
}

// TestConfined checks that a confined server is refused every forbidden action, and no other
// action.
func TestConfined(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	needs(t, s.settings())
	leak, err := syscall.Open(s.Secret, syscall.O_RDONLY, 0) // without O_CLOEXEC: a parent may have started us with this descriptor
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(leak)
	attempts := append(slices.Clone(granted), "lock its folder for temporary files")
	if os.Geteuid() == 0 {
		attempts = append(attempts, "no bounding set")
	}
	for _, r := range refusals {
		attempts = append(attempts, r.attempt)
	}
	outcome := s.try(s.settings(), attempts...)
	for _, r := range refusals {
		if got := outcome[r.attempt]; got != r.errno {
			t.Errorf("%s: %s, want %s from %s", r.attempt, got, r.errno, r.layer)
		}
	}
	for _, name := range attempts[:len(attempts)-len(refusals)] {
		if got := outcome[name]; got != "ok" {
			t.Errorf("%s: %s, want it to be allowed", name, got)
		}
	}
	if temp := outcome[folder]; temp == os.TempDir() {
		t.Error("it has no folder of its own for temporary files")
	} else if _, err := os.Stat(temp); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", temp, err)
	}
	if b, err := os.ReadFile(s.Secret); err != nil || string(b) != "secret" {
		t.Errorf("the secret is now %q, %v", b, err)
	}
}

// TestUnconfined checks that the same attempts succeed without a sandbox, unless they do harm, so
// that the sandbox refuses them.
func TestUnconfined(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	outcome := s.try(nil, "read a secret", "list its folder", "write what is readable", "create in the readable", "create outside",
		"make a folder outside", "make a FIFO outside", "make a socket", "follow a link of its own", "link a secret", "move out", "change a mode",
		"change an owner", "open for ioctl alone", "open for ioctl alone, high bits", "open for ioctl alone, openat2", "set times",
		"change an owner of its own", "set-user-ID bit", "set-user-ID file", "set-group-ID file, by mknod", "leave by /proc", "leave by ..", "execute its own", "execute other",
		"connect TCP", "connect UDP", "listen", "listen without bind", "netlink", "socket, high bits", "unix socket", "abstract socket", "datagram by a socket pair",
		"signal the supervisor", "signal us", "signal us by pidfd", "read an environment", "read a command line", "limit us", "shared memory",
		"use a gigabyte")
	delete(outcome, folder)
	for _, name := range slices.Sorted(maps.Keys(outcome)) {
		if got := outcome[name]; got != "ok" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestUser repeats tests as another user than root, if we are root, and has additional tests.
func TestUser(t *testing.T) {
	if os.Getenv(userEnv) != "" {
		t.Skip("we are that user")
	}
	if os.Geteuid() != 0 {
		testenv.Lacks(t, "root", "we are not root, so all tests run as another user anyway")
	}
	dir, err := os.MkdirTemp("", "confined") // t.TempDir may be below a folder that only root may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary := filepath.Join(dir, "test")
	for name, mode := range map[string]os.FileMode{os.Args[0]: 0o755, "/bin/cat": 0o755 | os.ModeSetuid} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := binary
		if mode&os.ModeSetuid != 0 {
			to = filepath.Join(dir, "cat")
		}
		if err := errors.Join(os.WriteFile(to, b, 0o755), os.Chmod(to, mode), os.Chmod(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "root"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^(TestConfined|TestConfinedNetwork|TestUnconfined|TestSetuid|TestProcesses|TestTraced)$", "-test.v")
	cmd.Env = append(os.Environ(), userEnv+"="+dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "--- PASS") != 6 && len(confine.Lacks(&confine.Settings{})) == 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// userEnv is set for the tests that TestUser repeats, to the folder of TestUser.
const userEnv = "PROCESS_TEST_USER"

// TestSetuid checks that a program with the setuid bit has no effect in a sandbox.
func TestSetuid(t *testing.T) {
	dir := os.Getenv(userEnv)
	if dir == "" {
		t.Skip("TestUser runs it")
	}
	s := newScene(t)
	s.Setuid, s.Readable = dir+"/cat", dir
	if got := s.try(nil, "become root by setuid"); got["become root by setuid"] != "ok" {
		t.Errorf("without a sandbox: %v", got)
	}
	sandbox := s.settings()
	needs(t, sandbox)
	sandbox.Exec = append(sandbox.Exec, s.Setuid)
	if got := s.try(sandbox, "become root by setuid"); got["become root by setuid"] != "exit status 1" {
		t.Errorf("in a sandbox: %v", got)
	}
}

// TestProcesses checks that a fork bomb is stopped.
func TestProcesses(t *testing.T) {
	if os.Getenv(userEnv) == "" && os.Geteuid() == 0 {
		t.Skip("the limit needs a control group for root; TestUser runs it")
	}
	s := newScene(t)
	if got := s.try(nil, "fork bomb"); got["fork bomb"] != "ok" {
		t.Errorf("without a sandbox: %v", got)
	}
	sandbox := s.settings()
	sandbox.Processes = 50
	needs(t, sandbox)
	if got := s.try(sandbox, "fork bomb"); got["fork bomb"] != "EAGAIN" {
		t.Errorf("in a sandbox: %v", got)
	}
}

// TestNoProfileNoServer checks that a server is not started if it cannot be confined.
func TestNoProfileNoServer(t *testing.T) {
	t.Parallel()
	needs(t, &confine.Settings{})
	missing := filepath.Join(t.TempDir(), "missing")
	for name, c := range map[string]struct {
		sandbox confine.Settings
		want    string
	}{
		"missing": {confine.Settings{Read: []string{missing}}, "there is no " + missing},
		"syscall": {confine.Settings{DenySyscalls: []string{"opnat"}}, `no system call "opnat" here: did you mean openat`},
	} {
		_, err := Start(Command{Name: "/bin/true", Sandbox: &c.sandbox}, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var unsupported *confine.UnsupportedError
	if os.Geteuid() == 0 {
		_, err := Start(Command{Name: "/bin/true", Sandbox: &confine.Settings{Processes: 5}}, Options{})
		if memory, processes := subreaper.Controls(); processes {
			t.Skipf("control groups limit memory (%t) and processes here", memory)
		}
		if !errors.As(err, &unsupported) || !errors.Is(err, confine.ErrUnsupported) {
			t.Errorf("root: %v", err)
		}
		s := newScene(t)
		sandbox := s.settings()
		sandbox.Processes, sandbox.BestEffort = 5, true
		if got := s.try(sandbox, "read a secret", "create in the writable"); got["read a secret"] != "EACCES" || got["create in the writable"] != "ok" {
			t.Errorf("root, best effort: %v", got)
		}
	}
}
