package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/cmd/mcp-metatool/cli"
	"github.com/mcp-metatool/mcp-metatool/host/config/edit"
	"github.com/mcp-metatool/mcp-metatool/host/setup/clientconfig"
	"github.com/mcp-metatool/mcp-metatool/host/setup/serverjson"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// fromRegistry reads the description of NAME or NAME@VERSION from the registry.
func (a *addition) fromRegistry(ctx context.Context, name string) error {
	name, version, _ := strings.Cut(name, "@")
	r := serverjson.Registry{URL: cmp.Or(a.registry, getenv(envRegistry), serverjson.DefaultRegistry)}
	if strings.Count(name, "/") != 1 {
		return a.suggest(ctx, r, name, fmt.Errorf("%q is not the full name of a server (NAMESPACE/NAME)", name))
	}
	done := cli.Busy(a.Cmd, "asking "+r.URL)
	d, err := r.Get(ctx, name, version)
	done()
	if errors.Is(err, serverjson.ErrNotFound) {
		_, last, _ := strings.Cut(name, "/")
		return a.suggest(ctx, r, last, fmt.Errorf("the registry has no server %q", strings.TrimSuffix(name+"@"+version, "@")))
	}
	if err != nil {
		return err
	}
	switch d.Status {
	case "deleted":
		return fmt.Errorf("the registry has deleted %s: %s", name, cmp.Or(display.Line(d.StatusMessage, 300), "it does not say why"))
	case "deprecated":
		fmt.Fprintf(a.Cmd.ErrOrStderr(), "warning: %s is deprecated: %s\n", name, cmp.Or(display.Line(d.StatusMessage, 300), "the registry does not say why"))
	}
	return a.described(ctx, d)
}

func getenv(name string) string {
	value, _ := os.LookupEnv(name)
	return value
}

// suggest adds names with a similar part to an error. None of them is taken without being
// named in full: anybody can register a similar name.
func (a *addition) suggest(ctx context.Context, r serverjson.Registry, text string, err error) error {
	names, failed := r.Search(ctx, text)
	if failed != nil || len(names) == 0 {
		return err
	}
	return fmt.Errorf("%w; the registry has:\n  %s", err, strings.Join(names, "\n  "))
}

func (a *addition) fromAddress(ctx context.Context, address string) error {
	done := cli.Busy(a.Cmd, "reading "+address)
	data, err := serverjson.Fetch(ctx, address)
	done()
	if err != nil {
		return err
	}
	return a.parsed(ctx, data)
}

func (a *addition) fromFile(ctx context.Context, name string) error {
	data, err := regular.Read(ctx, name, serverjson.MaxSize)
	if err != nil {
		return err
	}
	return a.parsed(ctx, data)
}

func (a *addition) parsed(ctx context.Context, data []byte) error {
	d, err := serverjson.Parse(data)
	if err != nil {
		return err
	}
	return a.described(ctx, d)
}

// described makes the server the server of a document.
func (a *addition) described(ctx context.Context, d *serverjson.Document) error {
	if a.Transport != "" {
		return errors.New("--transport is for addresses (--use chooses among those of a server.json)")
	}
	a.document = d
	if a.Name == "" {
		a.Name = serverName(d.Name)
	}
	o, err := a.choose(ctx, d.Options())
	if err != nil {
		return err
	}
	a.Declared, a.Consumed = o.SecretNames(), map[string]bool{}
	values, err := a.fillIn(ctx, o.Inputs())
	if err != nil {
		return err
	}
	if a.Server, err = o.Server(values); err != nil {
		if missing := new(serverjson.MissingError); errors.As(err, &missing) {
			return fmt.Errorf("%w\n%sgive them with --set NAME=VALUE", err, describeInputs(missing.Inputs))
		}
		return err
	}
	for _, note := range o.Notes(values) {
		fmt.Fprintf(a.Cmd.ErrOrStderr(), "note: %s\n", display.EscapeLine(note))
	}
	if a.Server.URL != "" {
		return a.FinishAddress()
	}
	if len(a.Headers) > 0 || a.OAuth {
		return errors.New("--header and --oauth are for servers with an address")
	}
	return a.FinishProgram()
}

