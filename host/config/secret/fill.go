package secret

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Unreadable says that a secret that an upstream needs could not be fetched. Its text has
// nothing of what the command, the file or the keyring said, because clients see it.
type Unreadable struct {
	Setting config.Setting // the value that has the reference
	Err     error          // why, with the reference; only for the person, and not masked
}

func (e *Unreadable) Error() string {
	return fmt.Sprintf("the secret in %s cannot be read (the log says why)", e.Setting)
}

// Detail returns why, for the person; see upstream.Status.
func (e *Unreadable) Detail() string { return fmt.Sprintf("%s: %v", e.Setting, e.Err) }

func (e *Unreadable) Unwrap() error { return e.Err }

// Fill returns an upstream of cfg with secrets in place of its references, or u itself if
// it has none. From then on, the maskers of cfg mask them. An error of source
// becomes an [*Unreadable].
func Fill(ctx context.Context, source Source, cfg *config.Config, u *config.Upstream) (*config.Upstream, error) {
	if len(u.References) == 0 {
		return u, nil
	}
	values := map[config.Reference]string{}
	for _, r := range u.References { // one after the other: each may ask the person something
		if _, ok := values[r.Reference]; ok {
			continue
		}
		value, err := source.Fetch(ctx, r.Reference)
		if err != nil {
			return nil, &Unreadable{r.Setting, err}
		}
		cfg.Learn(r.Reference, value)
		values[r.Reference] = value
	}
	return u.WithSecrets(func(r config.Reference) string { return values[r] })
}
