package config

import (
	"errors"
	"fmt"
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kballard/go-shellquote"
)

// ReferenceKind says where the secret of a [Reference] is kept.
type ReferenceKind string

// The kinds.
const (
	FromCommand ReferenceKind = "cmd"     // the standard output of a command
	FromFile    ReferenceKind = "file"    // the content of a file
	FromKeyring ReferenceKind = "keyring" // the keyring of the user
)

// Reference names a secret that is not in the configuration and is fetched when a server
// is started. References are comparable: equal ones have the same value at a time.
type Reference struct {
	Kind ReferenceKind
	// Text is the command, the path or the name in the keyring, as it is in the file.
	Text string
	// Path is the absolute path of the file. For a command it is the folder in which the
	// command runs, that of the configuration. It is "" for the keyring.
	Path string
}

// String returns the reference as it is in the file.
func (r Reference) String() string { return "${" + string(r.Kind) + ":" + r.Text + "}" }

// Words returns the program and the arguments of a command. They are quoted as in a shell,
// but nothing else in them has a special meaning. A program with a separator in its path is
// relative to the configuration's folder.
func (r Reference) Words() ([]string, error) {
	words, err := shellquote.Split(r.Text)
	if err != nil {
		return nil, errUnquoted
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("names no command (write ${cmd:PROGRAM ARGUMENT ...})")
	}
	for _, w := range words {
		if shellOperators[w] {
			return nil, fmt.Errorf("has %s, but the command runs without a shell (put the command into a script)", w)
		}
	}
	if filepath.Base(words[0]) != words[0] && !filepath.IsAbs(words[0]) {
		words[0] = filepath.Join(r.Path, words[0])
	}
	return words, nil
}

var errUnquoted = errors.New("has a quote or a backslash at its end that is not closed (a } ends the reference, even in quotes)")

// shellOperators are words that only a shell understands.
var shellOperators = map[string]bool{"|": true, "||": true, "&": true, "&&": true, ";": true, "<": true, ">": true, ">>": true, "2>&1": true}

// SecretName is what names in the keyring look like.
var SecretName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)

// ErrSecretName says that a name does not match SecretName.
var ErrSecretName = errors.New("a name in the keyring has 1 to 128 letters, digits and . _ / -, and begins with a letter or digit")

// parseReference parses the part of an expression between the braces. It returns false if
// that is not a reference.
func parseReference(expression string) (Reference, bool) {
	kind, text, ok := strings.Cut(expression, ":")
	r := Reference{Kind: ReferenceKind(kind), Text: text}
	return r, ok && slices.Contains([]ReferenceKind{FromCommand, FromFile, FromKeyring}, r.Kind)
}

// locate sets the path of a reference, and returns an error if the reference is invalid.
func (r *reader) locate(ref *Reference) error {
	switch ref.Kind {
	case FromCommand:
		ref.Path = r.base
		_, err := ref.Words()
		return err
	case FromFile:
		if ref.Text == "" {
			return errors.New("names no file (write ${file:PATH})")
		}
		path, err := expandHome(ref.Text, r.home)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.base, path)
		}
		ref.Path = filepath.Clean(path)
	default:
		if !SecretName.MatchString(ref.Text) {
			return ErrSecretName
		}
	}
	return nil
}

// Setting names one value of an upstream in which references may be.
type Setting struct {
	Key  string // "args", "env", "url", "headers" or "oauth.client_secret"
	Name string // of the variable or header
	At   int    // in args
}

// The keys of settings.
const (
	argsKey, envKey, urlKey, headersKey = "args", "env", "url", "headers"
	clientSecretKey                     = "oauth.client_secret"
)

// String returns the setting as messages call it: args[1], env.TOKEN.
func (s Setting) String() string {
	switch s.Key {
	case argsKey:
		return fmt.Sprintf("args[%d]", s.At)
	case envKey, headersKey:
		return s.Key + "." + s.Name
	}
	return s.Key
}

// PlacedReference is a reference within a setting of an upstream.
type PlacedReference struct {
	Reference
	Setting Setting
	// From and To are where it is in the value, in bytes.
	From, To int
}

// expandFetched expands a string in which everything is secret, as expandPrivate does, and
// in which references are allowed. These stay in the text, and are added to u.
func (t *table) expandFetched(u *Upstream, setting Setting, key, name string, n *node) (string, bool) {
	e, ok := t.expandAll(key, n)
	for _, r := range e.refs {
		u.References = append(u.References, PlacedReference{r.Reference, setting, r.from, r.to})
	}
	spans := append(secretVars(e, setting.Key != urlKey), secretParts(name, e.text)...)
	t.keep(key, e, e.outsideReferences(spans))
	return e.text, ok
}

