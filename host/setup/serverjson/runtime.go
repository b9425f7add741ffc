package serverjson

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"slices"
	"strings"
)

// grammar is the set of words that a document may give to the command that runs its packages. The
// command must not take another word for the package, nor look for the package elsewhere.
type grammar struct {
	// alone are options without a value. valued have a value: the next word, or after a "=".
	alone, valued []string
	// packages are the options of valued whose value is a package.
	packages []string
	// spec is the form of such a value: no address, no file.
	spec *lazyregexp.Regexp
	// assigned means: other options are allowed too, if they have a "=".
	assigned bool
}

// plainValue matches values other than options, addresses and files.
var plainValue = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.@+:_-]*$`)

var grammars = map[string]grammar{
	"npm": {
		alone: []string{"-y", "--yes", "-q", "--quiet", "-s", "--silent", "-d", "--verbose", "--offline", "--prefer-offline",
			"--prefer-online", "--ignore-scripts", "--legacy-peer-deps", "--no-fund", "--no-audit", "--no-update-notifier"},
		valued: []string{"-p", "--package", "--loglevel"}, packages: []string{"-p", "--package"},
		spec: lazyregexp.New(`^(@[A-Za-z0-9_~][A-Za-z0-9._~-]*/)?[A-Za-z0-9_~][A-Za-z0-9._~-]*(@[A-Za-z0-9][A-Za-z0-9.+_-]*)?$`),
	},
	"pypi": {
		alone: []string{"-q", "--quiet", "-v", "--verbose", "-n", "--no-cache", "--offline", "--isolated", "--refresh", "--native-tls",
			"--no-progress", "--no-config", "--no-env-file", "--no-build", "--managed-python", "--no-managed-python",
			"--no-python-downloads", "-U", "--upgrade", "--reinstall"},
		valued: []string{"--from", "-w", "--with", "-p", "--python", "--prerelease", "--resolution", "--exclude-newer",
			"--python-platform", "--link-mode", "--color"},
		packages: []string{"--from", "-w", "--with"},
		spec:     lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?((==|>=|<=|~=|@)[0-9A-Za-z.+!_-]+)?$`),
	},
	"nuget": {
		alone:  []string{"-y", "--yes", "--prerelease", "--interactive", "--allow-roll-forward", "--ignore-failed-sources"},
		valued: []string{"-v", "--verbosity", "--framework"},
	},
	"oci": {
		alone: []string{"-i", "--interactive", "-t", "--tty", "-it", "-ti", "--rm", "--init", "--privileged", "--read-only", "-P", "--publish-all",
			"-q", "--quiet", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "--env-host", "--no-hosts", "--replace"},
		valued: []string{"-v", "--volume", "-e", "--env", "--env-file", "-p", "--publish", "--expose", "--name", "--network", "--net", "--mount",
			"-u", "--user", "-w", "--workdir", "--entrypoint", "--add-host", "--cap-add", "--cap-drop", "--security-opt", "-l", "--label",
			"-m", "--memory", "--cpus", "--platform", "--pull", "-h", "--hostname", "--device", "--ipc", "--pid", "--userns", "--tmpfs",
			"--shm-size", "--gpus", "--restart", "--stop-timeout", "--ulimit", "--group-add", "--dns", "--volumes-from", "--runtime", "--pids-limit"},
		assigned: true,
	},
}

// checkRuntime refuses words for the command that runs a package, which are in the language of the
// configuration, and returns the names of the options in the words.
func (p *Package) checkRuntime(at string, words []string) (options []string, err error) {
	g, command := grammars[p.RegistryType], packagings[p.RegistryType].command
	at += ".runtimeArguments"
	for i := 0; i < len(words); i++ {
		name, value, assigned := strings.Cut(words[i], "=")
		options = append(options, name)
		switch {
		case !strings.HasPrefix(name, "-"):
			return nil, wrong(at, "has the word %s before the package: %s would run that instead", quoted(words[i]), command)
		case slices.Contains(g.valued, name):
			if !assigned {
				if i++; i == len(words) || strings.HasPrefix(words[i], "-") {
					return nil, wrong(at, "has no value for the option %s of %s", quoted(name), command)
				}
				value = words[i]
			}
			if bad := g.refuses(name, value); bad {
				return nil, wrong(at, "has the value %s for the option %s of %s: only names from its default registry are allowed", quoted(value), quoted(name), command)
			}
		case !assigned && slices.Contains(g.alone, name):
		case assigned && g.assigned && strings.HasPrefix(name, "--"):
		default:
			return nil, wrong(at, "has the option %s, which a document may not give to %s", quoted(name), command)
		}
	}
	return options, nil
}

// refuses reports whether an option may not have a value.
func (g *grammar) refuses(option, value string) bool {
	switch {
	case g.assigned:
		return false
	case slices.Contains(g.packages, option):
		return !g.spec.MatchString(value)
	}
	return !plainValue.MatchString(value)
}

// risky are options of commands that remove protection, or run more than the package.
var risky = map[string]map[string]string{
	"oci": {
		"--privileged": "the container may do everything that this machine may", "--mount": seesFiles, "-v": seesFiles, "--volume": seesFiles,
		"--volumes-from": seesFiles, "--network": otherNetwork, "--net": otherNetwork, "--pid": "the container sees processes of this machine",
		"--ipc": "the container shares memory with others", "--cap-add": "the container has more rights than usual",
		"--group-add": "the container has more rights than usual", "--device": "the container uses a device of this machine",
		"--gpus": "the container uses a device of this machine", "--security-opt": lessIsolated, "--userns": lessIsolated, "--uts": lessIsolated,
		"--cgroupns": lessIsolated, "--runtime": lessIsolated, "--entrypoint": "another program than that of the image is run",
		"--env-file": "a file of this machine is read", "--env-host": "the container sees all environment variables",
		"--use-api-socket": "the container may do everything that this machine may", "--tls-verify": "the registry's certificate may not be checked",
		"-p": opensPort, "--publish": opensPort, "-P": opensPort, "--publish-all": opensPort,
	},
	"npm":  {"-p": anotherPackage, "--package": anotherPackage},
	"pypi": {"--from": anotherPackage, "--with": anotherPackage, "-w": anotherPackage},
}

const (
	seesFiles      = "the container sees a part of this machine's files"
	otherNetwork   = "the container uses another network than usual"
	lessIsolated   = "the container is isolated less than usual"
	opensPort      = "the container opens a port of this machine"
	anotherPackage = "another package is installed"
)

// reservedVariables configure the commands that run packages, or load code into programs.
// reservedPrefixes are the beginnings of more such variables. All are in upper case, since npm and
// Windows ignore case.
var (
	reservedVariables = []string{
		"PATH", "PATHEXT", "COMSPEC", "HOME", "USERPROFILE", "APPDATA", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "BASH_ENV", "GCONV_PATH",
		"NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONBREAKPOINT",
		"PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_ROOT", "DOTNET_CLI_HOME",
		"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CONTENT_TRUST",
		"DOCKER_CONTENT_TRUST_SERVER", "CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINERS_CONF", "CONTAINERS_REGISTRIES_CONF",
	}
	reservedPrefixes = []string{"NPM_CONFIG_", "UV_", "PIP_", "NUGET_", "LD_", "DYLD_", "CORECLR_", "COR_", "GIT_CONFIG"}
)

// isReserved reports whether a document may not set an environment variable.
func isReserved(name string) bool {
	name = strings.ToUpper(name)
	return slices.Contains(reservedVariables, name) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
