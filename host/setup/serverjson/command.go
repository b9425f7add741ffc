package serverjson

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// packaging is how packages of a type are named and run.
type packaging struct {
	// command runs the packages; others are commands that a document may name instead.
	command string
	others  []string
	// identifier is the form of a name, without options, addresses and files.
	identifier *lazyregexp.Regexp
	// registries are the values of registryBaseUrl for the registry of the command.
	registries []string
	// versioned means that the version is not a part of the identifier.
	versioned bool
}

var packagings = map[string]packaging{
	"npm": {
		command: "npx", identifier: lazyregexp.New(`^(@[A-Za-z0-9_~][A-Za-z0-9._~-]*/)?[A-Za-z0-9_~][A-Za-z0-9._~-]*$`),
		registries: []string{"https://registry.npmjs.org"}, versioned: true,
	},
	"pypi": {
		command: "uvx", identifier: lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`),
		registries: []string{"https://pypi.org", "https://pypi.org/simple"}, versioned: true,
	},
	"oci": {
		command: "docker", others: []string{"podman"},
		identifier: lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[a-f0-9]{64})?$`),
	},
	"nuget": {
		command: "dnx", identifier: lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`),
		registries: []string{"https://api.nuget.org", "https://api.nuget.org/v3/index.json", "https://www.nuget.org"}, versioned: true,
	},
}

// versionPattern is a version, not a range, a tag or an address.
var (
	versionPattern = lazyregexp.New(`^v?[0-9][0-9A-Za-z.+!_-]*$`)
	versionRange   = lazyregexp.New(`(^|\.)[xX*]($|\.)`)
)

// usable returns why a package cannot be used.
func (p *Package) usable(at string) error {
	how, known := packagings[p.RegistryType]
	switch {
	case p.RegistryType == "" && p.Registry != "":
		return wrong(at, "is in the form of an older schema (registry_type): ask the publisher for one of 2025-09-16 or later")
	case p.RegistryType == "mcpb":
		return wrong(at, "is a bundle for desktop hosts (mcpb)")
	case !known:
		return wrong(at, "is of the type %s, which is not known (there are npm, pypi, oci and nuget)", quoted(p.RegistryType))
	case p.Transport.Type != "stdio" && p.Transport.Type != "":
		return wrong(at, "has to be started first and then connected to (%s)", quoted(p.Transport.Type))
	case !how.identifier.MatchString(p.Identifier) || len(p.Identifier) > 300:
		return wrong(at+".identifier", "%s is not the name of a package of type %s", quoted(p.Identifier), p.RegistryType)
	case p.Version != "" && (!versionPattern.MatchString(p.Version) || versionRange.MatchString(p.Version)):
		return wrong(at+".version", "%s is not one version", quoted(p.Version))
	case how.versioned && p.RegistryBaseURL != "" && !slices.Contains(how.registries, strings.TrimRight(p.RegistryBaseURL, "/")):
		return wrong(at+".registryBaseUrl", "%s is another registry than the one that %s uses", quoted(p.RegistryBaseURL), how.command)
	case !how.versioned && !packagings["oci"].identifier.MatchString(p.image()):
		return wrong(at+".registryBaseUrl", "%s is not the address of a registry", quoted(p.RegistryBaseURL))
	}
	for i, v := range p.EnvironmentVariables {
		if isReserved(v.Name) {
			return wrong(fmt.Sprintf("%s.environmentVariables[%d]", at, i),
				"sets %s, which changes where %s finds packages or what programs load (a server.json may not set it)", v.Name, how.command)
		}
	}
	return nil
}

// runtime returns the command that runs a package, and whether the document names the command.
func (p *Package) runtime() (command string, asHinted bool) {
	how := packagings[p.RegistryType]
	if slices.Contains(how.others, p.RuntimeHint) {
		return p.RuntimeHint, true
	}
	return how.command, p.RuntimeHint == "" || p.RuntimeHint == how.command
}

// Notes returns notes for a person before running the option with these values, as for
// [Option.Server], in a sentence each.
func (o *Option) Notes(values map[string][]string) []string {
	var notes []string
	if o.remote != nil {
		if u, err := url.Parse(o.remote.URL); err == nil && u.Scheme == "http" && !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname()) {
			notes = append(notes, "the connection is not encrypted (http)")
		}
		return notes
	}
	if command, asHinted := o.pkg.runtime(); !asHinted {
		notes = append(notes, "the publisher suggests "+quoted(o.pkg.RuntimeHint)+"; "+command+" is used instead")
	}
	if how := packagings[o.pkg.RegistryType]; how.versioned && o.pkg.Version == "" {
		notes = append(notes, "no version is named, so whatever is the newest is run at each start")
	}
	before, err := o.pkg.runtimeWords(o.where, values)
	if err != nil {
		return notes // Server has the same error
	}
	options, _ := o.pkg.checkRuntime(o.where, before)
	for i, name := range options {
		if why := risky[o.pkg.RegistryType][name]; why != "" && !slices.Contains(options[:i], name) {
			notes = append(notes, name+": "+why)
		}
	}
	return notes
}

// runtimeWords returns the words between the command and the package.
func (p *Package) runtimeWords(at string, values map[string][]string) ([]string, error) {
	before, err := words(at, p.RuntimeArguments, values)
	if err == nil && p.RegistryType == "oci" && len(before) > 0 && before[0] == "run" { // some publishers write "run"
		before = before[1:]
	}
	return before, err
}

// server returns the command that runs the package.
func (p *Package) server(at string, values map[string][]string) (edit.Server, error) {
	env, err := settings(at, p.EnvironmentVariables, "environment variable", values)
	if err != nil {
		return edit.Server{}, err
	}
	before, err := p.runtimeWords(at, values)
	if err != nil {
		return edit.Server{}, err
	}
	if _, err := p.checkRuntime(at, before); err != nil {
		return edit.Server{}, err
	}
	after, err := words(at, p.PackageArguments, values)
	if err != nil {
		return edit.Server{}, err
	}
	s := edit.Server{Env: env}
	s.Command, _ = p.runtime()
	switch p.RegistryType {
	case "npm":
		s.Args = slices.Concat(unless(before, []string{"-y"}, "-y", "--yes"), []string{p.at("@")}, after)
	case "pypi":
		s.Args = slices.Concat(before, []string{p.at("@")}, after)
	case "nuget":
		s.Args = slices.Concat(unless(before, []string{"--yes"}, "--yes", "-y"), []string{p.at("@")})
		if len(after) > 0 {
			s.Args = slices.Concat(s.Args, []string{"--"}, after)
		}
	case "oci":
		before = unless(before, []string{"--rm"}, "--rm")
		before = unless(before, []string{"-i"}, "-i", "--interactive", "-it", "-ti")
		s.Args = append([]string{"run"}, before...)
		for _, v := range s.Env {
			s.Args = append(s.Args, "-e", v.Name) // the value comes from the environment
		}
		s.Args = slices.Concat(s.Args, []string{p.image()}, after)
	}
	return s, nil
}

// at returns the identifier with the version, if any.
func (p *Package) at(separator string) string {
	if p.Version == "" {
		return p.Identifier
	}
	return p.Identifier + separator + p.Version
}

// image returns the reference of a container image.
func (p *Package) image() string {
	image := p.Identifier
	first, _, many := strings.Cut(image, "/")
	hasHost := many && (strings.ContainsAny(first, ".:") || first == "localhost")
	if u, err := url.Parse(p.RegistryBaseURL); p.RegistryBaseURL != "" && !hasHost {
		if err != nil || u.Host == "" {
			return ""
		}
		if !strings.HasSuffix(u.Host, "docker.io") {
			image = u.Host + "/" + image
		}
	}
	last := image[strings.LastIndexByte(image, '/')+1:]
	if p.Version != "" && !strings.ContainsAny(last, ":@") {
		image += ":" + p.Version
	}
	return image
}

// unless returns more followed by list, or list alone if list has a word of has.
func unless(list, more []string, has ...string) []string {
	if slices.ContainsFunc(list, func(w string) bool { return slices.Contains(has, w) }) {
		return list
	}
	return append(more, list...)
}

// grammar is the set of words that a document may give to the command that runs its packages. The
// command must not take another word for the package, nor look for the package elsewhere.
type grammar struct {
	// alone are options without a value. valued have a value: the next word, or after a "=".
	alone, valued []string
	// packages are the options of valued whose value is a package.
	packages []string
	// spec is the form of such a value: no address, no file.
	spec *lazyregexp.Regexp
	// assigned means that other options are allowed too, if they have a "=".
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
		"--cgroupns": lessIsolated, "--runtime": lessIsolated, "--entrypoint": "another program than the image's own is run",
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