// choose returns the option to use: the option of a flag, the only option, the choice of the
// person, or the first option with an installed command.
func (a *addition) choose(ctx context.Context, options []serverjson.Option) (*serverjson.Option, error) {
	var usable []*serverjson.Option
	var list strings.Builder
	for i := range options {
		o := &options[i]
		state := ""
		if o.Problem == "" {
			usable = append(usable, o)
		} else {
			state = " (cannot be used)"
		}
		fmt.Fprintf(&list, "  %d  %s%s\n", i+1, display.EscapeLine(o.Label), state)
	}
	if a.Use != "" {
		for i := range options {
			if a.Use == strconv.Itoa(i+1) || a.Use == options[i].Kind {
				if options[i].Problem != "" {
					return nil, errors.New(options[i].Problem)
				}
				return &options[i], nil
			}
		}
		return nil, fmt.Errorf("--use %q: there are\n%s", a.Use, strings.TrimRight(list.String(), "\n"))
	}
	switch {
	case len(options) == 0:
		return nil, errors.New("the server.json has neither packages nor remotes")
	case len(usable) == 0:
		return nil, errors.New(options[0].Problem)
	case len(usable) == 1:
		return usable[0], nil
	case a.interactive:
		fmt.Fprint(a.Cmd.ErrOrStderr(), "It can be run in several ways:\n"+list.String())
		for {
			answer, err := a.Asker.Line(ctx, "Which one? ")
			if err != nil {
				return nil, ignoreEOF(err, errors.New("none was chosen"))
			}
			if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) && options[n-1].Problem == "" {
				return &options[n-1], nil
			}
		}
	}
	if i := slices.IndexFunc(usable, func(o *serverjson.Option) bool { return installed(o.Runtime()) }); i > 0 {
		return usable[i], nil
	}
	return usable[0], nil
}

// installed reports whether a command is installed; "" stands for no command.
func installed(command string) bool {
	if command == "" {
		return true
	}
	_, err := exec.LookPath(command)
	return err == nil
}

func ignoreEOF(err, instead error) error {
	if errors.Is(err, io.EOF) {
		return instead
	}
	return err
}

// fillIn returns the texts for inputs: from flags, the environment, or the person.
func (a *addition) fillIn(ctx context.Context, inputs []serverjson.Input) (map[string][]string, error) {
	values := map[string][]string{}
	for n, text := range slices.Concat(a.Set, a.Env) {
		name, value, ok := strings.Cut(text, "=")
		i := slices.IndexFunc(inputs, func(in serverjson.Input) bool { return in.Name == name })
		if i < 0 {
			if n < len(a.Set) {
				return nil, fmt.Errorf("--set %s: there is no such value; there are\n%s", name, describeInputs(inputs))
			}
			continue
		}
		switch {
		case !ok:
			value = "${" + name + "}"
		case strings.Contains(value, "${"): // in the language of the configuration
		default:
			if err := inputs[i].Check(value); err != nil {
				return nil, err
			}
			if inputs[i].Secret {
				value = a.Reference(a.variableOf(inputs[i]), value)
			}
		}
		values[name] = append(values[name], value)
		if n >= len(a.Set) {
			a.Consumed[name] = true
		}
	}
	var optional []serverjson.Input
	for _, in := range inputs {
		if len(values[in.Name]) > 0 {
			continue
		}
		text, err := a.ask(ctx, in)
		switch {
		case err != nil:
			return nil, err
		case text != "":
			values[in.Name] = []string{text}
		case !in.Required && in.Default == "":
			optional = append(optional, in)
		}
	}
	if optional != nil {
		fmt.Fprintf(a.Cmd.ErrOrStderr(), "left out (--set NAME=VALUE sets them, --env NAME takes a variable from the environment):\n%s", describeInputs(optional))
	}
	return values, nil
}

