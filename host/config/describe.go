package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/tools/units"
)

// Describe writes the configuration for a person to read, one setting a line.
// Every secret is shown as ****, even those too short to be in Secrets.
func (c *Config) Describe(w io.Writer) error {
	d := &description{c: c, masker: c.NewMasker()}
	path := c.Path
	if path == "" {
		path = "none"
	}
	d.line("", "configuration", path)
	d.line("", "store", d.shown("store.dir", c.Store.Dir))
	d.line("", "debug", strconv.FormatBool(c.Debug))
	d.line("", "startup_wait", units.FormatDuration(c.StartupWait))
	d.line("", "max_message", units.FormatSize(uint64(c.MaxMessage)))
	d.line("", "timeout", units.FormatDuration(c.Execution.Timeout)+" per composite call")
	d.line("", "max_memory", units.FormatSize(c.Execution.MaxMemory)+" per composite call")
	e := c.Execution
	d.line("", "max_fuel", strconv.FormatUint(e.MaxFuel, 10)+" per composite call")
	d.line("", "limits", fmt.Sprintf("%d tool calls; arguments %s, answer %s, result %s, logs %s", e.MaxCalls,
		units.FormatSize(e.MaxArguments), units.FormatSize(e.MaxAnswer), units.FormatSize(e.MaxResult), units.FormatSize(e.MaxLogs)))
	concurrent := "two for each CPU, four at least"
	if e.MaxConcurrent > 0 {
		concurrent = strconv.Itoa(e.MaxConcurrent)
	}
	d.line("", "max_concurrent", concurrent)
	d.line("", "max_queued", strconv.Itoa(e.MaxQueued))
	if len(c.Upstreams) == 0 {
		d.line("", "upstreams", "none")
	}
	for i := range c.Upstreams {
		d.upstream(&c.Upstreams[i])
	}
	_, err := w.Write(d.b.Bytes())
	return err
}

// description is the text of Describe in the making.
type description struct {
	c      *Config
	masker *Masker
	b      bytes.Buffer
}

func (d *description) line(indent, name, value string) {
	fmt.Fprintf(&d.b, "%s%-*s %s\n", indent, 14-len(indent), name, value)
}

// upstream describes one upstream. What is not set and has no default is left
// out.
func (d *description) upstream(u *Upstream) {
	at := fmt.Sprintf("upstream %q: ", u.Name)
	title := d.masker.Mask(u.Name)
	if u.Disabled {
		title += " (disabled)"
	}
	fmt.Fprintf(&d.b, "\nupstream %s\n", title)
	command := []string{shellWord(d.shown(at+"command", u.Command))}
	for i, arg := range u.Args {
		command = append(command, shellWord(d.shown(fmt.Sprintf("%sargs[%d]", at, i), arg)))
	}
	d.line("  ", "command", strings.Join(command, " "))
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		value := shellWord(d.shown(at+"env."+name, u.Env[name]))
		d.line("  ", "env", d.masker.Mask(name)+"="+value)
	}
	if u.Dir != "" {
		d.line("  ", "cwd", d.shown(at+"cwd", u.Dir))
	}
	prefix := "none"
	if u.Prefix != "" {
		prefix = d.shown(at+"prefix", u.Prefix)
	}
	d.line("  ", "prefix", prefix)
	d.line("  ", "timeout", units.FormatDuration(u.Timeout))
	if u.Expose != nil {
		d.line("  ", "expose", d.patterns(at+"expose", u.Expose))
	}
	if len(u.Hide) > 0 {
		d.line("  ", "hide", d.patterns(at+"hide", u.Hide))
	}
}

func (d *description) patterns(key string, list []string) string {
	if len(list) == 0 {
		return "nothing"
	}
	shown := make([]string, len(list))
	for i, p := range list {
		shown[i] = d.shown(fmt.Sprintf("%s[%d]", key, i), p)
	}
	return strings.Join(shown, " ")
}

// shown is the value of a setting as it may be shown. A path is shown as it is
// in the file if it has a secret in it, not made absolute.
func (d *description) shown(key, value string) string {
	return d.masker.Mask(d.c.masked(key, value))
}

// masked is a value without the secrets that were found in it when it was read.
func (c *Config) masked(key, value string) string {
	if masked, ok := c.shown[key]; ok {
		return masked
	}
	return value
}

// shellWord puts a word in quotes if it would not be one word otherwise.
func shellWord(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\r\n\"'\\") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}

// Warnings are things that are allowed but will not work, or not as expected,
// one line each: a command that is not found, a working directory that does not
// exist, a file that is not read. It looks at the file system each time.
func (c *Config) Warnings() []string {
	warnings := slices.Clone(c.warnings)
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if u.Disabled {
			continue
		}
		at := fmt.Sprintf("upstream %q: ", u.Name)
		if _, err := exec.LookPath(u.Command); err != nil {
			warnings = append(warnings, fmt.Sprintf("%scommand %q is not found (is it installed, and in PATH?)", at, c.masked(at+"command", u.Command)))
		}
		if info, err := os.Stat(u.Dir); u.Dir != "" && (err != nil || !info.IsDir()) {
			warnings = append(warnings, fmt.Sprintf("%scwd %q is not a directory", at, c.masked(at+"cwd", u.Dir)))
		}
	}
	masker := c.NewMasker()
	for i, w := range warnings {
		warnings[i] = masker.Mask(w)
	}
	return warnings
}
