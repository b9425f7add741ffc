package clientconfig

import (
	"debug/buildinfo"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

const (
	binaryName = "mcp-metatool"
	modulePath = "github.com/mcp-metatool/mcp-metatool"
)

// isSelf reports whether a server is mcp-metatool as a proxy, perhaps started by another program.
// Another command of the product, such as demo-upstream, is no proxy. A proxy that isSelf misses is
// found at its start; see package nested.
func isSelf(s *Server) bool {
	args, ok := ownArgs(append([]string{s.Command}, s.Args...))
	if !ok {
		return false
	}
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			return arg == "serve" || i > 0 && strings.HasPrefix(args[i-1], "-") && !strings.Contains(args[i-1], "=")
		}
	}
	return true
}

// maxWrappers is how many programs may start each other before ours.
const maxWrappers = 5

// ownArgs finds the product's program in a command that starts the program, directly or through
// programs such as npx, docker and sh, and returns the program's arguments.
func ownArgs(words []string) (args []string, ok bool) {
	for range maxWrappers {
		switch {
		case len(words) == 0 || words[0] == "":
			return nil, false
		case programName(words[0]) == binaryName:
			return words[1:], true
		}
		inner, found := wrapped(words[0], words[1:])
		if !found {
			return words[1:], isRenamedProduct(words[0])
		}
		words = inner
	}
	return nil, false
}

// wrapped returns the command that another command starts, false for an unknown command. A package
// or an image of the product is called mcp-metatool in the result.
func wrapped(command string, args []string) ([]string, bool) {
	switch name := programName(command); name {
	case "npx", "bunx", "pnpx":
		return packaged(args)
	case "npm", "pnpm", "yarn", "bun":
		if len(args) > 0 && slices.Contains([]string{"exec", "x", "dlx"}, args[0]) {
			return packaged(args[1:])
		}
	case "docker", "podman", "nerdctl":
		return image(args)
	case "go":
		if len(args) > 0 && args[0] == "run" {
			return named(afterOptions(args[1:], "-C", "-exec", "-tags", "-ldflags", "-mod", "-modfile"))
		}
	case "env", "nohup", "exec", "command", "sudo":
		return afterOptions(args, "-u", "-C"), true
	case "cmd":
		if len(args) > 1 && strings.EqualFold(args[0], "/c") {
			return shellWords(strings.Join(args[1:], " ")), true
		}
	case "sh", "bash", "zsh", "dash", "ksh", "ash", "fish", "pwsh", "powershell":
		for i, arg := range args[:max(len(args)-1, 0)] {
			short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, "c")
			if short || strings.EqualFold(arg, "-command") {
				return shellWords(args[i+1]), true
			}
		}
	}
	return nil, false
}

// programName returns the name of a program without folder and suffix.
func programName(command string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(command, `\`, "/")))
	for _, suffix := range []string{".exe", ".cmd", ".bat"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// packaged returns the command of a package runner such as npx.
func packaged(args []string) ([]string, bool) {
	return named(afterOptions(args, "-p", "--package", "-w", "--workspace", "--registry"))
}

// named gives a package of the product the name of the program, without a version.
func named(words []string) ([]string, bool) {
	if len(words) == 0 {
		return nil, false
	}
	name := words[0]
	if at := strings.LastIndexByte(name, '@'); at > 0 {
		name = name[:at]
	}
	if programName(name) == binaryName {
		return append([]string{binaryName}, words[1:]...), true
	}
	return words, true
}

// image returns the image of "docker run" and the arguments of its program.
func image(args []string) ([]string, bool) {
	if len(args) > 0 && args[0] == "container" {
		args = args[1:]
	}
	if len(args) == 0 || args[0] != "run" {
		return nil, false
	}
	words := afterOptions(args[1:], strings.Fields(`-e --env --env-file -v --volume --mount -p --publish --name
		-w --workdir -u --user --network --net -l --label --entrypoint --platform -m --memory --cpus --add-host
		-h --hostname --pull --restart --security-opt --cap-add --cap-drop --tmpfs --device --ulimit --log-driver
		--log-opt --gpus --ipc --pid --shm-size --runtime --dns --cidfile --stop-signal --stop-timeout --userns`)...)
	if len(words) == 0 {
		return nil, false
	}
	name, _, _ := strings.Cut(path.Base(words[0]), "@")
	name, _, _ = strings.Cut(name, ":")
	if name == binaryName {
		return append([]string{binaryName}, words[1:]...), true
	}
	return nil, false
}

// afterOptions returns the words after options and assignments. withValue are the options that take
// the next word as their value.
func afterOptions(words []string, withValue ...string) []string {
	for i := 0; i < len(words); i++ {
		name, _, assigned := strings.Cut(words[i], "=")
		switch {
		case words[i] == "--":
			return words[i+1:]
		case slices.Contains(withValue, words[i]):
			i++
		case strings.HasPrefix(words[i], "-"), assigned && envName.MatchString(name):
		default:
			return words[i:]
		}
	}
	return nil
}

// shellWords splits the first command of a script roughly, without the assignments before.
func shellWords(script string) []string {
	for _, end := range []string{";", "|", "&"} {
		first, rest, more := strings.Cut(strings.TrimSpace(script), end)
		if more && strings.HasPrefix(first, "cd ") { // cd FOLDER && ...
			first = strings.TrimLeft(rest, "& ")
		}
		script = first
	}
	words := strings.Fields(script)
	for i, w := range words {
		words[i] = strings.Trim(w, `"'`)
	}
	return afterOptions(words)
}

// isRenamedProduct reports whether a program is the product under another name: by the name of the file at
// the end of links, by being the file of this process, or by the compiler's build information in
// the file.
func isRenamedProduct(command string) bool {
	file, err := exec.LookPath(command)
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if programName(file) == binaryName {
		return true
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if own, err := os.Executable(); err == nil {
		if same, err := os.Stat(own); err == nil && os.SameFile(info, same) {
			return true
		}
	}
	return builtAsProduct(file)
}

// builtAsProduct reports whether the compiler has built a file from our command.
func builtAsProduct(file string) bool {
	f, err := regular.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := buildinfo.Read(f)
	return err == nil && info.Main.Path == modulePath && path.Base(strings.TrimSuffix(info.Path, ".test")) == binaryName
}
