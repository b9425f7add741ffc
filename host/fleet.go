package host

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/mcp-metatool/mcp-metatool/host/clients/streamable"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/jetstream"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/script/sandbox"
	"github.com/mcp-metatool/mcp-metatool/host/script/saved"
	"github.com/mcp-metatool/mcp-metatool/host/store"
	"github.com/mcp-metatool/mcp-metatool/host/store/files"
	"github.com/mcp-metatool/mcp-metatool/host/store/migrate"
	"github.com/mcp-metatool/mcp-metatool/host/store/sealed"
	"github.com/mcp-metatool/mcp-metatool/tools/display"
	"github.com/mcp-metatool/mcp-metatool/tools/regular"
)

// ErrNoFleet is the error for a configuration without a NATS server.
var ErrNoFleet = errors.New("no NATS server is configured (set nats in [store])")

// OpenStore opens the shared store of a fleet, without encryption: streams in NATS. Tests of fleets
// whose subject is not NATS replace the function before they start a Host.
var OpenStore = func(ctx context.Context, opts jetstream.Options) (store.Store, error) {
	return jetstream.Open(ctx, opts)
}

// maxPEM bounds a file with certificates, in bytes.
const maxPEM = 1 << 20

// openFleet begins to open the NATS store of a configuration, until the Host is closed. h.fleet
// stays nil without a NATS server.
func (h *Host) openFleet(cfg *config.Config) error {
	if len(cfg.Store.NATS) == 0 {
		return nil
	}
	ring, err := fleetRing(cfg)
	if err != nil {
		return err
	}
	h.ring = ring
	which := jetstream.MakeNew
	if h.opts.Clients == NoClient { // a command is no replica
		which = jetstream.MakeNone
	}
	h.fleet = fleet.Open(fleet.Options{
		Open: func(ctx context.Context) (store.Store, error) {
			return sealedStore(ctx, cfg, ring, which, h.opts.Log)
		},
		Ring: ring, Name: cfg.Store.Prefix, Log: h.opts.Log,
		About: fleet.Info{Name: machineName(), Version: h.opts.Version, Guest: sandbox.GuestDigest()}, Observer: h.opts.Clients == NoClient,
		Observe: h.opts.Telemetry.StoreCall,
	})
	h.peers = h.newPeers()
	return nil
}

// machineName returns the name of a replica for people: the host name, which in a cluster of
// containers is the name of the container.
func machineName() string {
	name, err := os.Hostname()
	if err != nil {
		return "" // the id is enough
	}
	return display.Clip(name, maxMachineName)
}

// maxMachineName is more than any system allows, in bytes.
const maxMachineName = 255

// OpenFleet opens the encrypted NATS store of a configuration for a command. OpenFleet tries to
// connect until ctx ends, and makes no streams: the error is store.ErrMissing if streams are
// missing, and ErrNoFleet if the configuration names no NATS server. The caller must Close the
// store.
func OpenFleet(ctx context.Context, cfg *config.Config, log *slog.Logger) (*sealed.Store, error) {
	if len(cfg.Store.NATS) == 0 {
		return nil, ErrNoFleet
	}
	ring, err := fleetRing(cfg)
	if err != nil {
		return nil, err
	}
	return openSealed(ctx, cfg, ring, jetstream.MakeNone, log)
}

// reseal seals the documents of the fleet with its present key, if the ring has several keys.
func (h *Host) reseal(ctx context.Context) error {
	n, id, err := h.fleet.Reseal(ctx)
	if n > 0 {
		h.opts.Log.Info("documents of the fleet were sealed with another key", "documents", n, "key", id)
	}
	return err
}

// ObserveFleet is OpenFleet for a command that lists the replicas without being a replica. The
// caller must Close the Fleet.
func ObserveFleet(cfg *config.Config, log *slog.Logger) (*fleet.Fleet, error) {
	if len(cfg.Store.NATS) == 0 {
		return nil, ErrNoFleet
	}
	ring, err := fleetRing(cfg)
	if err != nil {
		return nil, err
	}
	return fleet.Open(fleet.Options{
		Open: func(ctx context.Context) (store.Store, error) {
			return sealedStore(ctx, cfg, ring, jetstream.MakeNone, log)
		},
		Ring: ring, Name: cfg.Store.Prefix, Log: log, Observer: true,
	}), nil
}

// sealedStore is openSealed, with no *sealed.Store in the interface after an error.
func sealedStore(ctx context.Context, cfg *config.Config, ring *sealed.Ring, which jetstream.Make, log *slog.Logger) (store.Store, error) {
	s, err := openSealed(ctx, cfg, ring, which, log)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// fleetRing returns the keys of a configuration.
func fleetRing(cfg *config.Config) (*sealed.Ring, error) {
	ring, err := sealed.NewRing(cfg.Store.Keys...)
	if err != nil {
		return nil, fmt.Errorf("keys in [store]: %w", err)
	}
	return ring, nil
}

func openSealed(ctx context.Context, cfg *config.Config, ring *sealed.Ring, which jetstream.Make, log *slog.Logger) (*sealed.Store, error) {
	inner, err := openStreams(ctx, cfg, jetstream.Options{Make: which, Log: log})
	if err != nil {
		return nil, err
	}
	return sealed.New(inner, ring, cfg.Store.Prefix), nil
}

// fleetTLS returns the TLS settings from the files of a configuration; nil without such files.
func fleetTLS(ctx context.Context, c *config.Store) (*tls.Config, error) {
	if c.CAFile == "" && c.CertFile == "" {
		return nil, nil
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := regular.Read(ctx, c.CAFile, maxPEM)
		if err != nil {
			return nil, fmt.Errorf("tls_ca: %w", err)
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls_ca: %s has no certificate (name a PEM file)", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := streamable.KeyPair(ctx, c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls_cert and tls_key: %w", err)
		}
		secure.Certificates = []tls.Certificate{pair}
	}
	return secure, nil
}

// InFiles opens the store and the journal in the folders of a configuration, for copying. The
// caller must call end.
func InFiles(cfg *config.Config, log *slog.Logger) (at migrate.End, end func() error) {
	// Copied runs are old; none is removed for its age.
	runs := journal.OpenLog(cfg.JournalDir(), journal.LogOptions{Log: log, MaxAge: cfg.Journal.MaxAge, MaxTotal: int64(cfg.Journal.MaxTotal)})
	s := saved.NewFolders(files.Open(files.Options{Dir: cfg.Store.Dir, Journal: runs, Log: log}), cfg.Store.Dir, ownTools(cfg), log)
	return migrate.End{Store: s, Journal: cfg.JournalDir()}, func() error { return errors.Join(s.Close(), runs.Close()) }
}

// Copied returns the collections that store copy copies: saved tools with their history, also of
// tokens, and the labels of servers. Approvals stay: they belong to the processes with waiting
// calls.
func Copied(cfg *config.Config) []string {
	names := []string{files.Tools, files.History, serverLabelsKey.Collection}
	for _, token := range ownTools(cfg) {
		tools, versions := saved.Place{Token: token}.Collections()
		names = append(names, tools, versions)
	}
	return names
}

// ownTools returns the names of the tokens with saved tools of their own.
func ownTools(cfg *config.Config) (names []string) {
	for i := range cfg.HTTP.Tokens {
		if own := cfg.HTTP.Tokens[i].Rights.Own; own != "" {
			names = append(names, own)
		}
	}
	return names
}
