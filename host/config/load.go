package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/limits"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// The environment variables that [Load] reads. An empty one counts as not set.
const (
	EnvConfig  = "MCP_METATOOL_CONFIG"  // the configuration file
	EnvDir     = "MCP_METATOOL_DIR"     // directory of saved tools, and where the configuration is looked for
	EnvTimeout = "MCP_METATOOL_TIMEOUT" // execution timeout in milliseconds
	EnvDebug   = "MCP_METATOOL_DEBUG"   // true, false, 1 or 0
)

// maxFile is the largest configuration file that is read, in bytes. It is about a thousand
// times as large as real files.
const maxFile = 1 << 20

// LoadOptions says where to find a configuration. The zero value uses the environment of
// the process.
type LoadOptions struct {
	// Context bounds the reading of files; nil: context.Background().
	Context context.Context
	// Flag is the file named on the command line, "" for none.
	Flag string
	// Getenv reads an environment variable; nil means [os.LookupEnv].
	Getenv func(string) (string, bool)
	// Home finds the user's home directory; nil means [os.UserHomeDir].
	Home func() (string, error)
	// Unset, if set, is called with the name of an upstream that is not disabled and with a
	// variable in it that has no value, in place of an error. The caller then leaves that
	// upstream out. It is for [Load], [LoadWithin] and [Parse].
	Unset func(upstream string, p *Problem)
	// Tolerate makes a mistake in one upstream that one's problem only: see
	// [Upstream.Invalid] and [Config.LeftOut]. It is for [Load] and
	// [Parse] only.
	Tolerate bool
	// Policies compiles the policy, and so finds the mistakes in its conditions: that of
	// package compile. Without it, nothing may be decided by the policy.
	Policies PolicyCompiler
}

func (o LoadOptions) context() context.Context {
	if o.Context == nil {
		return context.Background()
	}
	return o.Context
}

// Load finds, reads and checks the configuration.
//
// The file is the first of: Flag; $MCP_METATOOL_CONFIG; config.toml in DIR;
// config.json in DIR, where DIR is $MCP_METATOOL_DIR or else ~/.mcp-metatool.
// The first two must exist. It is not an error if none of the others exists: the
// configuration then consists of defaults and the environment. The environment takes
// precedence over the file (MCP_METATOOL_DIR over [store] dir too), and [store] dir does
// not affect where the file is looked for.
//
// A file with a name that ends in .json is read as JSON, every other file as TOML. The
// error joins all problems, each a *[Problem].
func Load(opts LoadOptions) (*Config, error) {
	c, problems := load(opts)
	if len(problems) > 0 {
		return nil, join(problems)
	}
	return c, nil
}

// Parse is [Load] for data that is, or may become, the content of the file called name. Flag
// is ignored. The secrets that it returns are those of the file as far as it could be read,
// even if there are problems.
func Parse(opts LoadOptions, name string, data []byte) (c *Config, secrets []string, err error) {
	l, c := newLoader(opts), newConfig()
	l.unset = opts.Unset
	if problem := l.parse(c, name, data, nil); problem != nil {
		l.problems = append(l.problems, problem)
	}
	l.environment(c)
	if len(l.problems) > 0 {
		return nil, c.Secrets, join(l.problems)
	}
	return c, c.Secrets, nil
}

// Digest returns the SHA-256 digest of the file's content in hexadecimal digits; "" if there
// is no file.
func (c *Config) Digest() string { return c.digest }

// StoreDir returns the Store.Dir of Load, even if Load finds problems elsewhere. If the
// file cannot be read or has a syntax error, it returns the default. It returns "" if that
// is unknown too, which is one of Load's problems.
func StoreDir(opts LoadOptions) string {
	c, _ := load(opts)
	return c.Store.Dir
}

// Partial returns the configuration as far as it could be read. It is for hints; nothing
// should be started with it.
func Partial(opts LoadOptions) *Config {
	c, _ := load(opts)
	return c
}

// Files returns the files that Load looks for, in that order: the one that is named, or
// those in DIR.
func Files(opts LoadOptions) []string {
	files, _ := newLoader(opts).files(opts.Flag)
	return files
}

// load returns the configuration as far as it could be read, and what is wrong with it.
func load(opts LoadOptions) (*Config, []*Problem) {
	l, c := newLoader(opts), newConfig()
	l.unset = opts.Unset
	if err := l.readFile(c, opts.Flag); err != nil {
		l.problems = append(l.problems, err)
	}
	l.environment(c)
	return c, l.problems
}

func newLoader(opts LoadOptions) *loader {
	l := &loader{ctx: opts.context(), getenv: opts.Getenv, home: opts.Home, tolerate: opts.Tolerate, policies: opts.Policies}
	if l.getenv == nil {
		l.getenv = os.LookupEnv
	}
	if l.home == nil {
		l.home = os.UserHomeDir
	}
	return l
}

// newConfig returns a configuration with defaults only.
func newConfig() *Config {
	c := &Config{
		Execution: Execution{ToolCalls: ToolCallsShort},
		HTTP:      HTTP{Listen: DefaultListen, Path: DefaultPath},
		Telemetry: Telemetry{Traces: true, Metrics: true},
		Approval:  defaultApproval,
		Plan:      Plan{Expires: DefaultPlanExpires},
		LogFormat: LogText, Pins: PinsOff,
		Journal: Journal{Enabled: true, Sync: SyncNever, Proxied: ProxiedSummary, Signing: Signing{Sign: SignOn}},
		shown:   map[string]string{}, fetched: &fetched{},
	}
	setDefaults(c.limits())
	return c
}

