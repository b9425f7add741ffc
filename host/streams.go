package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// A file in the folder of a replica lists the streams that the replica has used, so that the
// replica does not make them again, empty, after NATS has lost them: other replicas would take the
// contents as removed.

// maxStreams bounds the file, in bytes.
const maxStreams = 4 << 10

func streamsPath(cfg *config.Config) string {
	return filepath.Join(cfg.Store.Dir, "fleet", cfg.Store.Prefix, "streams")
}

// streamsHad returns the streams that a replica with this folder has used.
func streamsHad(ctx context.Context, cfg *config.Config) ([]string, error) {
	data, err := regular.Read(ctx, streamsPath(cfg), maxStreams)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(data)), err
}

// noteStreams notes that a replica with this folder uses the streams.
func noteStreams(cfg *config.Config, had []string) error {
	now := jetstream.Streams(cfg.Store.Prefix)
	if slices.Equal(had, now) {
		return nil
	}
	path := streamsPath(cfg)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return regular.Write(path, []byte(strings.Join(now, "\n")+"\n"), 0o600)
}

// openStreams opens the store of the fleet, without encryption. opts has the options that the
// configuration does not set.
func openStreams(ctx context.Context, cfg *config.Config, opts jetstream.Options) (store.Store, error) {
	c := &cfg.Store
	secure, err := fleetTLS(ctx, c)
	if err != nil {
		return nil, err
	}
	opts.URLs, opts.Credentials, opts.NKey, opts.User, opts.Password, opts.Token = c.NATS, c.Credentials, c.NKey, c.User, c.Password, c.Token
	opts.TLS, opts.Prefix, opts.Replicas, opts.MaxAge, opts.MaxBytes = secure, c.Prefix, c.Replicas, cfg.Journal.MaxAge, int64(cfg.Journal.MaxTotal)
	if opts.Make != jetstream.MakeNew {
		return OpenStore(ctx, opts)
	}
	if opts.Had, err = streamsHad(ctx, cfg); err != nil {
		return nil, fmt.Errorf("the streams that this replica has used: %w", err)
	}
	s, err := OpenStore(ctx, opts)
	if err == nil {
		if failed := noteStreams(cfg, opts.Had); failed != nil {
			opts.Log.Warn("it cannot be noted that this replica uses the streams of the fleet: after a restart it makes them again if they are lost", "err", failed)
		}
	}
	return s, err
}

// InitFleet makes the missing streams of a fleet, empty, and returns their names.
func InitFleet(ctx context.Context, cfg *config.Config, log *slog.Logger) (made []string, err error) {
	if len(cfg.Store.NATS) == 0 {
		return nil, ErrNoFleet
	}
	s, err := openStreams(ctx, cfg, jetstream.Options{
		Make: jetstream.MakeAll, Log: log, Made: func(stream string) { made = append(made, stream) },
	})
	if err != nil {
		return made, err
	}
	return made, s.Close()
}
