package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
)

// program is a program that starts servers.
type program struct {
	install  string // advice for the installation
	runtimes []runtimeOf
}

// runtimeOf is a program that is asked for its version.
type runtimeOf struct {
	name  string
	args  []string
	least [2]int // the oldest version for current servers; zeros for any
}

// The runtimes. The SDK for TypeScript needs Node.js 18 (its package.json, engines), the SDK for
// Python needs Python 3.10 (pyproject.toml). npm 7 is the first whose npx installs packages and
// knows -y (docs.npmjs.com/cli/v7/commands/npx); uv 0.3 the first with a stable uvx
// (github.com/astral-sh/uv, CHANGELOG); Bun 1.0 and Deno 2.0 the first that run most packages of
// npm.
var (
	nodeJS  = runtimeOf{"node", []string{"--version"}, [2]int{18}}
	npm     = runtimeOf{"npm", []string{"--version"}, [2]int{7}}
	bun     = runtimeOf{"bun", []string{"--version"}, [2]int{1}}
	deno    = runtimeOf{"deno", []string{"--version"}, [2]int{2}}
	uv      = runtimeOf{"uv", []string{"--version"}, [2]int{0, 3}}
	python  = runtimeOf{"python", []string{"--version"}, [2]int{3, 10}}
	python3 = runtimeOf{"python3", []string{"--version"}, [2]int{3, 10}}
	docker  = runtimeOf{"docker", []string{"version", "--format", "{{.Server.Version}}"}, [2]int{}}
	podman  = runtimeOf{"podman", []string{"--version"}, [2]int{}}
)

// programs are the known commands.
var programs = map[string]program{
	"node":    {"install Node.js 18 or later (https://nodejs.org)", []runtimeOf{nodeJS}},
	"npx":     {"install Node.js 18 or later (https://nodejs.org), which has npx", []runtimeOf{nodeJS, npm}},
	"npm":     {"install Node.js 18 or later (https://nodejs.org), which has npm", []runtimeOf{nodeJS, npm}},
	"bunx":    {"install Bun 1.0 or later (https://bun.sh)", []runtimeOf{bun}},
	"deno":    {"install Deno 2.0 or later (https://deno.com)", []runtimeOf{deno}},
	"uvx":     {"install uv 0.3 or later (https://docs.astral.sh/uv), which has uvx", []runtimeOf{uv}},
	"uv":      {"install uv 0.3 or later (https://docs.astral.sh/uv)", []runtimeOf{uv}},
	"python":  {"install Python 3.10 or later, or write python3", []runtimeOf{python}},
	"python3": {"install Python 3.10 or later", []runtimeOf{python3}},
	"docker":  {"install Docker (https://docs.docker.com/get-docker)", []runtimeOf{docker}},
	"podman":  {"install Podman (https://podman.io)", []runtimeOf{podman}},
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
		p, known := programs[base]
		if found == "" {
			e.missing(u, p.install, known)
			continue
		}
		if !hasOwn {
			e.desktop(u, found)
		}
		for _, r := range p.runtimes {
			if !asked[r.name] {
				asked[r.name] = true
				e.version(base, r, p.install, path)
			}
		}
	}
}

// missing reports: the command of a server cannot be run.
func (e *examination) missing(u *config.Upstream, install string, known bool) {
	e.explained[u.Name] = true
	object := upstreamObject(u.Name)
	if info, err := os.Stat(u.Command); filepath.Base(u.Command) != u.Command && err == nil {
		if info.IsDir() {
			e.find(idCommandMissing, object, "write the path of a program in it", "the command %q is a folder", u.Command)
		} else {
			e.find(idCommandMissing, object, shellquote.Join("chmod", "+x", u.Command)+", or start it with its interpreter as the command", "the command %q is not executable", u.Command)
		}
		return
	}
	if !known {
		install = "install it"
	}
	e.find(idCommandMissing, object, install+", or give its full path in command", "the command %q is not found", u.Command)
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

// lookup returns the path of a command in a PATH, "" for none.
func lookup(command, path string) string {
	if filepath.Base(command) != command {
		found, _ := exec.LookPath(command)
		return found
	}
	found, _ := clientconfig.Find(command, path)
	return found
}

// versionTime is how long a runtime may take to print its version.
const versionTime = 5 * time.Second

var number = lazyregexp.New(`(\d+)\.(\d+)`)

// version asks a runtime for its version. name is the command that needs the runtime.
func (e *examination) version(name string, r runtimeOf, install, path string) {
	asks := lookup(r.name, path)
	if asks == "" {
		e.find(idRuntimeBroken, name, install, "%s is there, but %s is not", name, r.name)
		return
	}
	ctx, cancel := context.WithTimeout(e.ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, asks, r.args...)
	cmd.WaitDelay = time.Second
	cmd.Env = append(os.Environ(), "PATH="+path) // npm is a script for node
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
		remedy := "try it in a terminal: " + strings.Join(append([]string{r.name}, r.args...), " ")
		if name == "docker" {
			remedy = "start Docker"
		}
		e.find(idRuntimeBroken, r.name, remedy, "%s", why)
		return
	}
	m := number.FindStringSubmatch(text)
	if m == nil {
		return
	}
	seen := Runtime{Name: r.name, Version: m[0]}
	if r.least != [2]int{} {
		seen.Minimum = fmt.Sprintf("%d.%d", r.least[0], r.least[1])
	}
	e.report.Runtimes = append(e.report.Runtimes, seen)
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if slices.Compare([]int{major, minor}, r.least[:]) < 0 {
		e.find(idRuntimeOld, r.name, install, "%s has version %s; current servers need %s or later", r.name, m[0], seen.Minimum)
	}
}
