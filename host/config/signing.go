package config

import (
	"github.com/mcp-metatool/mcp-metatool/tools/lazyregexp"

	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
)

// Signing says how the runs in the journal are signed.
type Signing struct {
	Sign Sign
	// SignKeyFile is the absolute path of the file with the private key, and SignKey where it is
	// fetched from instead. Without them, it is in the folder of the store, or, in a fleet, derived
	// from the fleet's key.
	SignKeyFile string
	SignKey     *Reference
	// SignCommand is a program with its arguments that signs; nil for none. It runs in the folder of
	// the configuration. SignPublic is the key that checks its signatures, in base64.
	SignCommand []string
	SignPublic  string
}

// Sign says whether runs are signed.
type Sign string

// The values of Sign.
const (
	SignOff      Sign = "off"
	SignOn       Sign = "on"       // a run that cannot be signed is recorded without a signature
	SignRequired Sign = "required" // its result is not given
)

// wholeReference matches a value that is one reference.
var wholeReference = lazyregexp.New(`^\$\{((?:cmd|file|keyring):.+)\}$`)

// signing reads the settings of signatures in [journal].
func (t *table) signing(j *Journal) {
	choice(t, "sign", &j.Sign, SignOff, SignOn, SignRequired)
	keyKey, commandKey, publicKey := t.key("sign_key"), t.key("sign_command"), t.key("sign_public")
	if n := t.node.fields[keyKey]; n != nil && n.kind == kindString && wholeReference.MatchString(n.text) {
		t.know(keyKey)
		ref, _ := parseReference(wholeReference.FindStringSubmatch(n.text)[1])
		if err := t.r.locate(&ref); err != nil {
			t.problem(keyKey, "%v", err)
		}
		j.SignKey = &ref
	} else if path, ok := t.file(keyKey); ok {
		j.SignKeyFile = path
	}
	j.SignCommand = t.strs(commandKey, t.expandPublic)
	public, hasPublic := t.str(publicKey)
	if hasPublic {
		if key, err := seal.ParsePublic([]byte(public)); err != nil {
			t.problem(publicKey, "%v", err)
		} else {
			j.SignPublic = key.String()
		}
	}
	switch has := len(j.SignCommand) > 0; {
	case j.SignCommand != nil && (!has || j.SignCommand[0] == ""):
		t.problem(commandKey, "names no program (write an array: the program and its arguments)")
	case has && (j.SignKey != nil || j.SignKeyFile != ""):
		t.problem(commandKey, "is set together with %s (leave one of them out)", keyKey)
	case has && !hasPublic:
		t.problem(publicKey, "is missing: the signatures of %s are checked with it (write the public key: 32 bytes in base64, or PEM)", commandKey)
	case !has && hasPublic:
		t.problem(publicKey, "is set without %s (drop it)", commandKey)
	}
	if j.Sign == SignRequired && !j.Enabled {
		t.problem("sign", "is \"required\" although the journal is not enabled (drop one of the two)")
	}
}

// signing describes how runs are signed.
func (d *description) signing(s *Signing) {
	if s.SignKeyFile != "" {
		d.line("sign_key", d.shown("journal."+d.c.key("sign_key"), s.SignKeyFile))
	}
	if s.SignKey != nil {
		d.line("sign_key", d.masker.Mask(s.SignKey.String()))
	}
	if len(s.SignCommand) > 0 {
		d.line("sign_command", d.list("journal."+d.c.key("sign_command"), s.SignCommand, "none"))
	}
	if s.SignPublic != "" {
		d.line("sign_public", d.masker.Mask(s.SignPublic))
	}
}
