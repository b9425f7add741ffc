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

// Describe writes the configuration for a person to read, one setting per line. Every
// secret is written as ****, even those too short to be in Secrets.
func (c *Config) Describe(w io.Writer) error {
	d := &description{c: c, masker: c.NewMasker()}
	path := c.Path
	if path == "" {
		path = "none"
	}
	d.line("configuration", path)
	d.line("store", d.shown("store.dir", c.Store.Dir))
	d.line("debug", strconv.FormatBool(c.Debug))
	if c.LogFormat != LogText {
		d.line(c.key("log_format"), string(c.LogFormat))
	}
	if c.Pins != PinsOff {
		d.line("pins", c.pins(c.Pins))
	}
	d.limits("")
	d.builtins(c.Builtins)
	if len(c.Upstreams) == 0 {
		d.line("upstreams", "none")
	}
	d.title("execution")
	d.limits("execution")
	d.line("tool_calls", string(c.Execution.ToolCalls))
	d.plan(c.Plan)
	d.durable(c.Durable)
	d.flow(c.Flow)
	if len(c.Store.NATS) > 0 {
		d.nats(&c.Store)
	}
	d.journal(&c.Journal)
	d.policy(&c.Policy)
	if c.HTTP.configured {
		d.http(&c.HTTP)
	}
	if c.Approval != defaultApproval {
		d.approval(c.Approval)
	}
	if c.Telemetry.configured {
		d.telemetry(&c.Telemetry)
	}
	for i := range c.Upstreams {
		d.upstream(&c.Upstreams[i])
	}
	d.flush()
	_, err := w.Write(d.b.Bytes())
	return err
}

// description collects the text of Describe.
type description struct {
	c      *Config
	masker *Masker
	b      bytes.Buffer
	indent string      // of the current block
	lines  [][2]string // names and values of the current block
}

// title begins a block of lines.
func (d *description) title(text string) {
	d.flush()
	d.b.WriteString("\n" + text + "\n")
	d.indent = "  "
}

// line adds a name and its value to the block.
func (d *description) line(name, value string) { d.lines = append(d.lines, [2]string{name, value}) }

// flush writes the lines of the block with their values aligned.
func (d *description) flush() {
	width := 14 - len(d.indent)
	for _, line := range d.lines {
		width = max(width, len(line[0]))
	}
	for _, line := range d.lines {
		fmt.Fprintf(&d.b, "%s%-*s %s\n", d.indent, width, line[0], line[1])
	}
	d.lines = nil
}

// limits describes the limits of a section, each under its key.
func (d *description) limits(section string) {
	for _, l := range d.c.limits() {
		if l.Section != section {
			continue
		}
		if l.value() == 0 && l.Derived != "" {
			d.line(l.Key, l.Derived)
		} else {
			d.line(l.Key, l.Format(l.value()))
		}
	}
}

// upstream describes one upstream. Settings that are not set and have no default are left
// out.
func (d *description) upstream(u *Upstream) {
	at := fmt.Sprintf("upstream %q: ", u.Name)
	title := d.masker.Mask(u.Name)
	if u.Disabled {
		title += " (disabled)"
	}
	d.title("upstream " + title)
	if u.Transport == Stdio {
		d.process(at, u)
	} else {
		d.remote(at, u)
	}
	prefix := "none"
	if u.Prefix != "" {
		prefix = d.shown(at+"prefix", u.Prefix)
	}
	d.line("prefix", prefix)
	d.line("timeout", fmt.Sprintf("%s without progress, %s in all",
		units.FormatDuration(u.Timeout), units.FormatDuration(u.MaxTimeout)))
	d.line("restart", string(u.Restart))
	d.line("isolation", string(u.Isolation))
	d.line("start", string(u.Start))
	if u.Protocol != Auto {
		d.line("protocol", string(u.Protocol))
	}
	if u.Expose != nil {
		d.line("expose", d.list(at+"expose", u.Expose, "nothing"))
	}
	if len(u.Hide) > 0 {
		d.line("hide", d.list(at+"hide", u.Hide, "nothing"))
	}
	d.sandbox(at, u.Sandbox)
	if u.Pins != "" {
		d.line("pins", d.c.pins(u.Pins))
	}
	d.probe(at, u.Probe)
}

