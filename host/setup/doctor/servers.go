package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/protocol"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
	"github.com/mcp-metatool/mcp-metatool/host/servers/health"
	"github.com/mcp-metatool/mcp-metatool/host/servers/oauth"
	"github.com/mcp-metatool/mcp-metatool/host/servers/supervise"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

const (
	slowStart = 5 * time.Second
	slowList  = 2 * time.Second
	// recent is how long a failure is mentioned.
	recent = 24 * time.Hour
)

// servers looks at how servers have started.
func (e *examination) servers() {
	for _, u := range e.enabled() {
		o, seen := e.Observed[u.Name]
		failure, failed := supervise.LastFailure(e.Store, u.Name)
		failed = failed && e.Now.Sub(failure.At) < recent
		object := upstreamObject(u.Name)
		if !seen {
			if failed {
				e.find(idServerCrashed, object, e.command("servers", u.Name)+" starts it and shows its log", "it failed %s ago: %s", ago(e.Now, failure.At), strings.TrimPrefix(failure.Error, object+": "))
			}
			continue
		}
		st := o.Status
		switch {
		case st.State == health.Asleep:
			tools := "the cost of its tools is not known yet"
			if len(o.Tools) > 0 {
				tools = "its tools are those that it listed last"
			}
			e.find(idServerAsleep, object, e.command("servers", u.Name)+" starts it", "it starts on first use, and was not started now; %s", tools)
		case st.State == servers.Starting:
			e.find(idServerDown, object, "wait longer: "+e.command("doctor", "--wait", "2m")+"; a first start may have to download packages", "it is still starting")
		case e.explained[u.Name]: // the reason is reported
		case st.State != servers.Ready:
			remedy := "correct what the error names; "
			if u.Transport != config.Stdio {
				remedy = "do what the error says, or look whether the server runs at its url; "
			}
			e.find(idServerDown, object, remedy+e.command("servers", u.Name, "--log-level", "debug")+" shows its log", "%s", strings.TrimPrefix(st.Err, object+": "))
		default:
			e.speed(object, o)
			if failed {
				e.find(idServerCrashed, object, "if that happens again, look at its log: "+e.command("servers", u.Name, "--log-level", "debug"),
					"it works now, but failed %s ago: %s", ago(e.Now, failure.At), strings.TrimPrefix(failure.Error, object+": "))
			}
		}
		e.report.Servers = append(e.report.Servers, describe(u, o))
	}
}

// speed looks at the times of a working server, and at its revision.
func (e *examination) speed(object string, o Observation) {
	start, list := o.Status.StartTime, o.List
	if start > slowStart || list > slowList {
		e.find(idServerSlow, object, "install its package, so that it is not downloaded at each start; or raise startup_wait",
			"it needs %s to start, and %s to list its tools", round(start), round(list))
	}
	if protocol.IsOldest(o.Status.ProtocolVersion) {
		e.find(idProtocolOld, object, "update the server", "it speaks revision %s of the protocol, the oldest", o.Status.ProtocolVersion)
	}
}

// describe returns the row of a server.
func describe(u *config.Upstream, o Observation) Server {
	st := o.Status
	s := Server{
		Name: u.Name, Sandbox: u.Sandbox.Summary(), State: string(st.State), Server: st.ServerName, Protocol: st.ProtocolVersion, Tools: len(o.Tools),
		Start: milliseconds(st.StartTime), List: milliseconds(o.List),
	}
	if st.ServerVersion != "" {
		s.Server += " " + st.ServerVersion
	}
	if r, ok := protocol.Lookup(st.ProtocolVersion); ok {
		s.Era = map[protocol.Era]string{protocol.Handshake: "handshake", protocol.Stateless: "stateless"}[r.Era()]
	}
	s.Tokens = tokensOf(o.Tools)
	return s
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
func round(d time.Duration) string         { return fmt.Sprint(d.Round(time.Millisecond)) }

// ago returns how long ago something was, in days if these are many.
func ago(now, then time.Time) string {
	if d := now.Sub(then); d >= 48*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	return units.FormatDuration(now.Sub(then).Round(time.Second))
}

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

// missing reports that the command of a server cannot be run.
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

// logins looks at the access tokens of servers that want OAuth.
func (e *examination) logins() {
	for _, u := range e.enabled() {
		if u.OAuth == nil {
			continue
		}
		login := e.command("auth", u.Name)
		state, err := oauth.Stored(e.Config.TokenFile(), u.Name, u.URL)
		if o, seen := e.Observed[u.Name]; seen && o.Status.State == servers.Ready {
			continue // no other token is needed
		}
		found := len(e.report.Findings)
		switch {
		case err != nil:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "%v", err)
		case !state.Exists:
			e.find(idLoginMissing, upstreamObject(u.Name), login, "no user has logged in")
		case !state.Expires.IsZero() && state.Expires.Before(e.Now) && !state.Renewable:
			e.find(idLoginExpired, upstreamObject(u.Name), login, "the access token expired %s ago, and there is no refresh token", ago(e.Now, state.Expires))
		}
		e.explained[u.Name] = e.explained[u.Name] || len(e.report.Findings) > found
	}
}

