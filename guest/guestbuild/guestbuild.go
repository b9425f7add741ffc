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
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/guest/patch"
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

// Inputs are all inputs of the build: they determine the guest.
type Inputs struct {
	// Go is the toolchain named in go.mod, for example "go1.26.8". Language is the version in the
	// go line, which also selects runtime defaults.
	Go, Language string
	Flags        []string // after settings of the environment
	Modules      []Module // sorted by path
	Files        []File   // sorted by path
}

// Module is a module with packages linked by the guest.
type Module struct{ Path, Version, Sum string }

// File is a source file of this module. The path is relative to the root, with forward slashes.
type File struct {
	Path   string
	SHA256 [sha256.Size]byte
}

// Hash returns a hash over all inputs.
func (in Inputs) Hash() [sha256.Size]byte { return sha256.Sum256([]byte(in.lines())) }

// lines returns the canonical text of the inputs, which is in the sum file.
func (in Inputs) lines() string {
	var b strings.Builder
	fmt.Fprintf(&b, "go %s (language %s)\n", in.Go, in.Language)
	fmt.Fprintf(&b, "flags %s\n", strings.Join(in.Flags, " "))
	for _, m := range in.Modules {
		fmt.Fprintf(&b, "module %s %s %s\n", m.Path, m.Version, m.Sum)
	}
	for _, f := range in.Files {
		fmt.Fprintf(&b, "file %s %s\n", f.Path, hex.EncodeToString(f.SHA256[:]))
	}
	return b.String()
}

// listed has the members used from the output of `go list -deps -json`.
type listed struct {
	ImportPath, Dir string
	Standard        bool
	Module          *struct {
		Path, Version, Sum, GoVersion string
		Main                          bool
		Replace                       *struct{ Path, Version, Sum string }
	}
	GoFiles, SFiles, EmbedFiles []string
}

// ReadInputs returns the inputs of a build in root. ReadInputs compiles nothing, and needs no
// network if the modules are in the cache.
func ReadInputs(ctx context.Context, root string) (Inputs, error) {
	in := Inputs{Flags: slices.Concat(settings, flags)}
	var err error
	if in.Go, err = toolchain(ctx, root); err != nil {
		return Inputs{}, err
	}
	packages := []string{guestPackage, rewritePackage}
	if isDir(root, patchPackage) {
		packages = append(packages, patchPackage, codepointsPackage, profilePackage)
	}
	modules, err := in.list(ctx, root, packages)
	if err != nil {
		return Inputs{}, err
	}
	for _, m := range modules {
		in.Modules = append(in.Modules, m)
	}
	sort.Slice(in.Modules, func(i, j int) bool { return in.Modules[i].Path < in.Modules[j].Path })
	sort.Slice(in.Files, func(i, j int) bool { return in.Files[i].Path < in.Files[j].Path })
	return in, nil
}

func isDir(root, pkg string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(pkg)))
	return err == nil && info.IsDir()
}

// list adds the files of this module used in the build of packages, and returns the other modules
// needed.
func (in *Inputs) list(ctx context.Context, root string, packages []string) (map[string]Module, error) {
	// Any toolchain finds the same files. The pinned toolchain might have to be downloaded.
	env := append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,Module,GoFiles,SFiles,EmbedFiles"}
	out, err := goCommand(ctx, root, env, append(args, packages...)...)
	if err != nil {
		return nil, err
	}
	modules := map[string]Module{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return modules, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		switch {
		case p.Standard || p.Module == nil:
		case p.Module.Main:
			in.Language = p.Module.GoVersion
			if err := in.addFiles(root, p); err != nil {
				return nil, err
			}
		case p.Module.Replace != nil:
			return nil, fmt.Errorf("go.mod: %s is replaced (the guest must be built from published modules)", p.Module.Path)
		default:
			modules[p.Module.Path] = Module{p.Module.Path, p.Module.Version, p.Module.Sum}
		}
	}
}

func (in *Inputs) addFiles(root string, p listed) error {
	for _, names := range [][]string{p.GoFiles, p.SFiles, p.EmbedFiles} {
		for _, name := range names {
			full := filepath.Join(p.Dir, name)
			content, err := os.ReadFile(full)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, full)
			if err != nil {
				return err
			}
			in.Files = append(in.Files, File{filepath.ToSlash(rel), sha256.Sum256(content)})
		}
	}
	return nil
}

