package doctor

import (
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// settings looks at the configuration itself.
func (e *examination) settings() {
	for _, err := range e.Problems {
		e.find(idConfigInvalid, "configuration", "correct it (docs/configuration.md describes every setting); nothing else about servers was checked", "%v", err)
	}
	c := e.Config
	if c == nil {
		return
	}
	for _, w := range c.SettingWarnings() {
		e.find(idConfigWarning, "configuration", "see docs/configuration.md", "%s", w)
	}
	if len(e.enabled()) == 0 {
		file := c.Path
		if file == "" && len(c.Searched) > 0 {
			file = c.Searched[0]
		}
		e.find(idConfigMissing, "configuration", "add a server to "+file, "no server is configured")
	}
	if info, err := os.Stat(c.Path); c.Path != "" && err == nil && config.ReadableByOthers(info) && c.PlainSecrets() {
		e.find(idConfigReadable, c.Path, "chmod 600 the file, or move the secrets out of it (docs/secrets.md)", "other users can read the file, and it has secrets in it")
	}
}
