package upstream

import (
	"slices"
	"time"
)

const (
	// lingering is how long a call that was given up still counts as one that
	// messages of the server may belong to: until the server has taken note, it
	// goes on talking, and what it says must not go to whoever called next.
	lingering = 5 * time.Second
	// maxLingering bounds how many such calls are kept.
	maxLingering = 256
)

// given is the owner of a call that was given up.
type given struct {
	id    int64
	owner any
	until time.Time
}

// expire drops those whose time has come.
func expire(late []given, now time.Time) []given {
	n := slices.IndexFunc(late, func(g given) bool { return now.Before(g.until) })
	if n < 0 {
		n = len(late)
	}
	return slices.Delete(late, 0, n)
}
