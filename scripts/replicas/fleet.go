//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metatool/mcp-metatool/host/fleet/natstest"
)

// site is three replicas with a NATS cluster of three.
type site struct {
	t        *trial
	bench    *bench
	replicas []*replica
	nats     natstest.Cluster
	network  *natstest.Network   // between the NATS servers
	to       [][]*natstest.Proxy // from each replica to each NATS server
	ledger   *ledger
}

const size = 3

// startFleet starts the NATS servers, the ledger, and the replicas. On an error, nothing is left
// behind when the bench has ended.
func startFleet(ctx context.Context, t *trial, b *bench) (*site, error) {
	f := &site{t: t, bench: b}
	f.nats, f.network = natstest.StartPartitionable(b, size)
	var err error
	if f.ledger, err = newLedger(t); err != nil {
		return nil, err
	}
	b.Cleanup(f.ledger.close)
	key := newKey()
	for i := range size {
		r, err := f.configure(i, key)
		if err != nil {
			return nil, err
		}
		f.replicas = append(f.replicas, r)
	}
	var all errgroup.Group
	for _, r := range f.replicas {
		all.Go(func() error { return r.start(ctx) })
	}
	if err := all.Wait(); err != nil {
		f.kill()
		return nil, err
	}
	return f, nil
}

// configure writes the configuration of a replica of the fleet. The replica reaches each NATS
// server through a proxy.
func (f *site) configure(i int, key string) (*replica, error) {
	var proxies []*natstest.Proxy
	var urls []string
	for j := range f.nats {
		p := natstest.StartProxy(f.bench, f.nats[(i+j)%size].Address())
		proxies, urls = append(proxies, p), append(urls, p.URL())
	}
	f.to = append(f.to, proxies)
	return f.newReplica(i, fmt.Sprintf("replica-%d", i+1), inNATS(key, size, urls...))
}

// inNATS returns the lines of [store] for NATS servers.
func inNATS(key string, replicas int, urls ...string) string {
	quoted := make([]string, len(urls))
	for i, u := range urls {
		quoted[i] = fmt.Sprintf("%q", u)
	}
	return fmt.Sprintf("nats = [%s]\nreplicas = %d\nkeys = [%q]\n", strings.Join(quoted, ", "), replicas, key)
}

// newReplica writes the configuration of a replica; store are lines of [store].
func (f *site) newReplica(i int, name, store string) (*replica, error) {
	dir := filepath.Join(f.t.dir, name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`startup_wait = "5s"
input_timeout = "30s"

[execution]
task_after = "300ms"
timeout = "2m"

[store]
dir = %q
%s
[http]
session_ttl = "5m"

[upstream.ledger]
url = %q
timeout = "30s"
%s`, filepath.Join(dir, "store"), store, f.ledger.url, approvalRules)
	r := &replica{
		no: i, fates: map[int]string{}, name: name, binary: f.t.binary, config: filepath.Join(dir, "config.toml"),
		log: filepath.Join(f.t.dir, name+".log"), clock: filepath.Join(dir, "clock"),
	}
	if err := writeShift(r.clock, 0); err != nil {
		return nil, err
	}
	host := natstest.Host()
	port, err := natstest.FreePort(host)
	if err != nil {
		return nil, err
	}
	r.address = net.JoinHostPort(host, strconv.Itoa(port))
	return r, os.WriteFile(r.config, []byte(config), 0o600)
}

// newKey returns a key of a fleet.
func newKey() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	return "a:" + base64.StdEncoding.EncodeToString(secret)
}

func (f *site) kill() {
	for _, r := range f.replicas {
		_ = r.down("the end", syscall.SIGKILL)
	}
}
