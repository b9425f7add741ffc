package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
	"github.com/mcp-metatool/mcp-metatool/tools/nearest"
)

// Settings holds the flags of verbs that read the configuration.
type Settings struct {
	Config string
	Debug  bool
	Level  slog.Level
	format logFormat
	Cmd    *cobra.Command

	// For the logger:
	Masker  *config.Masker
	Current slog.LevelVar
}

// Silent is a log level above all others, at which nothing is logged.
const Silent = slog.LevelError + 4

// AddFlags adds the flags to cmd. quiet is the log level unless a flag or the
// configuration sets another.
func (s *Settings) AddFlags(cmd *cobra.Command, quiet slog.Level) {
	s.Cmd = cmd
	f := cmd.Flags()
	f.StringVarP(&s.Config, "config", "c", "", "configuration `FILE` (default: $MCP_METATOOL_CONFIG, then config.toml or config.json in $MCP_METATOOL_DIR or ~/.mcp-metatool)")
	f.BoolVar(&s.Debug, "debug", false, "add backtraces to errors and debug entries to the log")
	f.TextVar(&s.Level, "log-level", quiet, "log entries of this `LEVEL` and above: debug, info, warn, error")
	f.Var(&s.format, "log-format", "`FORM` of log entries: "+formats()+" (default: log_format in the configuration)")
	if quiet == Silent {
		f.Lookup("log-level").DefValue = "" // silent has no name
	}
	_ = cmd.RegisterFlagCompletionFunc("config", FilesOf("toml", "json")) // the flag exists
	CompleteFlag(cmd, "log-level", LogLevels)
}

var LogLevels = OneOf("debug", "info", "warn", "error")

// Load reads the configuration. A mistake in an upstream affects only the upstream.
func (s *Settings) Load() (*config.Config, error) {
	return s.LoadWith(config.LoadOptions{Tolerate: true})
}

// LoadWith reads the configuration. The file and the context in opts come from s.
func (s *Settings) LoadWith(opts config.LoadOptions) (*config.Config, error) {
	opts.Context, opts.Flag, opts.Policies = s.Cmd.Context(), s.Config, compile.Policy
	cfg, err := config.Load(opts)
	if err != nil {
		return nil, Usage(err)
	}
	cfg.Debug = cfg.Debug || s.Debug
	return cfg, nil
}

// Logger returns a logger to standard error that masks the secrets of cfg.
func (s *Settings) Logger(cfg *config.Config) *slog.Logger {
	s.Masker = cfg.NewMasker()
	s.SetLevel(cfg)
	return NewLogger(s.Masker, s.Cmd.ErrOrStderr(), &s.Current, s.FormatOf(cfg))
}

// FormatOf returns the form of log entries.
func (s *Settings) FormatOf(cfg *config.Config) config.LogFormat {
	return config.LogFormat(cmp.Or(string(s.format), string(cfg.LogFormat)))
}

// logFormat is a flag for the form of log entries; "" if the flag is missing.
type logFormat config.LogFormat

// String implements pflag.Value.
func (f *logFormat) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *logFormat) Type() string { return "string" }

// Set implements pflag.Value.
func (f *logFormat) Set(text string) error {
	if !slices.Contains(config.LogFormats(), config.LogFormat(text)) {
		return fmt.Errorf("%q is not one of %s", text, formats())
	}
	*f = logFormat(text)
	return nil
}

// formats returns the forms of log entries.
func formats() string {
	var names []string
	for _, f := range config.LogFormats() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// SetLevel sets the level of the logger.
func (s *Settings) SetLevel(cfg *config.Config) {
	level := s.Level
	if cfg.Debug && !s.Cmd.Flags().Changed("log-level") {
		level = slog.LevelDebug
	}
	s.Current.Set(level)
}

func NewLogger(masker *config.Masker, w io.Writer, level slog.Leveler, format config.LogFormat) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, opts)
	if format == config.LogJSON {
		handler = slog.NewJSONHandler(w, opts)
	}
	return slog.New(config.NewMaskingHandler(handler, masker))
}

// WithHost runs f with a host for the given kind of clients, and closes the host. Without
// clients, results are for people.
func WithHost(
	ctx context.Context, cfg *config.Config, log *slog.Logger, clients host.Clients, f func(context.Context, *host.Host) error,
) error {
	return WithHostOf(ctx, cfg, HostOptions(log, clients), f)
}

// WithServers is WithHost for commands that run no script: the sandbox is not made ready.
func WithServers(ctx context.Context, cfg *config.Config, log *slog.Logger, f func(context.Context, *host.Host) error) error {
	opts := HostOptions(log, host.NoClient)
	opts.NoScripts = true
	return WithHostOf(ctx, cfg, opts, f)
}

// HostOptions returns the options of a host for the given kind of clients.
func HostOptions(log *slog.Logger, clients host.Clients) host.Options {
	return host.Options{
		Version: CurrentVersion(), Log: log, CacheDir: CacheDir(log), Clients: clients, Whole: clients == host.NoClient,
	}
}

// WithHostOf is WithHost with options.
func WithHostOf(ctx context.Context, cfg *config.Config, opts host.Options, f func(context.Context, *host.Host) error) error {
	h, err := host.New(cfg, opts)
	if err != nil {
		return err
	}
	h.LimitHeap()
	err = f(ctx, h)
	if err := h.Close(); err != nil { // for example, an upstream had to be killed
		opts.Log.Warn("shutdown", "err", err)
	}
	return err
}

// CacheDir returns the directory for the compiled guest, "" for none.
func CacheDir(log *slog.Logger) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		log.Warn("no cache directory: the sandbox is compiled at each start", "err", err)
		return ""
	}
	return filepath.Join(dir, "mcp-metatool", "wasm")
}

func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// Absolute returns the absolute form of a path, for processes in other directories.
func Absolute(path string) string {
	if path == "" {
		return ""
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// SameFile reports whether two names belong to the same file; without the files, whether the names
// are equal.
func SameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return Absolute(a) == Absolute(b)
}

// NoServer returns the error of a command that found no server. A mistake in the configuration
// comes first.
func NoServer(broken error, run string) error {
	if broken != nil {
		return broken
	}
	return Usage(fmt.Errorf("no server runs with this configuration (looked in %s)", run))
}

// StartingServers says that the command starts the servers of cfg, until the caller calls done.
func StartingServers(cmd *cobra.Command, cfg *config.Config) (done func()) {
	var names []string
	for _, u := range cfg.Upstreams {
		if !u.Disabled {
			names = append(names, u.Name)
		}
	}
	if len(names) == 0 {
		return func() {}
	}
	return Busy(cmd, "starting the servers: "+strings.Join(names, ", "))
}

// OnlyServer returns cfg with only the named upstream, which starts at once.
func OnlyServer(cfg *config.Config, name string) (*config.Config, error) {
	var names []string
	for _, u := range cfg.Upstreams {
		if u.Name == name {
			one := *cfg
			u.Start = config.Eager
			one.Upstreams = []config.Upstream{u}
			return &one, nil
		}
		names = append(names, u.Name)
	}
	return nil, UnknownServer(name, names)
}

// UnknownServer returns the error for a name that no upstream server has.
func UnknownServer(name string, names []string) error {
	hint := "none is configured"
	if near := nearest.Names(name, names); near != nil {
		hint = "did you mean " + strings.Join(near, ", ") + "?"
	} else if len(names) > 0 {
		hint = "there are " + strings.Join(names, ", ")
	}
	return fmt.Errorf("no upstream server is called %q (%s)", name, hint)
}

// HostOf returns the host of an address, with the port if the address has a port; "" for none.
func HostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}
