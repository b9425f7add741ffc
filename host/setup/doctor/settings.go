package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/kballard/go-shellquote"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/guard/flow"
	"github.com/mcp-metatool/mcp-metatool/host/guard/policy"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
	"github.com/mcp-metatool/mcp-metatool/host/servers"
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

// policy looks at names in the rules, and at the queue of approvals. Faults that show in the
// configuration alone, such as rules that never decide, are among its warnings.
func (e *examination) policy() {
	for _, u := range e.UnknownTools {
		e.find(idPolicyTool, "policy", "correct the name, or remove it; "+e.command("tools")+" lists the tools", "%s", u)
	}
	var tokens []string
	for _, t := range e.Config.HTTP.Tokens {
		if t.Name != "" {
			tokens = append(tokens, t.Name)
		}
	}
	if len(tokens) > 0 {
		for _, r := range e.Config.Policy.Rules {
			for _, u := range policy.UnknownClients(r.Name, r.Clients, tokens) {
				e.find(idPolicyClient, "policy", "correct it if it should be the name of a token: "+e.command("token", "list")+" lists them",
					"%s among the tokens, so the rule is for clients without a token that call themselves so", u)
			}
		}
	}
	if e.Waiting > 0 {
		calls := "1 call waits"
		if e.Waiting > 1 {
			calls = fmt.Sprintf("%d calls wait", e.Waiting)
		}
		e.find(idApprovalsWaiting, "approvals", e.command("approvals", "list")+" shows what they are", "%s for your approval", calls)
	}
}

// flow looks at the labels of tools. Faults that show without tools are among the warnings of the
// configuration.
func (e *examination) flow() {
	if e.Config.Flow == nil || e.Observed == nil {
		return
	}
	var tools []flow.Tool
	complete := true
	for _, u := range e.enabled() {
		o := e.Observed[u.Name]
		complete = complete && o.Status.State == servers.Ready
		for _, definition := range o.Tools {
			name, _ := wire.GetString(definition, "name")
			tools = append(tools, flow.Tool{Server: u.Name, Name: name, Definition: definition})
		}
	}
	for _, a := range e.Config.Flow.Advise(tools, complete) {
		switch a.Kind {
		case flow.MatchesNothing:
			e.find(idFlowPattern, "flow", "correct the pattern, or remove it; "+e.command("tools")+" lists the tools", "%s", a.Text)
		case flow.KeepsSecrets:
			e.find(idFlowServer, upstreamObject(a.Object), "give it the label it needs (private = [\""+a.Object+".*\"] in [flow]), if secrets can get there", "%s", a.Text)
		case flow.Shapeless:
			e.find(idFlowShape, "flow", "add its shape to [flow.shapes], if scripts do more with its answers than pass them on", "%s", a.Text)
		}
	}
}