// toolchain returns the toolchain pinned in go.mod.
func toolchain(ctx context.Context, root string) (string, error) {
	out, err := goCommand(ctx, root, nil, "mod", "edit", "-json")
	if err != nil {
		return "", err
	}
	var mod struct{ Toolchain string }
	if err := json.Unmarshal(out, &mod); err != nil {
		return "", fmt.Errorf("go mod edit: %w", err)
	}
	if mod.Toolchain == "" {
		return "", errors.New("go.mod: no toolchain line (the guest is built with a pinned toolchain)")
	}
	return mod.Toolchain, nil
}

// interpreterDir is the directory of the changed interpreter in the tree. The name becomes part of
// the guest, so every tree has the same name.
const interpreterDir = "starlark"

// writeTree writes the sources of the guest to a new directory, and the changed interpreter if the
// sources need the interpreter: its path must not depend on the machine.
func writeTree(ctx context.Context, root, tree string, in Inputs) error {
	names := []string{"go.mod"}
	if _, err := os.Stat(filepath.Join(root, "go.sum")); err == nil {
		names = append(names, "go.sum")
	}
	for _, f := range in.Files {
		names = append(names, f.Path)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		path := filepath.Join(tree, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(in.Modules, func(m Module) bool { return m.Path == patch.Module }) {
		return nil
	}
	from, err := moduleDir(ctx, root, patch.Module)
	if err != nil {
		return err
	}
	if err := patch.Copy(from, filepath.Join(tree, interpreterDir)); err != nil {
		return err
	}
	_, err = goCommand(ctx, tree, nil, "mod", "edit", "-replace="+patch.Module+"=./"+interpreterDir)
	return err
}

// moduleDir returns the directory of a module required in go.mod. The module is downloaded if
// necessary.
func moduleDir(ctx context.Context, root, path string) (string, error) {
	out, err := goCommand(ctx, root, nil, "mod", "download", "-json", path)
	if err != nil {
		return "", err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("go mod download: %w", err)
	}
	return module.Dir, nil
}

// Sum describes a guest and the inputs of the build.
type Sum struct {
	Inputs Inputs
	Wasm   [sha256.Size]byte
	Size   int64 // bytes
	// Interface has the guest's imports and exports; see rewrite.Interface.
	Interface []string
}

func sumOf(in Inputs, wasm []byte) (Sum, error) {
	lines, err := rewrite.Interface(wasm)
	return Sum{Inputs: in, Wasm: sha256.Sum256(wasm), Size: int64(len(wasm)), Interface: lines}, err
}

const sumHead = `# guest.wasm and the inputs of its build. Written by scripts/build-guest, checked by
# scripts/verify-guest and by the tests of host/script/sandbox.
`

// String returns the text of the sum file, with a key and a value in each line. The
// line "source" has the hash of the lines below it.
func (s Sum) String() string {
	source := s.Inputs.Hash()
	var lines strings.Builder
	for _, line := range s.Interface {
		lines.WriteString(line + "\n")
	}
	return fmt.Sprintf("%swasm sha256:%s\nsize %d\n%ssource sha256:%s\n%s",
		sumHead, hex.EncodeToString(s.Wasm[:]), s.Size, lines.String(), hex.EncodeToString(source[:]), s.Inputs.lines())
}

// Compare checks that the text of a committed sum file matches the guest and the inputs in, without
// a build. The error wraps ErrDiffers and lists the differences.
func Compare(text string, wasm []byte, in Inputs) error {
	sum, err := sumOf(in, wasm)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDiffers, err)
	}
	want := sum.String()
	if text == want {
		return nil
	}
	recorded, found := difference(text, want)
	return fmt.Errorf("%w\nrecorded but not found:\n%sfound but not recorded:\n%s", ErrDiffers, recorded, found)
}

// difference returns the lines found in only one of two texts.
func difference(a, b string) (onlyA, onlyB string) {
	return without(a, b), without(b, a)
}

func without(text, other string) string {
	have := map[string]bool{}
	for line := range strings.Lines(other) {
		have[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !have[line] {
			b.WriteString("  " + line)
		}
	}
	return b.String()
}

// Pack compresses a guest for GuestFile. Only the result of Unpack matters: another version of Go
// may compress into other bytes.
func Pack(wasm []byte) []byte {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(wasm)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // cannot happen: the level exists, and a buffer takes everything
	}
	return packed.Bytes()
}

// Unpack returns the guest in the content of GuestFile.
func Unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", GuestFile, err)
	}
	wasm, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", GuestFile, err)
	}
	return wasm, nil
}
