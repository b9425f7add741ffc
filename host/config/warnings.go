package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/confine"
)

// Warnings returns what is allowed but will not work, or not as expected, one line each:
// a command that is not found, a working directory that does not exist, a file that is
// not read, a secret that is sent without encryption. It checks the file system on each
// call.
func (c *Config) Warnings() []string { return c.listWarnings(true) }

// SettingWarnings returns the warnings without those about commands that are not found.
func (c *Config) SettingWarnings() []string { return c.listWarnings(false) }

func (c *Config) listWarnings(commands bool) []string {
	warnings := slices.Clone(c.warnings)
	add := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if commands {
		for _, p := range c.leftOut {
			add("%v (the server is left out)", p)
		}
	}
	for _, file := range []struct{ name, key string }{{c.HTTP.CertFile, "tls_cert"}, {c.HTTP.KeyFile, "tls_key"}} {
		if info, err := os.Stat(file.name); file.name != "" && (err != nil || !info.Mode().IsRegular()) {
			key := "http." + c.key(file.key)
			add("%s: %q is not a file", key, c.masked(key, file.name))
		}
	}
	if c.HTTP.configured && len(c.HTTP.Tokens) == 0 && !isLoopback(c.HTTP.Listen) {
		add("http.listen: other machines can reach %s, and there are no tokens (serve will refuse that)", c.masked("http.listen", c.HTTP.Listen))
	}
	if s := &c.Store; isLoopback(s.PeerListen) && s.PeerAddress == "" && slices.ContainsFunc(s.NATS, isElsewhere) {
		key := "store." + c.key("peer_listen")
		add("%s: %s can be reached from this machine only, and NATS is on another one, where other replicas may be (set %[1]s to \":7400\", for instance)", key, c.masked(key, s.PeerListen))
	}
	for i, token := range c.HTTP.Tokens {
		if token.Expired(time.Now()) {
			add("http.tokens[%d]: the token has expired, and is refused", i)
		}
	}
	if c.Flow != nil {
		var servers []string
		for i := range c.Upstreams {
			servers = append(servers, c.Upstreams[i].Name)
		}
		for _, a := range c.Flow.AdviseServers(servers) {
			add("%s", a.Text)
		}
	}
	if info, err := os.Stat(c.JournalDir()); c.Journal.Enabled && err == nil && !info.IsDir() {
		add("journal.dir: %q is not a directory", c.masked("journal.dir", c.JournalDir()))
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if u.Disabled {
			continue
		}
		at := fmt.Sprintf("upstream %q: ", u.Name)
		if u.Invalid != nil {
			add("upstream %q is not started: %v", u.Name, u.Invalid)
			continue
		}
		for _, r := range u.References {
			if doubt := r.doubt(); doubt != "" {
				add("%s%s: %s: %s", at, r.Setting, r, doubt)
			}
		}
		if u.Transport != Stdio {
			if u.leaks() {
				add("%surl: credentials are sent without encryption (use https)", at)
			}
			continue
		}
		if _, err := exec.LookPath(u.Command); err != nil && commands {
			add("%scommand %q is not found (is it installed, and in PATH?)", at, c.masked(at+"command", u.Command))
		}
		if u.Sandbox != nil {
			for _, lack := range confine.Lacks(u.Sandbox) {
				then := "the server will not start; " + c.key("best_effort") + " starts it without that"
				if u.Sandbox.BestEffort {
					then = "the server starts without that"
				}
				add("%ssandbox: %s; this is %s (%s)", at, lack, confine.Level(), then)
			}
		}
		if info, err := os.Stat(u.Dir); u.Dir != "" && (err != nil || !info.IsDir()) {
			add("%scwd %q is not a directory", at, c.masked(at+"cwd", u.Dir))
		}
	}
	masker := c.NewMasker()
	for i, w := range warnings {
		warnings[i] = masker.Mask(w)
	}
	return warnings
}

// doubt says why a secret can probably not be fetched, or not safely; "" if nothing is
// wrong as far as can be seen without fetching it.
func (r Reference) doubt() string {
	switch r.Kind {
	case FromCommand:
		words, err := r.Words()
		if err == nil {
			_, err = exec.LookPath(words[0])
		}
		if err != nil {
			return "the command is not found (is it installed, and in PATH?)"
		}
	case FromFile:
		info, err := os.Stat(r.Path)
		switch {
		case err != nil || !info.Mode().IsRegular():
			return "there is no such file"
		case ReadableByOthers(info):
			return fmt.Sprintf("other users can read the file (chmod 600 %s)", r.Path)
		}
	}
	return ""
}

// ReadableByOthers reports whether other users than the owner can read a file. It is always
// false on Windows, where modes do not say that.
func ReadableByOthers(info os.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o044 != 0
}

// leaks reports whether credentials are sent over a network without encryption.
func (u *Upstream) leaks() bool {
	address, err := url.Parse(u.URL)
	if err != nil || address.Scheme != "http" || isLoopback(net.JoinHostPort(address.Hostname(), "80")) {
		return false
	}
	secret := u.OAuth != nil || len(u.References) > 0 || len(secretParts("", u.URL)) > 0
	for name := range u.Headers {
		secret = secret || looksSecret(name)
	}
	return secret
}

// isLoopback reports whether only this machine can reach an address, HOST:PORT, judging
// by how it is written.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
