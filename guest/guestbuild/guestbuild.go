// Package guestbuild builds the wasm guest of the sandbox and records the inputs of the build.
// Begin with [Update] and [Verify]. scripts/build-guest, scripts/verify-guest and the tests of
// host/script/sandbox use the package; the product does not contain it.
//
// The Go toolchain compiles the guest, with the interpreter as changed by package patch, and
// package rewrite rewrites the result: metered, and ready for snapshots. The build is reproducible
// bit for bit in any directory and on any system: it uses the toolchain named in go.mod, leaves out
// paths and version-control stamps, and ignores the caller's Go settings.
package guestbuild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/profile"
	"github.com/mcp-metatool/mcp-metatool/guest/rewrite"
)

// Packages and paths, relative to the root of the module.
const (
	guestPackage = "./guest"
	sandboxDir   = "host/script/sandbox"
	// rewritePackage rewrites the compiled guest, so the sources of rewritePackage are inputs of
	// the build too.
	rewritePackage = "./guest/rewrite"
	// patchPackage changes the interpreter; the changed interpreter imports
	// codepointsPackage.
	patchPackage      = "./guest/patch"
	codepointsPackage = "./guest/codepoints"
	// profilePackage names the functions that get the faster form.
	profilePackage = "./guest/profile"
	// GuestFile is the committed guest, compressed.
	GuestFile = "guest.wasm.gz"
	SumFile   = "guest.sum"
)

// flags are the flags of go build. They are part of the source hash.
var flags = []string{
	"-buildmode=c-shared", // a reactor: a module with exports instead of main
	"-trimpath",
	"-buildvcs=false",
	"-mod=readonly",
	"-ldflags=-w -buildid=", // with the names of functions, for package profile
	// Without inlining, the parser and the library are an eighth smaller, and so are the initial
	// memory of each run and the time to compile the guest. Scripts spend hardly any time there,
	// but for regular expressions.
	"-gcflags=" + guestPackages + "parse=-l",
	"-gcflags=" + guestPackages + "stdlib/...=-l",
	"-gcflags=" + guestPackages + "stdlib/re=",
}

// settings are environment variables of go build. They are part of the source hash, too.
//
// The experiment has a function for each size of small allocations, as Go has by default
// from 1.27 on. Scripts take 6 to 10 per cent less fuel, and the guest has 2 per cent more
// code.
var settings = []string{"GOEXPERIMENT=sizespecializedmalloc"}

const guestPackages = "github.com/mcp-metatool/mcp-metatool/guest/"

// Root returns the directory of the module containing dir.
func Root(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in this directory or above it (run this inside the repository)")
		}
		dir = parent
	}
}

// Update builds the guest and writes the guest and the sum file to host/script/sandbox.
func Update(ctx context.Context, root string) (Sum, error) {
	tmp, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return Sum{}, err
	}
	defer os.RemoveAll(tmp)
	wasm, sum, err := build(ctx, root, tmp)
	if err != nil {
		return Sum{}, err
	}
	dir := filepath.Join(root, filepath.FromSlash(sandboxDir))
	if err := os.WriteFile(filepath.Join(dir, GuestFile), Pack(wasm), 0o644); err != nil {
		return Sum{}, err
	}
	return sum, os.WriteFile(filepath.Join(dir, SumFile), []byte(sum.String()), 0o644)
}

// ErrDiffers is wrapped by the errors of Verify and Compare for a committed guest that does not
// match its sources.
var ErrDiffers = errors.New("the committed guest differs from its sources (run scripts/build-guest)")

// Verify builds the guest in a temporary directory. It compares the result bit for bit with the
// committed guest, unpacked, and the committed sum file with the sum of the build.
func Verify(ctx context.Context, root string) (Sum, error) {
	dir := filepath.Join(root, filepath.FromSlash(sandboxDir))
	packed, err := os.ReadFile(filepath.Join(dir, GuestFile))
	if err != nil {
		return Sum{}, err
	}
	committed, err := Unpack(packed)
	if err != nil {
		return Sum{}, fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, SumFile))
	if err != nil {
		return Sum{}, err
	}
	tmp, err := os.MkdirTemp("", "guest-")
	if err != nil {
		return Sum{}, err
	}
	defer os.RemoveAll(tmp)
	wasm, sum, err := build(ctx, root, tmp)
	if err != nil {
		return Sum{}, err
	}
	if at, same := firstDifference(committed, wasm); !same {
		return sum, fmt.Errorf("%s/%s: %d bytes committed, %d bytes built, first difference at byte %d: %w",
			sandboxDir, GuestFile, len(committed), len(wasm), at, ErrDiffers)
	}
	if string(text) != sum.String() {
		return sum, fmt.Errorf("%s/%s is not the sum of what was built: %w", sandboxDir, SumFile, ErrDiffers)
	}
	return sum, nil
}

func firstDifference(a, b []byte) (at int, same bool) {
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return at, at == len(a) && at == len(b)
}

func build(ctx context.Context, root, tmp string) ([]byte, Sum, error) {
	in, err := ReadInputs(ctx, root)
	if err != nil {
		return nil, Sum{}, err
	}
	compiled, err := compile(ctx, root, tmp, in)
	if err != nil {
		return nil, Sum{}, err
	}
	wasm, err := rewrite.Guest(compiled, profile.Hot)
	if err != nil {
		return nil, Sum{}, err
	}
	sum, err := sumOf(in, wasm)
	return wasm, sum, err
}

// Compile returns the guest as built by the Go toolchain, before rewriting. The directory tmp is
// used for files.
func Compile(ctx context.Context, root, tmp string) ([]byte, error) {
	in, err := ReadInputs(ctx, root)
	if err != nil {
		return nil, err
	}
	return compile(ctx, root, tmp, in)
}

func compile(ctx context.Context, root, tmp string, in Inputs) ([]byte, error) {
	env, err := buildEnv(ctx, root, in.Go)
	if err != nil {
		return nil, err
	}
	tree := filepath.Join(tmp, "tree")
	if err := writeTree(ctx, root, tree, in); err != nil {
		return nil, err
	}
	out := filepath.Join(tmp, "guest.wasm")
	args := append([]string{"build", "-o", out}, flags...)
	if _, err := goCommand(ctx, tree, append(env, settings...), append(args, guestPackage)...); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// fetchSettings are Go's settings for where modules and toolchains come from and are
// stored. They cannot change the result of the build. They are passed on because a
// user may have set them in Go's env file, which the build does not read.
var fetchSettings = []string{
	"GOPROXY", "GONOPROXY", "GOPRIVATE", "GOSUMDB", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
	"GOPATH", "GOMODCACHE", "GOCACHE",
}

// buildEnv returns the environment of the build: the caller's, without Go settings with an effect
// on the result.
func buildEnv(ctx context.Context, root, toolchain string) ([]string, error) {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "CGO_") {
			env = append(env, kv)
		}
	}
	out, err := goCommand(ctx, root, nil, append([]string{"env", "-json"}, fetchSettings...)...)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	if err := json.Unmarshal(out, &settings); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	for _, name := range fetchSettings {
		if v := settings[name]; v != "" {
			env = append(env, name+"="+v)
		}
	}
	return append(env, "GOENV=off", "GOWORK=off", "GOTOOLCHAIN="+toolchain, "CGO_ENABLED=0", "GOOS=wasip1", "GOARCH=wasm"), nil
}

// goCommand runs the go command in root. A nil env means the caller's environment.
func goCommand(ctx context.Context, root string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = root, env
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, exit.Stderr)
	} else if err != nil {
		return nil, fmt.Errorf("go %s: %w", args[0], err)
	}
	return out, nil
}
