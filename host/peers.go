package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/clients/bearer"
	"github.com/mcp-metatool/mcp-metatool/host/config"
	"github.com/mcp-metatool/mcp-metatool/host/fleet"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/home"
	"github.com/mcp-metatool/mcp-metatool/host/fleet/peer"
	"github.com/mcp-metatool/mcp-metatool/host/journal"
	"github.com/mcp-metatool/mcp-metatool/host/mcp/requeststate"
	"github.com/mcp-metatool/mcp-metatool/host/proxy/route"
	"github.com/mcp-metatool/mcp-metatool/host/script/compose"
)

// newPeers makes the connection with the other replicas.
func (h *Host) newPeers() *peer.Link {
	return peer.New(peer.Options{
		ID: h.fleet.ID(), Log: h.opts.Log,
		Keys: func() [][]byte { return h.fleet.Keys(peer.Purpose + " " + h.fleet.Name()) },
		Address: func(id string) (string, bool) {
			at := h.fleet.Replica(id).Peer
			return strings.TrimPrefix(at, peerScheme), at != ""
		},
	})
}

// newSealer makes the Sealer for the state that clients return with their answers, for a command.
// All processes with the same store, and all replicas of a fleet, have the same key.
func newSealer(cfg *config.Config, log *slog.Logger) *requeststate.Sealer {
	if len(cfg.Store.NATS) > 0 {
		if ring, err := fleetRing(cfg); err == nil { // with invalid keys, the command cannot use the fleet
			return fleetSealer(cfg.Store.Prefix, "", ring.Derive)
		}
	}
	return requeststate.New(func() []byte {
		key, err := requeststate.LoadKey(context.Background(), cfg.Store.Dir)
		if err != nil {
			log.Warn("no key that outlives this process: clients cannot answer questions after a restart", "err", err)
			return requeststate.NewKey()
		}
		return key
	}, time.Now)
}

// newSealer makes the Sealer of a Host.
func (h *Host) newSealer(cfg *config.Config) *requeststate.Sealer {
	if h.fleet == nil {
		return newSealer(cfg, h.opts.Log)
	}
	return fleetSealer(h.fleet.Name(), h.fleet.ID(), h.fleet.Keys)
}

// fleetSealer makes a Sealer for a replica; id is "" for a command.
func fleetSealer(fleet, id string, keys func(purpose string) [][]byte) *requeststate.Sealer {
	return requeststate.NewShared(requeststate.Options{
		Keys: func() [][]byte { return keys("request state " + fleet) }, Home: id, Now: time.Now,
	})
}

// replicas returns the router's access to other replicas; nil without a fleet.
func (h *Host) replicas() route.Replicas {
	if h.fleet == nil {
		return nil
	}
	h.homes = home.New(home.Options{
		Fleet: h.fleet, Link: h.peers, Sealer: h.sealer, Budget: h.sandbox.Budget(), Log: h.opts.Log,
		Tokens: func() []bearer.Token { return h.config().HTTP.Tokens },
		Shares: func(server string) bool {
			return slices.ContainsFunc(h.config().Upstreams, func(u config.Upstream) bool { return u.Name == server && u.Transport != config.Stdio })
		},
	})
	return h.homes
}

// claims returns the Claims that decide which process continues a run.
func (h *Host) claims(log *journal.Log) compose.Claims {
	if h.fleet == nil {
		return log
	}
	return fleetClaims{fleet.Claims{Store: h.fleet.Store(), By: h.fleet.ID()}}
}

// fleetClaims implements compose.Claims.
type fleetClaims struct{ fleet.Claims }

// Claim implements compose.Claims.
func (c fleetClaims) Claim(id string) error {
	err := c.Claims.Claim(id)
	switch {
	case errors.Is(err, fleet.ErrClaimed):
		return journal.ErrClaimed
	case err != nil:
		return errors.Join(compose.ErrUndecided, err)
	}
	return nil
}

// peerScheme begins the URL at which other replicas reach a replica.
const peerScheme = "https://"

// servePeers answers requests of other replicas with handler, until stop is called. Without a
// fleet, servePeers does not listen.
func (h *Host) servePeers(ctx context.Context, handler http.Handler) (stop func(), err error) {
	if h.peers == nil {
		return func() {}, nil
	}
	settings := h.config().Store
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", settings.PeerListen)
	if err != nil {
		return nil, fmt.Errorf("peer_listen in [store]: cannot listen for other replicas: %w", err)
	}
	at := peerAddress(ctx, ln.Addr(), &settings)
	h.opts.Log.Info("listening for other replicas", "on", ln.Addr().String(), "address", at)
	h.fleet.SetPeer(peerScheme + at)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- h.peers.Serve(ctx, ln, handler) }()
	return func() {
		h.fleet.SetPeer("")
		cancel()
		if err := <-served; err != nil {
			h.opts.Log.Warn("the listener for other replicas", "err", err)
		}
	}, nil
}

// findAddressTime bounds the search for the address under which other replicas reach this machine.
const findAddressTime = 2 * time.Second

// peerAddress returns the address at which other replicas reach a listener. A listener on all
// addresses of the machine gets the address from which NATS is reached.
func peerAddress(ctx context.Context, on net.Addr, settings *config.Store) string {
	if settings.PeerAddress != "" {
		return settings.PeerAddress
	}
	host, port, err := net.SplitHostPort(on.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return on.String()
	}
	ctx, cancel := context.WithTimeout(ctx, findAddressTime)
	defer cancel()
	for _, server := range settings.NATS {
		if local, err := localAddress(ctx, server); err == nil {
			return net.JoinHostPort(local, port)
		}
	}
	name, _ := os.Hostname()
	return net.JoinHostPort(name, port)
}

// localAddress returns the address of this machine from which a server is reached. Nothing is
// sent.
func localAddress(ctx context.Context, server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = "4222"
	}
	conn, err := new(net.Dialer).DialContext(ctx, "udp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	at, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok || at.IP.IsUnspecified() {
		return "", errors.New("no address")
	}
	return at.IP.String(), nil
}