// clockSkew is the tolerated difference of clocks. Most servers accept tokens with as much.
const clockSkew = time.Minute

// clocks compares the local clock with the clocks of servers over HTTP. The local clock is right if
// it agrees with any of them.
func (e *examination) clocks() {
	var wrong []string
	for _, u := range e.enabled() {
		switch o := e.Observed[u.Name]; {
		case !o.Dated:
		case o.Ahead.Abs() <= clockSkew:
			return
		case o.Ahead > 0:
			wrong = append(wrong, fmt.Sprintf("%s ahead of %s", units.FormatDuration(o.Ahead.Round(time.Second)), u.Name))
		default:
			wrong = append(wrong, fmt.Sprintf("%s behind %s", units.FormatDuration(-o.Ahead.Round(time.Second)), u.Name))
		}
	}
	if len(wrong) > 0 {
		e.find(idClockWrong, "", "set the clock (timedatectl set-ntp true, or the settings of the system), unless the server's clock is wrong",
			"the clock of this machine is %s", strings.Join(wrong, ", "))
	}
}

// Instance is a running mcp-metatool server.
type Instance struct {
	PID    int
	Config string // absolute path of the configuration file; "" for none
	Same   bool   // has the configuration that is examined
	Err    error  // why the server does not answer; the other fields are unknown then
}

// instances looks at running mcp-metatool servers.
func (e *examination) instances() {
	for _, i := range e.Instances {
		config := i.Config
		if config == "" {
			config = "no configuration file"
		}
		switch {
		case i.Err != nil:
			e.find(idInstanceSilent, "", "end it if it hangs", "a running server does not answer: %v", i.Err)
		case !i.Same:
			e.find(idInstanceOther, fmt.Sprintf("process %d", i.PID), "if that is not meant, register the same file in every host (--config FILE), or give each its own store (MCP_METATOOL_DIR)",
				"another server runs with the same store and other settings: %s", config)
		}
	}
}

// The errors of Windows for addresses. The values of package syscall differ from Windows' own.
const (
	wsaDenied    = syscall.Errno(10013)
	wsaInUse     = syscall.Errno(10048)
	wsaNoAddress = syscall.Errno(10049)
)

// ports looks whether we can listen on the addresses of [http] and [telemetry], as far as
// they are configured. An mcp-metatool server with this configuration may have them.
func (e *examination) ports() {
	for _, i := range e.Instances {
		if i.Same {
			return
		}
	}
	if e.Config.HTTP.Configured() {
		e.port("http", e.Config.HTTP.Listen, "listen in [http], or serve --http")
	}
	if address := e.Config.Telemetry.Listen; address != "" {
		e.port("telemetry", address, "listen in [telemetry]")
	}
}

// port looks whether the proxy can listen on an address. settings names the setting of the address.
func (e *examination) port(table, address, settings string) {
	ln, err := net.Listen("tcp", address)
	if err == nil {
		ln.Close()
		return
	}
	object := table + ".listen"
	switch {
	case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaInUse):
		e.find(idPortUsed, object, "end the other program, or set another port ("+settings+")", "another program listens on %s", address)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, wsaDenied):
		e.find(idPortDenied, object, "set a port of 1024 or more ("+settings+")", "we may not listen on %s", address)
	default:
		var failed *net.OpError
		if errors.As(err, &failed) {
			err = failed.Err // the address is said already
		}
		reason := err.Error()
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, wsaNoAddress) {
			reason = "this machine does not have that address"
		}
		e.find(idPortAddress, object, "set 127.0.0.1, or an address of this machine ("+settings+")", "mcp-metatool cannot listen on %s: %s", address, reason)
	}
}
