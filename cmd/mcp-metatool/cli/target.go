package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
)

// Target is a server that a command line describes: a program and its arguments, or an address.
type Target struct {
	Env, Headers []string // flags
	Set          []string // values for a server.json
	Use          string   // which package or address of a server.json
	Transport    string
	Dir          string
	OAuth        bool

	Name     string
	Server   edit.Server
	Declared map[string]bool   // variables and headers that are secret according to a server.json
	Consumed map[string]bool   // names in Env that were values for a server.json
	Given    map[string]string // values of variables for this run, which are not kept
	Notes    io.Writer         // for messages about replaced secrets
}

// Getenv returns a variable of this run or of the environment.
func (t *Target) Getenv(name string) (string, bool) {
	if v, ok := t.Given[name]; ok {
		return v, true
	}
	return os.LookupEnv(name)
}

// Program makes the server a program that is started by a command.
func (t *Target) Program(command []string) error {
	if len(t.Headers) > 0 || t.Transport != "" || t.OAuth {
		return errors.New("--header, --transport and --oauth are for servers with an address")
	}
	if len(t.Set) > 0 || t.Use != "" {
		return errSet
	}
	t.Server = edit.Server{Command: command[0], Args: command[1:]}
	if strings.ContainsAny(command[0], `/`+string(filepath.Separator)) && !strings.HasPrefix(command[0], "~") && !strings.Contains(command[0], "${") {
		path, err := filepath.Abs(command[0]) // the configuration is in another folder
		if err != nil {
			return err
		}
		t.Server.Command = path
	}
	return t.FinishProgram()
}

var errSet = errors.New("--set and --use are for servers that are described by a server.json")

// FinishProgram adds the flags about a program.
func (t *Target) FinishProgram() error {
	if t.Dir != "" {
		folder, err := filepath.Abs(t.Dir)
		if err != nil {
			return err
		}
		t.Server.Dir = folder
	}
	for _, text := range t.Env {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			value = "${" + name + "}"
		}
		if !variableName.MatchString(name) {
			return fmt.Errorf("--env %q is not NAME=VALUE", name)
		}
		if t.Consumed[name] {
			continue // the server already has the variable, a secret as a reference
		}
		if ok {
			value = t.hideDeclared(name, name, value)
		}
		setSetting(&t.Server.Env, name, value)
	}
	t.hideSecrets()
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

// Address makes the server a server at an address.
func (t *Target) Address(url string) error {
	if len(t.Set) > 0 || t.Use != "" {
		return errSet
	}
	t.Server = edit.Server{URL: url}
	switch t.Transport {
	case "", string(config.StreamableHTTP):
	case string(config.LegacySSE):
		t.Server.Transport = config.LegacySSE
	default:
		return fmt.Errorf("--transport %q: there are http and sse", t.Transport)
	}
	return t.FinishAddress()
}

// FinishAddress adds the flags about a server with an address.
func (t *Target) FinishAddress() error {
	if len(t.Env) > 0 || t.Dir != "" {
		return errors.New("--env and --cwd are for servers that are started")
	}
	for _, text := range t.Headers {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return fmt.Errorf("--header %q is not 'NAME: VALUE'", name)
		}
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if i := slices.IndexFunc(t.Server.Headers, func(s edit.Setting) bool { return strings.EqualFold(s.Name, name) }); i >= 0 {
			name = t.Server.Headers[i].Name
		}
		setSetting(&t.Server.Headers, name, t.hideDeclared(strings.ToLower(name), t.Name+"_"+name, value))
	}
	t.Server.OAuth = t.OAuth
	t.hideSecrets()
	return nil
}

// hideDeclared returns a reference in place of a value, if the document declares the setting
// secret. Values with references stay unchanged.
func (t *Target) hideDeclared(name, variable, value string) string {
	if !t.Declared[name] || value == "" || strings.Contains(value, "${") {
		return value
	}
	return t.Reference(variable, value)
}

// hideSecrets puts references in place of secrets in plain text. Their values are known for
// this run only.
func (t *Target) hideSecrets() {
	taken := map[string]string{} // existing variables: none gets another value
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		taken[name] = value
	}
	s := clientconfig.Server{
		Name: t.Name, Command: t.Server.Command, Args: slices.Clone(t.Server.Args), URL: t.Server.URL,
		Env: hostSettings(t.Server.Env), Headers: hostSettings(t.Server.Headers),
	}
	found := s.Secrets(taken)
	for _, secret := range found {
		if value, ok := os.LookupEnv(secret.Variable); !ok || value != secret.Value {
			t.Given[secret.Variable] = secret.Value
		}
		fmt.Fprintf(t.Notes, "note: %s looks like a secret; the configuration refers to it as %s\n",
			display.EscapeLine(secret.Where), VariableReference(secret))
	}
	s.Replace(found, VariableReference)
	t.Server.Args, t.Server.URL = s.Args, s.URL
	t.Server.Env, t.Server.Headers = ourSettings(s.Env), ourSettings(s.Headers)
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

// Reference returns the text that stands for a secret in the configuration: a variable of the given
// name, or with a number appended if the variable already has another value. See also
// chooseKeyring.
func (t *Target) Reference(variable, value string) string {
	base := clientconfig.VariableName(variable)
	name := base
	for n := 2; ; n++ {
		had, ok := t.Getenv(name)
		if !ok {
			t.Given[name] = value
		}
		if !ok || had == value {
			return "${" + name + "}"
		}
		name = fmt.Sprintf("%s_%d", base, n)
	}
}

// VariableReference returns the reference that the configuration has in place of a secret.
func VariableReference(s clientconfig.Secret) string { return "${" + s.Variable + "}" }
