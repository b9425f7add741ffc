package config

import (
	"errors"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"time"
)

// Journal says what is recorded of calls; see package journal. If it is off,
// nothing is recorded.
type Journal struct {
	Enabled bool
	// Dir is absolute; "" is a directory below that of the store, see
	// [Config.JournalDir].
	Dir string
	// Required has runs refused that cannot be recorded.
	Required bool
	Sync     Sync
	// MaxSize is how large one file grows, MaxTotal how large all together, in
	// bytes, and MaxAge how old.
	MaxSize, MaxTotal uint64
	MaxAge            time.Duration
	// Redact are patterns of what is replaced by ****, besides the secrets.
	Redact []*regexp.Regexp
	// Proxied says what is kept of calls that are passed on without a script.
	Proxied Proxied
}

// Sync says when the journal is flushed to the disk.
type Sync string

// The values of Sync.
const (
	SyncNever  Sync = "never"  // when the system does it
	SyncRun    Sync = "run"    // at the end of each run
	SyncAlways Sync = "always" // with each event
)

// Proxied says what is recorded of calls that clients make of upstreams' tools.
type Proxied string

// The values of Proxied.
const (
	ProxiedOff     Proxied = "off"
	ProxiedSummary Proxied = "summary" // who, what, when, how long, how it ended
	ProxiedFull    Proxied = "full"    // with arguments and answers
)

// JournalDir is where the journal is.
func (c *Config) JournalDir() string {
	if c.Journal.Dir != "" {
		return c.Journal.Dir
	}
	return filepath.Join(c.Store.Dir, "logs")
}

// decodeJournal reads what is kept of calls.
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
	if j.Required && !j.Enabled {
		t.problem("required", "is set, and the journal is not enabled (drop one of the two)")
	}
	if j.MaxTotal < j.MaxSize {
		t.problem(t.key("max_total"), "is less than %s, the size of one file", t.key("max_size"))
	}
	t.close(journalAliases)
}

// journalAliases are what other programs call these settings.
var journalAliases = map[string]string{
	"directory": "dir", "path": "dir", "fsync": "sync", "retention": "max_age", "keep": "max_age",
	"maxfilesize": "max_size", "maxtotalsize": "max_total", "mask": "redact", "patterns": "redact",
}

// patterns are the regular expressions in the array under a key, as they are
// written: a $ in them is one of theirs.
func (t *table) patterns(key string) []*regexp.Regexp {
	var all []*regexp.Regexp
	t.strs(key, func(key string, n *node) (string, bool) {
		p, err := regexp.Compile(n.text)
		var bad *syntax.Error
		switch {
		case errors.As(err, &bad):
			t.problem(key, "is no regular expression: %s", bad.Code)
		case err != nil:
			t.problem(key, "is no regular expression: %v", err)
		case n.text == "":
			t.problem(key, "is empty (leave it out)")
		default:
			all = append(all, p)
		}
		return "", false
	})
	return all
}
