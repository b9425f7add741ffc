package secret

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// file reads a file. Links are followed: secrets of containers are links.
func (f fetcher) file(ctx context.Context, r config.Reference) (string, error) {
	data, err := regular.Read(ctx, r.Path, maxValue)
	if err != nil {
		var failed *fs.PathError
		if errors.As(err, &failed) {
			err = failed.Err // the path is in the reference
		}
		return "", err
	}
	if info, err := os.Stat(r.Path); err == nil && config.ReadableByOthers(info) {
		f.log.Warn("other users can read the file of a secret (chmod 600)", "file", r.Path)
	}
	return string(data), nil
}