// pins describes a PinMode.
func (c *Config) pins(m PinMode) string {
	if m == PinsOff {
		return string(m)
	}
	return fmt.Sprintf("%s (%s)", m, c.NewMasker().Mask(c.PinsPath()))
}

// process describes the command that is started.
func (d *description) process(at string, u *Upstream) {
	command := []string{shellWord(d.shown(at+"command", u.Command))}
	for i, arg := range u.Args {
		command = append(command, shellWord(d.shown(fmt.Sprintf("%sargs[%d]", at, i), arg)))
	}
	d.line("command", strings.Join(command, " "))
	for _, name := range slices.Sorted(maps.Keys(u.Env)) {
		value := shellWord(d.shown(at+"env."+name, u.Env[name]))
		d.line("env", d.masker.Mask(name)+"="+value)
	}
	if u.Dir != "" {
		d.line("cwd", d.shown(at+"cwd", u.Dir))
	}
}

// remote describes the address that is connected to.
func (d *description) remote(at string, u *Upstream) {
	d.line("url", shellWord(d.shown(at+"url", u.URL)))
	transport := string(u.Transport)
	if u.Detect {
		transport += ", or sse if the server speaks only that"
	}
	d.line("transport", transport)
	d.headers(at, u.Headers)
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
	if u.OAuth.ClientMetadata != "" {
		client += ", or described at " + d.shown(at+"oauth."+d.c.key("client_metadata"), u.OAuth.ClientMetadata)
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
	pkce := ""
	if u.OAuth.AssumePKCE {
		pkce = "; PKCE assumed"
	}
	d.line("oauth", fmt.Sprintf("issuer %s; client %s; scopes %s; redirect port %s%s", issuer, client, scopes, port, pkce))
}

// headers describes the headers under a key.
func (d *description) headers(at string, headers map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		d.line("header", d.masker.Mask(name)+": "+d.shown(at+"headers."+name, headers[name]))
	}
}

// journal describes what is recorded about calls.
func (d *description) journal(j *Journal) {
	d.title("journal")
	d.line("enabled", strconv.FormatBool(j.Enabled))
	if !j.Enabled {
		return
	}
	dir := d.c.JournalDir()
	if j.Dir != "" {
		dir = d.shown("journal.dir", j.Dir)
	} else if shown, ok := d.c.shown["store.dir"]; ok {
		dir = filepath.Join(shown, filepath.Base(dir))
	}
	d.line("dir", d.masker.Mask(dir))
	d.line("required", strconv.FormatBool(j.Required))
	d.line("sync", string(j.Sync))
	d.limits("journal")
	if n := len(j.Redact); n > 0 {
		d.line("redact", fmt.Sprintf("%d patterns", n))
	}
	d.line("proxied", string(j.Proxied))
	d.line("sign", string(j.Sign))
	d.signing(&j.Signing)
}

// http describes how clients connect over HTTP.
func (d *description) http(h *HTTP) {
	const at = "http."
	d.title("http")
	d.line("listen", d.shown(at+"listen", h.Listen))
	d.line("path", d.shown(at+"path", h.Path))
	d.line("ui", strconv.FormatBool(h.UI))
	d.line("tokens", d.tokens(h.Tokens))
	if h.CertFile != "" {
		d.line("tls_cert", d.shown(at+d.c.key("tls_cert"), h.CertFile))
		d.line("tls_key", d.shown(at+d.c.key("tls_key"), h.KeyFile))
	}
	const own = "those of the address"
	d.line("origins", d.list(at+d.c.key("allowed_origins"), h.AllowedOrigins, own))
	d.line("hosts", d.list(at+d.c.key("allowed_hosts"), h.AllowedHosts, own))
	d.limits("http")
}

// list returns the items of an array, masked, or none if it is empty.
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

// shown returns the value of a setting with its secrets masked. A path that contains a
// secret is shown as it is in the file, not as an absolute path.
func (d *description) shown(key, value string) string {
	return d.masker.Mask(d.c.masked(key, value))
}

// masked returns a value without the secrets that were found in it when it was read.
func (c *Config) masked(key, value string) string {
	if masked, ok := c.shown[key]; ok {
		return masked
	}
	return value
}

// shellWord puts a word in quotes if a shell would not read it as one word.
func shellWord(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\r\n\"'\\") || strconv.Quote(s) != `"`+s+`"` {
		return strconv.Quote(s)
	}
	return s
}