// loader is one call of Load.
type loader struct {
	ctx      context.Context
	getenv   func(string) (string, bool)
	home     func() (string, error)
	unset    func(upstream string, p *Problem) // see LoadOptions
	tolerate bool                              // see LoadOptions
	policies PolicyCompiler                    // see LoadOptions
	located  bool                              // see reader
	problems []*Problem
}

// files returns the files to look for. source says what names the only one; "" if none
// has to exist.
func (l *loader) files(flag string) (names []string, source string) {
	if flag != "" {
		return []string{flag}, "--config"
	}
	if name := l.env(EnvConfig); name != "" {
		return []string{name}, EnvConfig
	}
	dir, err := l.dir()
	if err != nil {
		// Without a home directory there is no file. A missing directory of the store
		// is reported later.
		return nil, ""
	}
	return []string{filepath.Join(dir, "config.toml"), filepath.Join(dir, "config.json")}, ""
}

// readFile finds the file and fills c from it. The error is about the file as a whole;
// problems with its content are added to l.
func (l *loader) readFile(c *Config, flag string) *Problem {
	names, source := l.files(flag)
	for i, name := range names {
		data, err := readCapped(l.ctx, name)
		if errors.Is(err, fs.ErrNotExist) {
			if source != "" {
				return &Problem{File: name, Text: fmt.Sprintf("%v (named by %s)", ErrNotFound, source), Err: ErrNotFound}
			}
			continue
		}
		for _, other := range names[i+1:] {
			if _, err := os.Stat(other); err == nil {
				c.warnings = append(c.warnings, fmt.Sprintf("%s is not read: %s comes first", other, name))
			}
		}
		return l.parse(c, name, data, err)
	}
	c.Searched = names
	return nil
}

// readCapped reads a file of at most maxFile bytes.
func readCapped(ctx context.Context, name string) ([]byte, error) {
	data, err := regular.Read(ctx, name, maxFile)
	if sized := new(regular.SizeError); errors.As(err, &sized) {
		return nil, fmt.Errorf("has more than the %s a configuration may have", units.FormatSize(maxFile))
	}
	return data, err
}

// read reads a further file that a configuration file names.
func (l *loader) read(name string) ([]byte, error) { return readCapped(l.ctx, name) }

// unreadable returns an error that says why a file cannot be read.
func unreadable(name string, err error) *Problem {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &Problem{File: name, Text: fmt.Sprintf("cannot be read: %v", pe.Err), Err: err}
	}
	return &Problem{File: name, Text: err.Error(), Err: err}
}

// parse fills c from the bytes of a file, or reports why it could not.
func (l *loader) parse(c *Config, name string, data []byte, err error) *Problem {
	if err != nil {
		return unreadable(name, err)
	}
	base, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return &Problem{File: name, Text: fmt.Sprintf("its directory cannot be determined: %v", err), Err: err}
	}
	c.Path = name
	sum := sha256.Sum256(data)
	c.digest = hex.EncodeToString(sum[:])
	var root *node
	var problem *Problem
	c.json = strings.EqualFold(filepath.Ext(name), ".json")
	if c.json {
		root, problem = parseJSON(data)
	} else {
		root, problem = parseTOML(data)
	}
	if problem != nil {
		problem.File = name
		return problem
	}
	r := &reader{file: name, json: c.json, read: l.read, base: base, getenv: l.getenv, home: l.home, shown: c.shown, located: l.located, unset: l.unset, tolerate: l.tolerate, policies: l.policies}
	decode(r, root, c)
	c.Secrets, c.plain = sortSecrets(r.secrets), r.plain
	c.warnings, c.leftOut = append(c.warnings, r.warnings...), r.leftOut
	l.problems = append(l.problems, r.problems...)
	return nil
}

// environment overrides settings of the file with those of the environment, and sets the
// store.
func (l *loader) environment(c *Config) {
	bad := func(key, format string, args ...any) {
		l.problems = append(l.problems, &Problem{Key: "env " + key, Text: fmt.Sprintf(format, args...)})
	}
	if s := l.env(EnvTimeout); s != "" {
		ms, err := strconv.ParseInt(s, 10, 64)
		const unit = int64(time.Millisecond)
		least, most := limits.Time.Least/unit, limits.Time.Most/unit
		switch {
		case err != nil:
			bad(EnvTimeout, "%q is not a number of milliseconds (for thirty seconds: 30000)", s)
		case ms < least || ms > most:
			bad(EnvTimeout, "%d is out of bounds: at least %d, at most %d (milliseconds)", ms, least, most)
		default:
			c.Execution.Timeout = time.Duration(ms) * time.Millisecond
		}
	}
	if s := l.env(EnvDebug); s != "" {
		switch strings.ToLower(s) {
		case "true", "1":
			c.Debug = true
		case "false", "0":
			c.Debug = false
		default:
			bad(EnvDebug, "%q is neither true nor false", s)
		}
	}
	if c.Store.Dir == "" || l.env(EnvDir) != "" {
		dir, err := l.dir()
		switch {
		case err != nil && l.env(EnvDir) == "":
			bad(EnvDir, "is not set, nor is dir of [store], and %v (set one of them)", err)
		case err != nil:
			bad(EnvDir, "%v", err)
		}
		c.Store.Dir = dir
		delete(c.shown, "store.dir")
	}
}

// env returns the value of a variable, "" if it is not set.
func (l *loader) env(key string) string {
	s, _ := l.getenv(key)
	return s
}

// dir returns DIR of the look-up order, as an absolute path.
func (l *loader) dir() (string, error) {
	dir := l.env(EnvDir)
	if dir == "" {
		dir = "~/.mcp-metatool"
	}
	dir, err := expandHome(dir, l.home)
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}