// ask returns the text for an input without a flag; "" for the default.
func (a *addition) ask(ctx context.Context, in serverjson.Input) (string, error) {
	if in.Secret {
		return a.askSecret(ctx, in)
	}
	if !in.Required || in.Default != "" || !a.interactive {
		return "", nil
	}
	fmt.Fprint(a.Cmd.ErrOrStderr(), describeInputs([]serverjson.Input{in}))
	for {
		value, err := a.Asker.Line(ctx, in.Name+": ")
		if err != nil {
			return "", ignoreEOF(err, fmt.Errorf("%s has no value", in.Name))
		}
		if err := in.Check(value); err != nil {
			fmt.Fprintln(a.Cmd.ErrOrStderr(), display.EscapeLine(err.Error()))
			continue
		}
		return edit.Literal(value), nil
	}
}

// askSecret returns the reference for a secret without a flag; "" if the person leaves the secret
// out. An optional secret is taken from the environment only with the consent of the person: the
// document may name a variable with another purpose.
func (a *addition) askSecret(ctx context.Context, in serverjson.Input) (string, error) {
	variable := a.variableOf(in)
	reference := "${" + variable + "}"
	if in.Required {
		return reference, nil // asked for later, as other variables are
	}
	if _, ok := os.LookupEnv(variable); !ok || !a.interactive {
		return "", nil
	}
	yes, err := a.Asker.Confirm(ctx, fmt.Sprintf("It can use %s, a secret that your environment has. Give it to the server?", variable))
	if err != nil || !yes {
		return "", err
	}
	return reference, nil
}

// variableOf returns the environment variable for a secret: the name of the secret if the name is a
// variable, otherwise a name with the name of the server. So no document can name a variable with
// another purpose and have the value sent somewhere.
func (a *addition) variableOf(in serverjson.Input) string {
	if in.Kind == "environment variable" {
		return in.Name
	}
	return clientconfig.VariableName(a.Name + "_" + in.Name)
}

// describeInputs lists inputs, each on a line.
func describeInputs(inputs []serverjson.Input) string {
	var b strings.Builder
	for _, in := range inputs {
		var more []string
		for _, f := range []struct {
			set  bool
			text string
		}{
			{in.Secret, "secret"}, {in.Required, "required"}, {in.Repeated, "several are possible"}, {in.Format != "" && in.Format != "string", in.Format},
			{in.Default != "", "default " + in.Default}, {in.Placeholder != "", "for example " + in.Placeholder},
			{len(in.Choices) > 0, "one of " + strings.Join(in.Choices, ", ")},
		} {
			if f.set {
				more = append(more, f.text)
			}
		}
		line := in.Name + " (" + in.Kind
		if more != nil {
			line += "; " + strings.Join(more, "; ")
		}
		line += ")"
		if in.Description != "" {
			line += ": " + display.Line(in.Description, 200)
		}
		b.WriteString("  " + display.EscapeLine(line) + "\n")
	}
	return b.String()
}

// show shows the full command of the document.
func (a *addition) show() {
	var b strings.Builder
	d, s := a.document, &a.Server
	line := display.EscapeLine // no value can begin a line of its own
	fmt.Fprintf(&b, "%s %s: %s\n", line(d.Name), line(d.Version), display.Line(d.Description, 300))
	if d.Repository.URL != "" {
		fmt.Fprintf(&b, "Its source: %s\n", line(d.Repository.URL))
	}
	if s.URL != "" {
		fmt.Fprintf(&b, "It is reached at:\n  %s\n", line(s.URL))
	} else {
		fmt.Fprintf(&b, "It is started with your rights, by:\n  %s\n", line(commandLine(append([]string{s.Command}, s.Args...))))
	}
	for _, list := range []struct {
		title, between string
		settings       []edit.Setting
	}{{"environment variables", "=", s.Env}, {"headers", ": ", s.Headers}} {
		if len(list.settings) > 0 {
			fmt.Fprintf(&b, "with these %s:\n", list.title)
		}
		for _, set := range list.settings {
			fmt.Fprintf(&b, "  %s%s%s\n", line(set.Name), list.between, line(set.Value))
		}
	}
	fmt.Fprint(a.Cmd.OutOrStdout(), b.String())
}
