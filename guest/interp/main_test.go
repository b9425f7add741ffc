package interp

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/mcp-metatool/mcp-metatool/guest/patch"
	"go.starlark.net/starlark"
)

// TestMain runs the tests with the patched interpreter of the guest (package patch). go
// test has compiled them with the one of go.mod, so TestMain compiles them again. Only
// fuzzing uses the one of go.mod, because it needs a binary that go test has built.
func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(400) // tests make much garbage, and keep little
	if starlark.String("é").Len() == 1 || flag.Lookup("test.fuzz").Value.String() != "" || flag.Lookup("test.fuzzworker").Value.String() == "true" {
		os.Exit(m.Run())
	}
	err := runPatched(patch.Copy, os.Args[1:], os.Stdout)
	if _, failed := err.(*exec.ExitError); err != nil && !failed { // tests that fail have said why
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// runPatched compiles the tests with the interpreter that change makes, and runs them.
func runPatched(change func(from, to string) error, args []string, stdout io.Writer) error {
	tmp, err := os.MkdirTemp("", "interp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	flags, err := useChanged(tmp, change)
	if err != nil {
		return err
	}
	binary := filepath.Join(tmp, "interp.test.exe")
	build := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	if raceDetector {
		build = append(build, "-race")
	}
	if out, err := exec.Command("go", append(build, ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c with the changed interpreter: %w\n%s", err, out)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	return cmd.Run()
}

// useChanged writes the changed interpreter and a go.mod that uses it, and returns flags for
// the go command. For the compiler, the interpreter is always in the same folder, which does not
// exist, so that compiled packages are found in the cache without -trimpath: with that, all
// other packages would be compiled again, too.
func useChanged(tmp string, change func(from, to string) error) (flags []string, err error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", patch.Module).Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m %s: %w", patch.Module, err)
	}
	changed := filepath.Join(tmp, "starlark")
	if err := change(strings.TrimSpace(string(module)), changed); err != nil {
		return nil, err
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, "guest", "patch", "changed")
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		if name == "go.mod" {
			content = fmt.Appendf(content, "\nreplace %s => %q\n", patch.Module, folder)
		}
		if err := os.WriteFile(filepath.Join(tmp, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	replace := map[string]string{}
	err = filepath.WalkDir(changed, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			replace[folder+strings.TrimPrefix(path, changed)] = path
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, err
	}
	overlay := filepath.Join(tmp, "overlay.json")
	return []string{"-modfile=" + filepath.Join(tmp, "go.mod"), "-overlay=" + overlay}, os.WriteFile(overlay, text, 0o600)
}
