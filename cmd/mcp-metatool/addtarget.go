package main

import (
	"context"
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

func lookupEnv(name string) (string, bool) { return os.LookupEnv(name) }

// program makes the server one that is started by a command.
func (a *addition) program(command []string) error {
	if len(a.headers) > 0 || a.transport != "" || a.oauth {
		return errors.New("--header, --transport and --oauth are for servers with an address")
	}
	if len(a.set) > 0 || a.use != "" {
		return errSet
	}
	a.server = edit.Server{Command: command[0], Args: command[1:]}
	if strings.ContainsAny(command[0], `/`+string(filepath.Separator)) && !strings.HasPrefix(command[0], "~") && !strings.Contains(command[0], "${") {
		path, err := filepath.Abs(command[0]) // the configuration is in another folder
		if err != nil {
			return err
		}
		a.server.Command = path
	}
	return a.finishProgram()
}

var errSet = errors.New("--set and --use are for servers that are described by a server.json")

// finishProgram adds what the flags say about a program.
func (a *addition) finishProgram() error {
	if a.cwd != "" {
		folder, err := filepath.Abs(a.cwd)
		if err != nil {
			return err
		}
		a.server.Dir = folder
	}
	for _, text := range a.env {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			value = "${" + name + "}"
		}
		if !variableName.MatchString(name) {
			return fmt.Errorf("--env %q is not NAME=VALUE", name)
		}
		if a.consumed[name] {
			continue // it is in the server already, a secret as a reference
		}
		if ok {
			value = a.hideDeclared(name, name, value)
		}
		setSetting(&a.server.Env, name, value)
	}
	a.hideSecrets()
	return nil
}

var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// setSetting sets a variable or header.
func setSetting(list *[]edit.Setting, name, value string) {
	i := slices.IndexFunc(*list, func(s edit.Setting) bool { return s.Name == name })
	if i < 0 {
		*list = append(*list, edit.Setting{Name: name, Value: value})
	} else {
		(*list)[i].Value = value
	}
}

// address makes the server one that is reached at an address.
func (a *addition) address(url string) error {
	if len(a.set) > 0 || a.use != "" {
		return errSet
	}
	a.server = edit.Server{URL: url}
	switch a.transport {
	case "", string(config.StreamableHTTP):
	case string(config.LegacySSE):
		a.server.Transport = config.LegacySSE
	default:
		return fmt.Errorf("--transport %q: there are http and sse", a.transport)
	}
	return a.finishAddress()
}

// finishAddress adds what the flags say about a server with an address.
func (a *addition) finishAddress() error {
	if len(a.env) > 0 || a.cwd != "" {
		return errors.New("--env and --cwd are for servers that are started")
	}
	for _, text := range a.headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return fmt.Errorf("--header %q is not 'NAME: VALUE'", name)
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if i := slices.IndexFunc(a.server.Headers, func(s edit.Setting) bool { return strings.EqualFold(s.Name, name) }); i >= 0 {
			name = a.server.Headers[i].Name
		}
		setSetting(&a.server.Headers, name, a.hideDeclared(strings.ToLower(name), a.name+"_"+name, value))
	}
	a.server.OAuth = a.oauth
	a.hideSecrets()
	return nil
}

// hideDeclared returns a reference in place of a value, if the document says that the setting
// is a secret. Values with references stay as they are.
func (a *addition) hideDeclared(name, variable, value string) string {
	if !a.declared[name] || value == "" || strings.Contains(value, "${") {
		return value
	}
	return a.reference(variable, value)
}

// hideSecrets puts references in place of secrets in plain text. Their values are known for
// this run only.
func (a *addition) hideSecrets() {
	taken := map[string]string{} // variables that exist already: none gets another value
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		taken[name] = value
	}
	s := clientconfig.Server{
		Name: a.name, Command: a.server.Command, Args: slices.Clone(a.server.Args), URL: a.server.URL,
		Env: hostSettings(a.server.Env), Headers: hostSettings(a.server.Headers),
	}
	found := s.Secrets(taken)
	for _, secret := range found {
		if value, ok := lookupEnv(secret.Variable); !ok || value != secret.Value {
			a.given[secret.Variable] = secret.Value
		}
		fmt.Fprintf(a.cmd.ErrOrStderr(), "note: %s looks like a secret; the configuration refers to it as %s\n",
			display.EscapeLine(secret.Where), variableReference(secret))
	}
	s.Replace(found, variableReference)
	a.server.Args, a.server.URL = s.Args, s.URL
	a.server.Env, a.server.Headers = ourSettings(s.Env), ourSettings(s.Headers)
}

func hostSettings(list []edit.Setting) []clientconfig.Setting {
	var converted []clientconfig.Setting
	for _, s := range list {
		converted = append(converted, clientconfig.Setting(s))
	}
	return converted
}

func ourSettings(list []clientconfig.Setting) []edit.Setting {
	var converted []edit.Setting
	for _, s := range list {
		converted = append(converted, edit.Setting(s))
	}
	return converted
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// reference returns the text that stands for a secret in the configuration: a variable with
// that name, or one with a number if it has another value already. See also chooseKeyring.
func (a *addition) reference(variable, value string) string {
	base := clientconfig.VariableName(variable)
	name := base
	for n := 2; ; n++ {
		had, ok := a.getenv(name)
		if !ok {
			a.given[name] = value
		}
		if !ok || had == value {
			return "${" + name + "}"
		}
		name = fmt.Sprintf("%s_%d", base, n)
	}
}

// askForVariables asks for the values of variables that have none. A server with variables
// that are not in the environment is added as disabled: it would only fail.
func (a *addition) askForVariables(ctx context.Context) error {
	a.server.Disabled = false // the variables of a disabled server are not looked at
	if err := a.put(); err != nil {
		return err
	}
	opts := a.loadOptions()
	opts.Getenv = nil
	opts.Unset = func(upstream string, p *config.Problem) {
		unset := new(config.UnsetError)
		if upstream == a.name && errors.As(p.Err, &unset) && !slices.Contains(a.unset, unset.Var) {
			a.unset = append(a.unset, unset.Var)
		}
	}
	if _, err := a.file.Parse(opts); err != nil {
		return err
	}
	for _, name := range a.unset {
		if _, ok := a.given[name]; ok || !a.interactive || a.noStart || a.disabled {
			continue
		}
		value, err := a.asker.secret(ctx, fmt.Sprintf("%s is not set. Its value, for this start only (not shown, Enter for none): ", name))
		if err != nil {
			return err
		}
		if value != "" {
			a.given[name] = value
		}
	}
	a.server.Disabled = a.disabled || len(a.unset) > 0
	return a.put()
}
