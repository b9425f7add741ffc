package doctor

import (
	"cmp"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// program is a runtime that servers are started with.
type program struct {
	install string   // how to get it
	asks    string   // the program that is asked for its version
	args    []string // with these arguments
	least   [2]int   // the oldest version that current servers run with; zeros for any
}

// programs are the runtimes. Node.js 18 is what the SDK for TypeScript needs (its
// package.json, engines), Python 3.10 what the SDK for Python needs (pyproject.toml).
var programs = map[string]program{
	"node":    {"install Node.js 18 or later (https://nodejs.org)", "node", []string{"--version"}, [2]int{18}},
	"npx":     {"install Node.js 18 or later (https://nodejs.org), which has npx", "node", []string{"--version"}, [2]int{18}},
	"npm":     {"install Node.js 18 or later (https://nodejs.org), which has npm", "node", []string{"--version"}, [2]int{18}},
	"bunx":    {"install Bun (https://bun.sh)", "bun", []string{"--version"}, [2]int{}},
	"deno":    {"install Deno (https://deno.com)", "deno", []string{"--version"}, [2]int{}},
	"uvx":     {"install uv (https://docs.astral.sh/uv), which has uvx", "uv", []string{"--version"}, [2]int{}},
	"uv":      {"install uv (https://docs.astral.sh/uv)", "uv", []string{"--version"}, [2]int{}},
	"python":  {"install Python 3.10 or later, or write python3", "python", []string{"--version"}, [2]int{3, 10}},
	"python3": {"install Python 3.10 or later", "python3", []string{"--version"}, [2]int{3, 10}},
	"docker":  {"install Docker (https://docs.docker.com/get-docker)", "docker", []string{"version", "--format", "{{.Server.Version}}"}, [2]int{}},
	"podman":  {"install Podman (https://podman.io)", "podman", []string{"--version"}, [2]int{}},
}

// programs looks at the commands of servers.
func (e *examination) programs() {
	asked := map[string]bool{}
	for _, u := range e.enabled() {
		if u.Transport != config.Stdio {
			continue
		}
		path := e.Getenv("PATH")
		own, hasOwn := u.Env["PATH"]
		if hasOwn {
			path = own
		}
		found := lookup(u.Command, path)
		base := strings.TrimSuffix(filepath.Base(u.Command), ".exe")
		runtime, known := programs[base]
		if found == "" {
			remedy := "install it, or give its full path in command"
			if known {
				remedy = runtime.install + ", or give its full path in command"
			}
			e.find(idCommandMissing, upstreamObject(u.Name), remedy, "the command %q is not found", u.Command)
			e.missing[u.Name] = true
			continue
		}
		if !hasOwn {
			e.desktop(u, found)
		}
		if known && !asked[base] {
			asked[base] = true
			e.version(base, runtime, path)
		}
	}
}

// desktop checks whether a command is found by hosts that were started from a desktop.
func (e *examination) desktop(u *config.Upstream, found string) {
	short := clientconfig.DesktopPath(runtime.GOOS)
	if short == "" {
		return
	}
	if lookup(u.Command, short) == "" {
		e.find(idDesktopPath, upstreamObject(u.Name), "write command = "+strconv.Quote(found)+", or set PATH in its env",
			"the command %q is found here, but not by hosts that are started from the desktop (their PATH is %s)", u.Command, short)
	}
	if i := clientconfig.Interpreter(found); i != "" && lookup(i, short) == "" {
		e.find(idInterpreterPath, upstreamObject(u.Name), "set PATH in its env to one with the folder of "+i+": "+filepath.Dir(cmp.Or(lookup(i, e.Getenv("PATH")), found)),
			"%s is a script for %s, which hosts that are started from the desktop do not find (their PATH is %s)", found, i, short)
	}
}

// lookup returns the path of a command in a PATH, "" if it is not there.
func lookup(command, path string) string {
	if filepath.Base(command) != command {
		found, _ := exec.LookPath(command)
		return found
	}
	found, _ := clientconfig.Find(command, path)
	return found
}

// versionTime is how long a runtime may take to say its version.
const versionTime = 5 * time.Second

var number = regexp.MustCompile(`(\d+)\.(\d+)`)

// version asks a runtime for its version.
func (e *examination) version(name string, p program, path string) {
	asks := lookup(p.asks, path)
	if asks == "" {
		e.find(idRuntimeBroken, name, p.install, "%s is there, but %s is not", name, p.asks)
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, asks, p.args...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	text := strings.TrimSpace(string(out))
	if err != nil {
		why := err.Error()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if line, _, _ := strings.Cut(strings.TrimSpace(string(exit.Stderr)), "\n"); line != "" {
				why = line
			}
		}
		if ctx.Err() != nil {
			why = "no answer within 5 seconds"
		}
		remedy := "try it in a terminal: " + strings.Join(append([]string{p.asks}, p.args...), " ")
		if name == "docker" {
			remedy = "start Docker"
		}
		e.find(idRuntimeBroken, name, remedy, "%s", why)
		return
	}
	m := number.FindStringSubmatch(text)
	if m == nil {
		return
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if slices.Compare([]int{major, minor}, p.least[:]) < 0 {
		e.find(idRuntimeOld, name, p.install, "%s has version %s.%s, which is too old for many servers", p.asks, m[1], m[2])
	}
}
