package confine

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/host/confine/restrict"
	_ "github.com/mcp-metatool/mcp-metatool/tools/testenv/watchdog"
)

// TestStartOnOlderKernels starts a server as on kernels with less Landlock than this one, which
// best effort allows, and checks what is enforced all the same.
func TestStartOnOlderKernels(t *testing.T) {
	this := thisKernel()
	t.Cleanup(func() { thisKernel = func() kernel { return this } })
	dir := tree(t, "secret", "readable", "writable/")
	const script = `
		cat $0/secret 2>/dev/null || echo no secret
		cat $0/readable >/dev/null 2>&1 && echo reads
		(echo x > $0/writable/x) 2>/dev/null && echo writes
		(echo x > $0/readable) 2>/dev/null || echo no change
		kill -0 $PPID 2>/dev/null || echo no signal`
	for abi := range this.abi + 1 {
		k := this
		k.abi = abi
		thisKernel = func() kernel { return k }
		s := &Settings{
			Read: []string{filepath.Join(dir, "readable")}, Write: []string{filepath.Join(dir, "writable")},
			Exec: []string{"/bin", "/usr/bin"}, Network: NetworkPorts, Ports: []uint16{443},
		}
		at := Place{Path: "/bin/sh", Env: []string{"PATH=/bin:/usr/bin"}}
		plan, err := Prepare(s, at)
		if err == nil {
			os.RemoveAll(plan.Temp)
		}
		if older := abi < abiScopes || !k.filters; (err != nil) != older {
			t.Errorf("ABI %d, without best effort: %v", abi, err)
		}
		s.BestEffort = true
		if plan, err = Prepare(s, at); err != nil {
			t.Fatal(err)
		}
		want := []string{"no secret", "reads", "writes", "no change", "no signal"}
		if abi < abiFiles {
			want = []string{"reads", "writes"}
		} else if abi < abiScopes {
			want = want[:4]
		}
		if got := strings.Join(lines(t, plan, "/bin/sh", "sh", "-c", script, dir), ", "); got != strings.Join(want, ", ") {
			t.Errorf("ABI %d: %s, want %s", abi, got, want)
		}
		os.RemoveAll(plan.Temp)
	}
}

// lines returns what a confined program writes.
func lines(t *testing.T, plan *Plan, path string, args ...string) []string {
	t.Helper()
	profile, send, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	failure, failed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := &exec.Cmd{
		Path: os.Args[0], Args: append([]string{restrict.Name, path}, args...), Env: plan.Env,
		Stdout: &out, Stderr: os.Stderr, ExtraFiles: []*os.File{profile, failed},
	}
	err = cmd.Start()
	profile.Close()
	failed.Close()
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(send, strings.Join(plan.Profile, "\x00"))
	send.Close()
	text, _ := io.ReadAll(failure)
	failure.Close()
	if waited := cmd.Wait(); err != nil || len(text) > 0 {
		t.Fatalf("%v %v: %s", err, waited, text)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}
