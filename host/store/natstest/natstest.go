// Package natstest has NATS servers for tests: one, or a cluster, in this process or as
// processes that can be killed, and proxies that cut connections and lose answers.
//
//	natstest.go   servers
//	host.go       addresses that nobody else uses
//	process.go    servers as processes
//	partition.go  a cluster whose servers can be cut off from each other
//	proxy.go      a proxy that cuts connections
//	intercept.go  a proxy that decides about each request
package natstest

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds every wait.
const patience = time.Minute

// T is what is needed of a test or benchmark. Programs that are no tests have one of their own;
// its Fatal and Fatalf must not return.
type T interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// Server is a NATS server with JetStream.
type Server struct {
	opts    server.Options
	running *server.Server // nil: it is a process, or it is stopped
	process *serverProcess // nil: it is in this process, or it is stopped
	apart   bool
}

// Start starts a server whose data is in a new folder. It is stopped when the test ends.
func Start(t T) *Server {
	t.Helper()
	return start(t, options(t, "one"), false)
}

// StartAs is Start with other options, which change the usual ones.
func StartAs(t T, change func(*server.Options)) *Server {
	t.Helper()
	opts := options(t, "one")
	change(&opts)
	return start(t, opts, false)
}

// StartProcess is Start for a server that is a process of its own; see Main.
func StartProcess(t T) *Server {
	t.Helper()
	return start(t, options(t, "one"), true)
}

// StartProcessAs is StartAs for a server that is a process of its own. Only the options StoreDir
// and JetStreamMaxStore can be changed.
func StartProcessAs(t T, change func(*server.Options)) *Server {
	t.Helper()
	opts := options(t, "one")
	change(&opts)
	return start(t, opts, true)
}

func options(t T, name string) server.Options {
	host := Host()
	return server.Options{
		ServerName: name, Host: host, Port: freePort(t, host), JetStream: true, StoreDir: t.TempDir(),
		NoLog: true, NoSigs: true, MaxPayload: 1 << 20,
	}
}

// freePort is FreePort for a test.
func freePort(t T, host string) int {
	t.Helper()
	port, err := FreePort(host)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func start(t T, opts server.Options, apart bool) *Server {
	t.Helper()
	s := &Server{opts: opts, apart: apart}
	t.Cleanup(s.Stop)
	s.Start(t)
	return s
}

// Start starts a server again, with the same address and data.
func (s *Server) Start(t T) {
	t.Helper()
	if s.apart {
		s.process = startProcess(t, s.opts)
		return
	}
	opts := s.opts // the server changes them
	running, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	running.Start()
	if !running.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not start")
	}
	s.running = running
}

// Stop ends a server in good order, unless it is stopped already.
func (s *Server) Stop() {
	if s.running != nil {
		s.running.Shutdown()
		s.running.WaitForShutdown()
		s.running = nil
	}
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
}

// Kill ends a server that is a process without a warning.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Running reports whether a server has been started, and neither stopped nor killed since.
func (s *Server) Running() bool { return s.running != nil || s.process != nil }

// Pid returns the id of the process; 0 if it is none, or it does not run.
func (s *Server) Pid() int {
	if s.process == nil {
		return 0
	}
	return s.process.pid
}

// Name returns the name of the server.
func (s *Server) Name() string { return s.opts.ServerName }

// Dir returns the folder with its data.
func (s *Server) Dir() string { return s.opts.StoreDir }

// Address returns HOST:PORT.
func (s *Server) Address() string { return fmt.Sprintf("%s:%d", s.opts.Host, s.opts.Port) }

// URL returns the address for clients.
func (s *Server) URL() string { return "nats://" + s.Address() }

// Cluster is several servers with the same streams.
type Cluster []*Server

// StartCluster starts n servers, as processes or in this one. They are stopped when the test
// ends.
func StartCluster(t T, n int, apart bool) Cluster {
	t.Helper()
	all := clusterOptions(t, n)
	var routes []*url.URL
	for i := range all {
		routes = append(routes, route(clusterAddress(all[i])))
	}
	for i := range all {
		all[i].Routes = routes
	}
	return startAll(t, all, apart)
}

// clusterOptions returns the options of n servers without routes.
func clusterOptions(t T, n int) []server.Options {
	t.Helper()
	all := make([]server.Options, n)
	for i := range all {
		all[i] = options(t, fmt.Sprintf("n%d", i+1))
		all[i].Cluster = server.ClusterOpts{Name: "test", Host: all[i].Host, Port: freePort(t, all[i].Host)}
	}
	return all
}

func clusterAddress(o server.Options) string {
	return fmt.Sprintf("%s:%d", o.Cluster.Host, o.Cluster.Port)
}

func route(address string) *url.URL { return &url.URL{Scheme: "nats", Host: address} }

func startAll(t T, all []server.Options, apart bool) Cluster {
	t.Helper()
	var c Cluster
	for i := range all {
		c = append(c, start(t, all[i], apart))
	}
	return c
}

// URLs returns the addresses of all servers.
func (c Cluster) URLs() []string {
	var urls []string
	for _, s := range c {
		urls = append(urls, s.URL())
	}
	return urls
}

// Index returns the index of the server with a name, such as that of a leader; -1 for none.
func (c Cluster) Index(name string) int {
	return slices.IndexFunc(c, func(s *Server) bool { return strings.EqualFold(s.opts.ServerName, name) })
}

// Start starts those servers that do not run, at the same time: some are only ready with others.
func (c Cluster) Start(t T) {
	t.Helper()
	var starting sync.WaitGroup
	for _, s := range c {
		if !s.Running() {
			starting.Go(func() { s.Start(t) })
		}
	}
	starting.Wait()
}
