// Package natstest has NATS servers for tests: processes, one or a cluster, and proxies that cut
// connections and lose answers. A test that needs a server is skipped where it cannot be built, and
// fails there in CI; see tools/testenv.
//
//	natstest.go   servers
//	host.go       addresses that nobody else uses
//	process.go    the program of the servers, and their processes
//	partition.go  a cluster whose servers can be cut off from each other
//	proxy.go      a proxy that cuts connections
//	intercept.go  a proxy that decides about each request
package natstest

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

// Settings are those of a server, by their names in its configuration file
// (docs.nats.io/running-a-nats-service/configuration).
type Settings map[string]any

// Section returns the settings of a section, such as jetstream, which is made if there is none.
func (s Settings) Section(name string) Settings {
	section, ok := s[name].(Settings)
	if !ok {
		section = Settings{}
		s[name] = section
	}
	return section
}

// address returns the HOST:PORT that settings, or those of a section, have.
func (s Settings) address() string {
	return net.JoinHostPort(s["host"].(string), strconv.Itoa(s["port"].(int)))
}

// Server is a NATS server with JetStream. It is a process of its own.
type Server struct {
	settings Settings
	process  *serverProcess // nil: it is stopped
}

// Start starts a server whose data is in a new folder. It is stopped when the test ends.
func Start(t T) *Server {
	t.Helper()
	return start(t, settings(t, "one"))
}

// StartAs is Start with other settings, which change the usual ones.
func StartAs(t T, change func(Settings)) *Server {
	t.Helper()
	s := settings(t, "one")
	change(s)
	return start(t, s)
}

func settings(t T, name string) Settings {
	t.Helper()
	host := Host()
	return Settings{
		"server_name": name, "host": host, "port": freePort(t, host),
		"jetstream": Settings{"store_dir": t.TempDir()},
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

func start(t T, settings Settings) *Server {
	t.Helper()
	s := &Server{settings: settings}
	t.Cleanup(s.Stop)
	s.Start(t)
	return s
}

// Start starts a server again, with the same address and data.
func (s *Server) Start(t T) {
	t.Helper()
	s.process = startProcess(t, s.settings)
}

// Stop ends a server in good order, unless it is stopped already.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.stop()
		s.process = nil
	}
}

// Kill ends a server without a warning.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Lose starts a server again without the data that it had.
func (s *Server) Lose(t T) {
	t.Helper()
	s.Stop()
	if err := os.RemoveAll(s.Dir()); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
}

// Running reports whether a server has been started, and neither stopped nor killed since.
func (s *Server) Running() bool { return s.process != nil }

// Pid returns the id of the process; 0 if it does not run.
func (s *Server) Pid() int {
	if s.process == nil {
		return 0
	}
	return s.process.pid
}

// Name returns the name of the server.
func (s *Server) Name() string { return s.settings["server_name"].(string) }

// Dir returns the folder with its data.
func (s *Server) Dir() string { return s.settings.Section("jetstream")["store_dir"].(string) }

// Address returns HOST:PORT.
func (s *Server) Address() string { return s.settings.address() }

// URL returns the address for clients.
func (s *Server) URL() string { return "nats://" + s.Address() }

// Cluster is several servers with the same streams.
type Cluster []*Server

// StartCluster starts n servers. They are stopped when the test ends.
func StartCluster(t T, n int) Cluster {
	t.Helper()
	all := clusterSettings(t, n)
	var routes []string
	for _, s := range all {
		routes = append(routes, route(s.Section("cluster").address()))
	}
	for _, s := range all {
		s.Section("cluster")["routes"] = routes
	}
	return startAll(t, all)
}

// clusterSettings returns the settings of n servers without routes.
func clusterSettings(t T, n int) []Settings {
	t.Helper()
	all := make([]Settings, n)
	for i := range all {
		all[i] = settings(t, fmt.Sprintf("n%d", i+1))
		host := all[i]["host"].(string)
		all[i]["cluster"] = Settings{"name": "test", "host": host, "port": freePort(t, host)}
	}
	return all
}

func route(address string) string { return "nats://" + address }

func startAll(t T, all []Settings) Cluster {
	t.Helper()
	var c Cluster
	for _, s := range all {
		c = append(c, start(t, s))
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
	return slices.IndexFunc(c, func(s *Server) bool { return strings.EqualFold(s.Name(), name) })
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
