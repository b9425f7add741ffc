package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/config/secret"
	"github.com/mcp-metatool/mcp-metatool/host/journal/seal"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
)

// signer returns the signer of runs by a configuration; nil if the configuration signs no runs.
func (h *Host) signer(cfg *config.Config) seal.Signer {
	if cfg.Journal.Sign != config.SignOn && cfg.Journal.Sign != config.SignRequired {
		return nil
	}
	if len(cfg.Journal.SignCommand) > 0 {
		return commandSigner(cfg)
	}
	return &keySigner{load: func(ctx context.Context) (seal.PrivateKey, error) {
		return signingKey(ctx, cfg, h.ring, h.opts.Log, seal.LoadKey)
	}, again: h.ring != nil && cfg.Journal.SignKey == nil && cfg.Journal.SignKeyFile == ""}
}

func commandSigner(cfg *config.Config) *secret.CommandSigner {
	public, _ := seal.ParsePublic([]byte(cfg.Journal.SignPublic)) // was checked
	return &secret.CommandSigner{Words: cfg.Journal.SignCommand, Dir: filepath.Dir(cfg.Path), Public: public}
}

// sealPurpose derives the key of a fleet that signs runs: all replicas sign as one.
const sealPurpose = "journal seal"

// signingKey returns the private key of a configuration. ring has the keys of the fleet; nil
// without a fleet. own returns the key in a folder.
func signingKey(ctx context.Context, cfg *config.Config, ring *sealed.Ring, log *slog.Logger, own func(ctx context.Context, dir string) (seal.PrivateKey, error)) (seal.PrivateKey, error) {
	switch j := &cfg.Journal; {
	case j.SignKey != nil:
		text, err := secret.NewFetcher(log).Fetch(ctx, *j.SignKey)
		if err != nil {
			return seal.PrivateKey{}, fmt.Errorf("sign_key in [journal]: %w", err)
		}
		key, err := seal.ParsePrivate([]byte(text))
		if err != nil {
			return key, fmt.Errorf("sign_key in [journal]: what %s returns %w", *j.SignKey, err)
		}
		return key, nil
	case j.SignKeyFile != "":
		key, err := seal.ReadKey(ctx, j.SignKeyFile)
		if err != nil {
			err = fmt.Errorf("sign_key in [journal]: %w", err)
		}
		return key, err
	case ring != nil:
		return seal.FromSeed(ring.Derive(sealPurpose)[0]), nil
	}
	return own(ctx, cfg.Store.Dir)
}

// keySigner signs with a key that is fetched on the first use.
type keySigner struct {
	load  func(context.Context) (seal.PrivateKey, error)
	again bool // the key is loaded for each signature, since the key can change

	mu  sync.Mutex // held while the key is fetched
	key *seal.PrivateKey
}

// Sign implements seal.Signer.
func (s *keySigner) Sign(ctx context.Context, st seal.Statement) (*seal.Seal, error) {
	key, err := s.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return key.Sign(ctx, st)
}

func (s *keySigner) loaded(ctx context.Context) (seal.PrivateKey, error) {
	if s.again {
		return s.load(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return *s.key, nil
	}
	key, err := s.load(ctx)
	if err == nil {
		s.key = &key
	}
	return key, err
}

// ErrNoKey is the error before the first signature, when no key exists.
var ErrNoKey = errors.New("nothing has been signed here yet: there is no key (it is made with the first run)")

// VerifyKeys returns the public keys whose signatures the commands of a configuration trust: the
// present key first, then the other keys of a fleet. With make, VerifyKeys makes a missing key. The
// error is ErrNoKey, or a failure to read the key.
func VerifyKeys(ctx context.Context, cfg *config.Config, log *slog.Logger, make bool) ([]seal.PublicKey, error) {
	if len(cfg.Journal.SignCommand) > 0 {
		return []seal.PublicKey{commandSigner(cfg).Public}, nil
	}
	var ring *sealed.Ring
	if len(cfg.Store.NATS) > 0 {
		var err error
		if ring, err = fleetRing(cfg); err != nil {
			return nil, err
		}
	}
	key, err := signingKey(ctx, cfg, ring, log, func(ctx context.Context, dir string) (seal.PrivateKey, error) {
		if make {
			return seal.LoadKey(ctx, dir)
		}
		key, err := seal.ReadKey(ctx, filepath.Join(dir, seal.KeyFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNoKey
		}
		return key, err
	})
	if err != nil {
		return nil, err
	}
	keys := []seal.PublicKey{key.Public()}
	if ring != nil && cfg.Journal.SignKey == nil && cfg.Journal.SignKeyFile == "" {
		for _, seed := range ring.Derive(sealPurpose)[1:] {
			keys = append(keys, seal.FromSeed(seed).Public())
		}
	}
	return keys, nil
}
