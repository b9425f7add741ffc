package secret

import (
	"context"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/host/config"
)

// Fill returns an upstream of cfg with secrets in place of its references, or u itself if
// it has none. From then on, the maskers of cfg mask them. The error names the setting,
// but not the upstream.
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
			return nil, fmt.Errorf("%s: %w", r.Setting, err)
		}
		cfg.Learn(r.Reference, value)
		values[r.Reference] = value
	}
	return u.WithSecrets(func(r config.Reference) string { return values[r] })
}
