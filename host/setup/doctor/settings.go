package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/owner"
)

// settings looks at the configuration itself.
func (e *examination) settings() {
	for _, err := range e.Problems {
		remedy := "correct it (docs/configuration.md describes every setting)"
		if errors.Is(err, config.ErrNotFound) {
			remedy = "name another file, or make one: " + e.command("add", "--help") + " says how"
		}
		rest := "; nothing else about servers was checked"
		if e.Config != nil { // the problem is about a single server
			rest = "; the server is not started before that"
		}
		e.find(idConfigInvalid, "configuration", remedy+rest, "%v", err)
	}
	for _, u := range e.Unset {
		e.find(idVariableUnset, upstreamObject(u.Server), fmt.Sprintf("set %s wherever mcp-metatool is started, or give it a default: ${%s:-}; hosts from a desktop do not have the variables of a shell, so a secret is better kept in the keyring (docs/secrets.md)", u.Variable, u.Variable),
			"the variable %s is not set; the server is not started without it", u.Variable)
	}
	c := e.Config
	if c == nil {
		return
	}
	for _, w := range c.SettingWarnings() {
		e.find(idConfigWarning, "configuration", "see docs/configuration.md", "%s", w)
	}
	if len(e.enabled()) == 0 && len(e.Unset) == 0 && len(e.Problems) == 0 {
		file := c.Path
		if file == "" && len(c.Searched) > 0 {
			file = c.Searched[0]
		}
		e.find(idConfigMissing, "configuration", fmt.Sprintf("%s copies the servers of a host, %s says how to add others (to %s)",
			e.command("import", "HOST"), e.command("add", "--help"), file), "no server is configured")
	}
	if info, err := os.Stat(c.Path); c.Path != "" && err == nil {
		e.configFile(info)
	}
}

// configFile looks at who else may use the configuration file.
func (e *examination) configFile(info os.FileInfo) {
	file := e.Config.Path
	private := shellquote.Join("chmod", "600", file)
	if _, err := owner.Check(filepath.Dir(file)); err != nil {
		e.find(idConfigWritable, file, "see docs/security.md, \"Folders that others can change\"", "other users can replace the file: %v", err)
	} else if runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 {
		e.find(idConfigWritable, file, private+"; look at its content first, others may have changed it", "other users can change the file (mode %#o), and with it what runs as you", info.Mode().Perm())
	}
	if config.ReadableByOthers(info) && e.Config.PlainSecrets() {
		e.find(idConfigReadable, file, private+", or move the secrets out of it (docs/secrets.md)", "other users can read the file, and it has secrets in it")
	}
}
