package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-metatool/mcp-metatool/host"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy/compile"
)

// settings are the flags of verbs that read the configuration.
type settings struct {
	config string
	debug  bool
	level  slog.Level
	format logFormat
	cmd    *cobra.Command

	// For the logger:
	masker  *config.Masker
	current slog.LevelVar
}

// silent is a log level above all others, so that nothing is logged.
const silent = slog.LevelError + 4

// addFlags adds the flags to cmd. quiet is the log level unless a flag or the
// configuration sets another.
func (s *settings) addFlags(cmd *cobra.Command, quiet slog.Level) {
	s.cmd = cmd
	f := cmd.Flags()
	f.StringVarP(&s.config, "config", "c", "", "configuration `FILE` (default: $MCP_METATOOL_CONFIG, then config.toml or config.json in $MCP_METATOOL_DIR or ~/.mcp-metatool)")
	f.BoolVar(&s.debug, "debug", false, "add backtraces to errors and debug entries to the log")
	f.TextVar(&s.level, "log-level", quiet, "log entries of this `LEVEL` and above: debug, info, warn, error")
	f.Var(&s.format, "log-format", "`FORM` of log entries: "+formats()+" (default: log_format in the configuration)")
	if quiet == silent {
		f.Lookup("log-level").DefValue = "" // silent has no name
	}
	_ = cmd.RegisterFlagCompletionFunc("config", filesOf("toml", "json")) // there is such a flag
	completeFlag(cmd, "log-level", logLevels)
}

var logLevels = oneOf("debug", "info", "warn", "error")

// load reads the configuration. A mistake in one upstream is that one's problem only.
func (s *settings) load() (*config.Config, error) {
	return s.loadWith(config.LoadOptions{Tolerate: true})
}

// loadWith reads the configuration. The file and the context in opts are those of s.
func (s *settings) loadWith(opts config.LoadOptions) (*config.Config, error) {
	opts.Context, opts.Flag, opts.Policies = s.cmd.Context(), s.config, compile.Policy
	cfg, err := config.Load(opts)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	cfg.Debug = cfg.Debug || s.debug
	return cfg, nil
}

// logger returns a logger to standard error that masks the secrets of cfg.
func (s *settings) logger(cfg *config.Config) *slog.Logger {
	s.masker = cfg.NewMasker()
	s.setLevel(cfg)
	return newLogger(s.masker, s.cmd.ErrOrStderr(), &s.current, s.formatOf(cfg))
}

// formatOf returns the form of log entries.
func (s *settings) formatOf(cfg *config.Config) config.LogFormat {
	return config.LogFormat(cmp.Or(string(s.format), string(cfg.LogFormat)))
}

// logFormat is a flag for the form of log entries; "" if it is not given.
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

// setLevel sets the level of the logger.
func (s *settings) setLevel(cfg *config.Config) {
	level := s.level
	if cfg.Debug && !s.cmd.Flags().Changed("log-level") {
		level = slog.LevelDebug
	}
	s.current.Set(level)
}

func newLogger(masker *config.Masker, w io.Writer, level slog.Leveler, format config.LogFormat) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, opts)
	if format == config.LogJSON {
		handler = slog.NewJSONHandler(w, opts)
	}
	return slog.New(config.NewMaskingHandler(handler, masker))
}

// withHost runs f with a host for the given kind of clients, and closes the host. Without
// clients, results are for people.
func withHost(
	ctx context.Context, cfg *config.Config, log *slog.Logger, clients host.Clients, f func(context.Context, *host.Host) error,
) error {
	return withHostOf(ctx, cfg, hostOptions(log, clients), f)
}

// withServers is withHost for commands that run no script: the sandbox is not made ready.
func withServers(ctx context.Context, cfg *config.Config, log *slog.Logger, f func(context.Context, *host.Host) error) error {
	opts := hostOptions(log, host.NoClient)
	opts.NoScripts = true
	return withHostOf(ctx, cfg, opts, f)
}

// hostOptions returns the options of a host for the given kind of clients.
func hostOptions(log *slog.Logger, clients host.Clients) host.Options {
	return host.Options{
		Version: currentVersion(), Log: log, CacheDir: cacheDir(log), Clients: clients, Whole: clients == host.NoClient,
	}
}

// withHostOf is withHost with options.
func withHostOf(ctx context.Context, cfg *config.Config, opts host.Options, f func(context.Context, *host.Host) error) error {
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

// cacheDir returns the directory for the compiled guest, "" if there is none.
func cacheDir(log *slog.Logger) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		log.Warn("no cache directory: the sandbox is compiled at each start", "err", err)
		return ""
	}
	return filepath.Join(dir, "mcp-metatool", "wasm")
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
