//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

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

// replica is a process of the binary that can be started again.
type replica struct {
	no      int
	name    string
	address string // HOST:PORT of clients
	config  string // FILE
	log     string // FILE
	clock   string // FILE, see shiftVar

	mu     sync.Mutex // guards the fields below
	binary string
	cmd    *exec.Cmd // nil: not running
	exited chan struct{}
	life   int            // counts the processes
	fates  map[int]string // by life: the fault that ended the process
	paused bool
	pauses int   // counts the beginnings and ends of pauses
	ahead  int64 // shift of the clock in seconds
	away   bool  // the load balancer knows about the draining
}

// start starts the process, and waits until clients can use the replica.
func (r *replica) start(ctx context.Context) error {
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	r.mu.Lock()
	cmd := exec.Command(r.binary, "serve", "--config", r.config, "--http", r.address, "--log-level", "info")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), r.env()...)
	cmd.SysProcAttr = child()
	exited := make(chan struct{})
	err = cmd.Start()
	if err == nil {
		r.cmd, r.exited, r.paused, r.away = cmd, exited, false, false
		r.life++
	}
	r.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", r.name, err)
	}
	go func() { // until the process ends; down waits for the end
		_ = cmd.Wait()
		close(exited)
	}()
	return r.ready(ctx)
}

// env returns the environment of processes on the machine of the replica.
func (r *replica) env() []string {
	return []string{"MCP_METATOOL_DIR=" + filepath.Dir(r.config), shiftVar + "=" + r.clock}
}

// program returns the replica's program file.
func (r *replica) program() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.binary
}

// ready waits until the process listens.
func (r *replica) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if c, err := net.DialTimeout("tcp", r.address, time.Second); err == nil {
			return c.Close()
		}
		r.mu.Lock()
		exited := r.exited
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen: %w", r.name, ctx.Err())
		case <-exited:
			text, _ := os.ReadFile(r.log)
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			return fmt.Errorf("%s has ended: %s", r.name, lines[len(lines)-1])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// now returns the current life of the replica, the number of its process.
func (r *replica) now() (life int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.life
}

// suspended returns a number that changes when the process is paused or goes on.
func (r *replica) suspended() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pauses
}

// fate returns the fault that has ended a process, or is ending the process; "" for none.
func (r *replica) fate(life int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fates[life]
}

// up reports whether the replica accepts requests.
func (r *replica) up() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cmd != nil && r.fates[r.life] == "" && !r.away
}

// down ends the process with a signal and waits for the end. From the beginning, requests under way
// may be lost because of fault.
func (r *replica) down(fault string, signal syscall.Signal) error {
	r.mu.Lock()
	if r.cmd == nil || r.fates[r.life] != "" {
		r.mu.Unlock()
		return nil
	}
	r.fates[r.life] = fault
	process, exited, paused := r.cmd.Process, r.exited, r.paused
	r.mu.Unlock()
	err := process.Signal(signal)
	if paused {
		err = errors.Join(err, process.Signal(syscall.SIGCONT))
	}
	select {
	case <-exited:
	case <-time.After(time.Minute):
		err = errors.Join(err, fmt.Errorf("%s does not end after %v", r.name, signal))
		_ = process.Kill()
		<-exited
	}
	r.mu.Lock()
	r.cmd = nil
	r.mu.Unlock()
	return err
}

// pause stops the process, or lets the process go on.
func (r *replica) pause(on bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.fates[r.life] != "" {
		return nil
	}
	signal := syscall.SIGCONT
	if on {
		signal = syscall.SIGSTOP
	}
	r.paused = on
	r.pauses++
	return r.cmd.Process.Signal(signal)
}