// outsideReferences returns the parts of spans that are not in a reference, and the secrets
// in the commands of references.
func (e expansion) outsideReferences(spans []span) []span {
	for _, ref := range e.refs {
		var rest []span
		for _, s := range spans {
			for _, part := range []span{{s.from, min(s.to, ref.from)}, {max(s.from, ref.to), s.to}} {
				if part.from < part.to {
					rest = append(rest, part)
				}
			}
		}
		spans = rest
	}
	for _, ref := range e.refs {
		spans = append(spans, ref.secrets()...)
	}
	return spans
}

// word is a word of a command, without regard to quotes.
var word = lazyregexp.New(`\S+`)

// secrets returns the parts of a command that look secret, such as what follows --password.
func (r refSpan) secrets() []span {
	if r.Kind != FromCommand {
		return nil
	}
	var spans []span
	option, from := "", r.to-len("}")-len(r.Text)
	for _, m := range word.FindAllStringIndex(r.Text, -1) {
		arg := r.Text[m[0]:m[1]]
		for _, s := range secretParts(option, arg) {
			spans = append(spans, span{from + m[0] + s.from, from + m[0] + s.to})
		}
		option = ""
		if strings.HasPrefix(arg, "-") && !strings.Contains(arg, "=") {
			option = arg
		}
	}
	return spans
}

// plainURL returns an address with a letter in place of each reference, to be checked.
func (u *Upstream) plainURL(text string) string {
	return u.fill(Setting{Key: urlKey}, text, func(Reference) string { return "x" })
}

// fill replaces the references in the value of a setting.
func (u *Upstream) fill(setting Setting, text string, value func(Reference) string) string {
	for _, r := range slices.Backward(u.References) { // the last one first, so that the places stay right
		if r.Setting == setting {
			text = text[:r.From] + value(r.Reference) + text[r.To:]
		}
	}
	return text
}

// WithSecrets returns a copy of u with values in place of all references. The error says
// which setting has become invalid; it has no value in it.
func (u *Upstream) WithSecrets(value func(Reference) string) (*Upstream, error) {
	filled := *u
	filled.Args, filled.Env, filled.Headers = slices.Clone(u.Args), maps.Clone(u.Env), maps.Clone(u.Headers)
	if u.OAuth != nil {
		oauth := *u.OAuth
		oauth.ClientSecret = u.fill(Setting{Key: clientSecretKey}, oauth.ClientSecret, value)
		filled.OAuth = &oauth
	}
	for i, arg := range u.Args {
		filled.Args[i] = u.fill(Setting{Key: argsKey, At: i}, arg, value)
	}
	for name, v := range u.Env {
		filled.Env[name] = u.fill(Setting{Key: envKey, Name: name}, v, value)
	}
	for name, v := range u.Headers {
		setting := Setting{Key: headersKey, Name: name}
		filled.Headers[name] = u.fill(setting, v, value)
		if hasControl(filled.Headers[name]) {
			return nil, fmt.Errorf("%s %w", setting, errHeaderControl)
		}
	}
	if filled.URL = u.fill(Setting{Key: urlKey}, u.URL, value); filled.URL != u.URL {
		if err := checkURL(filled.URL); err != nil {
			return nil, fmt.Errorf("url %w", err)
		}
	}
	filled.References = nil
	return &filled, nil
}

// checkURL returns an error if text cannot be the address of a server. The error follows
// the name of the setting and does not quote text, which can have credentials.
func checkURL(text string) error {
	address, err := url.Parse(text)
	switch {
	case err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Hostname() == "":
		return errors.New("is not an address of a server (write https://HOST/PATH or http://HOST:PORT/PATH)")
	case address.Fragment != "" || strings.Contains(text, "#"):
		return errors.New("has a part after #, which is never sent to a server (leave it out)")
	}
	return nil
}

// References returns the references of all upstreams that are not disabled, without
// duplicates, with the names of the upstreams that have each.
func (c *Config) References() (list []Reference, users map[Reference][]string) {
	users = map[Reference][]string{}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		if u.Disabled {
			continue
		}
		for _, r := range u.References {
			if users[r.Reference] == nil {
				list = append(list, r.Reference)
			}
			if !slices.Contains(users[r.Reference], u.Name) {
				users[r.Reference] = append(users[r.Reference], u.Name)
			}
		}
	}
	return list, users
}

// argSetting returns the setting of an item of args.
func argSetting(key string) Setting {
	at, _ := strconv.Atoi(strings.Trim(strings.TrimPrefix(key, argsKey), "[]"))
	return Setting{Key: argsKey, At: at}
}
