package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
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
	d.line("", "max_parallel", strconv.Itoa(e.MaxParallel)+" calls of one script at once")
	d.line("", "undo_timeout", units.FormatDuration(e.UndoTimeout))
	if e.ToolCalls != ToolCallsShort {
		d.line("", "tool_calls", string(e.ToolCalls)+" in results")
	}
	concurrent := "two for each CPU, four at least"
	if e.MaxConcurrent > 0 {
		concurrent = strconv.Itoa(e.MaxConcurrent)
	}
	d.line("", "max_concurrent", concurrent)
	d.line("", "max_queued", strconv.Itoa(e.MaxQueued))
	total := "half of the machine's or container's memory"
	if e.MaxTotalMemory > 0 {
		total = units.FormatSize(e.MaxTotalMemory)
	}
	d.line("", "total_memory", total)
	d.journal(&c.Journal)
	d.builtins(c.Builtins)
	if c.HTTP.configured {
		d.http(&c.HTTP)
	}
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
	if u.Transport == Stdio {
		d.process(at, u)
	} else {
		d.remote(at, u)
	}
	prefix := "none"
	if u.Prefix != "" {
		prefix = d.shown(at+"prefix", u.Prefix)
	}
	d.line("  ", "prefix", prefix)
	d.line("  ", "timeout", fmt.Sprintf("%s without progress, %s in all",
		units.FormatDuration(u.Timeout), units.FormatDuration(u.MaxTimeout)))
	d.line("  ", "restart", string(u.Restart))
	d.line("  ", "isolation", string(u.Isolation))
	d.line("  ", "start", string(u.Start))
	if u.Expose != nil {
		d.line("  ", "expose", d.list(at+"expose", u.Expose, "nothing"))
	}
	if len(u.Hide) > 0 {
		d.line("  ", "hide", d.list(at+"hide", u.Hide, "nothing"))
	}
	d.probe(at, u.Probe)
}

// process describes what is started.
func (d *description) process(at string, u *Upstream) {
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
}

// remote describes what is connected to.
func (d *description) remote(at string, u *Upstream) {
	d.line("  ", "url", shellWord(d.shown(at+"url", u.URL)))
	d.line("  ", "transport", string(u.Transport))
	for _, name := range slices.Sorted(maps.Keys(u.Headers)) {
		d.line("  ", "header", d.masker.Mask(name)+": "+d.shown(at+"headers."+name, u.Headers[name]))
	}
	if u.OAuth == nil {
		return
	}
	client, port := "to be registered", "any"
	if u.OAuth.ClientID != "" {
		client = d.shown(at+"oauth."+d.c.key("client_id"), u.OAuth.ClientID)
	}
	if u.OAuth.ClientSecret != "" {
		client += ", with a secret"
	}
	if u.OAuth.RedirectPort != 0 {
		port = strconv.Itoa(u.OAuth.RedirectPort)
	}
	issuer := "as the server names it"
	if u.OAuth.Issuer != "" {
		issuer = d.shown(at+"oauth.issuer", u.OAuth.Issuer)
	}
	scopes := "as the server names them"
	if u.OAuth.Scopes != nil {
		scopes = d.list(at+"oauth.scopes", u.OAuth.Scopes, "none")
	}
	d.line("  ", "oauth", fmt.Sprintf("issuer %s; client %s; scopes %s; redirect port %s", issuer, client, scopes, port))
}

// journal describes what is kept of calls.
func (d *description) journal(j *Journal) {
	if !j.Enabled {
		d.line("", "journal", "off")
		return
	}
	dir := d.c.JournalDir()
	if j.Dir != "" {
		dir = d.shown("journal.dir", j.Dir)
	} else if shown, ok := d.c.shown["store.dir"]; ok {
		dir = filepath.Join(shown, filepath.Base(dir))
	}
	if j.Required {
		dir += " (required)"
	}
	d.line("", "journal", d.masker.Mask(dir))
	text := fmt.Sprintf("%s a file, %s in all, %s; sync %s; proxied calls: %s", units.FormatSize(j.MaxSize),
		units.FormatSize(j.MaxTotal), units.FormatDuration(j.MaxAge), j.Sync, j.Proxied)
	if n := len(j.Redact); n > 0 {
		text += fmt.Sprintf("; %d redacted", n)
	}
	d.line("", "keeps", text)
}

// http describes how clients come in, if any do.
func (d *description) http(h *HTTP) {
	const at = "http."
	d.b.WriteString("\nhttp\n")
	d.line("  ", "listen", d.shown(at+"listen", h.Listen))
	d.line("  ", "path", d.shown(at+"path", h.Path))
	d.line("  ", "tokens", d.tokens(at+"tokens", h))
	if h.CertFile != "" {
		d.line("  ", "tls_cert", d.shown(at+d.c.key("tls_cert"), h.CertFile))
		d.line("  ", "tls_key", d.shown(at+d.c.key("tls_key"), h.KeyFile))
	}
	const own = "those of the address"
	d.line("  ", "origins", d.list(at+d.c.key("allowed_origins"), h.AllowedOrigins, own))
	d.line("  ", "hosts", d.list(at+d.c.key("allowed_hosts"), h.AllowedHosts, own))
	d.line("  ", "session_ttl", units.FormatDuration(h.SessionTTL))
	d.line("  ", "max_sessions", quota(h.MaxSessions, of{"token", h.MaxSessionsPerToken}, of{"address", h.MaxSessionsPerAddress}))
	d.line("  ", "unused_ttl", fmt.Sprintf("%s; %d new sessions a second per token and address", units.FormatDuration(h.UnusedTTL), h.InitializeRate))
	d.line("  ", "connections", quota(h.MaxConnections, of{"address", h.MaxConnectionsPerAddress}))
	d.line("  ", "resume", units.FormatDuration(h.ResumeWindow))
}

// tokens are the bearer tokens, masked, with what their clients may not do.
func (d *description) tokens(key string, h *HTTP) string {
	if len(h.NoSave) == 0 {
		return d.list(key, h.Tokens, "none")
	}
	shown := make([]string, len(h.Tokens))
	for i, token := range h.Tokens {
		shown[i] = d.shown(fmt.Sprintf("%s[%d]", key, i), token)
		if slices.Contains(h.NoSave, token) {
			shown[i] += " (save = false)"
		}
	}
	return strings.Join(shown, " ")
}

// of is how much of something one of several may have; 0: what follows from the
// whole.
type of struct {
	what string
	most int
}

func quota(whole int, parts ...of) string {
	text := strconv.Itoa(whole)
	for _, part := range parts {
		if part.most > 0 {
			text += fmt.Sprintf(", %d per %s", part.most, part.what)
		}
	}
	return text
}

// list is what an array holds, or none if it holds nothing.
func (d *description) list(key string, list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	shown := make([]string, len(list))
	for i, item := range list {
		shown[i] = d.shown(fmt.Sprintf("%s[%d]", key, i), item)
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
