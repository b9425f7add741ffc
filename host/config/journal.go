package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"time"
)

// Journal says what is recorded about calls; see package journal.
type Journal struct {
	Enabled bool // if false, nothing is recorded
	// Dir is absolute; "" means a directory below that of the store, see
	// [Config.JournalDir].
	Dir string
	// Required refuses runs that cannot be recorded.
	Required bool
	Sync     Sync
	// MaxSize bounds one file and MaxTotal all files together, in bytes; MaxAge is how
	// long files are kept.
	MaxSize, MaxTotal uint64
	MaxAge            time.Duration
	// Redact are patterns of text that is replaced by ****, in addition to the secrets.
	Redact []*regexp.Regexp
	// Proxied says what is recorded about calls that are forwarded without a script.
	Proxied Proxied
	Signing
}

// Sync says when the journal is flushed to disk.
type Sync string

// The values of Sync.
const (
	SyncNever  Sync = "never"  // when the operating system does it
	SyncRun    Sync = "run"    // at the end of each run
	SyncAlways Sync = "always" // after each event
)

// Proxied says what is recorded about clients' calls of upstream tools.
type Proxied string

// The values of Proxied.
const (
	ProxiedOff     Proxied = "off"
	ProxiedSummary Proxied = "summary" // who, what, when, how long, the outcome
	ProxiedFull    Proxied = "full"    // also arguments and answers
)

// JournalDir returns the directory of the journal.
func (c *Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.Journal.Dir
	}
	return filepath.Join(c.Store.Dir, "logs")
}

// decodeJournal reads [journal].
func decodeJournal(t *table, c *Config) {
	if t == nil {
		return
	}
	j := &c.Journal
	t.boolean("enabled", &j.Enabled)
	if dir, ok := t.directory("dir"); ok {
		j.Dir = dir
	}
	t.boolean("required", &j.Required)
	choice(t, "sync", &j.Sync, SyncNever, SyncRun, SyncAlways)
	t.limits("journal", c.limits())
	j.Redact = t.patterns("redact")
	choice(t, "proxied", &j.Proxied, ProxiedOff, ProxiedSummary, ProxiedFull)
	t.signing(j)
	if j.Required && !j.Enabled {
		t.problem("required", "is set although the journal is not enabled (drop one of the two)")
	}
	if j.MaxTotal < j.MaxSize {
		t.problem(t.key("max_total"), "is less than %s, the size of one file", t.key("max_size"))
	}
	t.close(journalAliases)
}

// journalAliases are the names that other programs use for these settings.
var journalAliases = map[string]string{
	"directory": "dir", "path": "dir", "fsync": "sync", "retention": "max_age", "keep": "max_age",
	"signing": "sign", "signature": "sign", "signingkey": "sign_key", "key": "sign_key", "signer": "sign_command", "publickey": "sign_public",
	"maxfilesize": "max_size", "maxtotalsize": "max_total", "mask": "redact", "patterns": "redact",
}

// patterns returns the regular expressions in the array under a key. Variables in them
// are not expanded, because $ has a meaning of its own there.
func (t *table) patterns(key string) []*regexp.Regexp {
	var all []*regexp.Regexp
	t.strs(key, func(key string, n *node) (string, bool) {
		p, err := regexp.Compile(n.text)
		var bad *syntax.Error
		switch {
		case errors.As(err, &bad):
			t.problem(key, "is not a regular expression: %s", bad.Code)
		case err != nil:
			t.problem(key, "is not a regular expression: %v", err)
		case n.text == "":
			t.problem(key, "is empty (leave it out)")
		default:
			all = append(all, p)
		}
		return "", false
	})
	return all
}
