package natstest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// variable is the environment variable with the options of a server.
const variable = "MCP_METATOOL_TEST_NATS"

// settings are what a server that is a process needs to know.
type settings struct {
	Name, Host, Dir, Cluster string
	Port, ClusterPort        int
	Routes, Advertise        string
	MaxStore                 int64
	NoAdvertise              bool
}

// Main is called first in TestMain of packages that use processes. In such a process, it does
// not return.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	var at settings
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		fail(err)
	}
	opts := server.Options{
		ServerName: at.Name, Host: at.Host, Port: at.Port, JetStream: true, StoreDir: at.Dir, NoLog: true, NoSigs: true,
		JetStreamMaxStore: at.MaxStore,
		Cluster:           server.ClusterOpts{Name: at.Cluster, Host: at.Host, Port: at.ClusterPort, Advertise: at.Advertise, NoAdvertise: at.NoAdvertise},
	}
	if at.Cluster == "" {
		opts.Cluster = server.ClusterOpts{}
	} else {
		opts.Routes = server.RoutesFromStr(at.Routes)
	}
	running, err := server.NewServer(&opts)
	if err != nil {
		fail(err)
	}
	running.Start()
	if !running.ReadyForConnections(patience) {
		fail(fmt.Errorf("the NATS server does not start"))
	}
	fmt.Println("ready")
	var end [1]byte
	_, _ = os.Stdin.Read(end[:]) // until the test ends, however it does
	running.Shutdown()
	running.WaitForShutdown()
	os.Exit(0)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type serverProcess struct {
	pid        int
	kill, stop func()
}

func startProcess(t T, opts server.Options) *serverProcess {
	t.Helper()
	at := settings{
		Name: opts.ServerName, Host: opts.Host, Dir: opts.StoreDir, Cluster: opts.Cluster.Name,
		Port: opts.Port, ClusterPort: opts.Cluster.Port, Advertise: opts.Cluster.Advertise, NoAdvertise: opts.Cluster.NoAdvertise, MaxStore: opts.JetStreamMaxStore,
	}
	var routes []string
	for _, r := range opts.Routes {
		routes = append(routes, r.String())
	}
	at.Routes = strings.Join(routes, ",")
	text, err := json.Marshal(at)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the NATS server says %q, %v", line, err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		in.Close()
	}
	stop := func() {
		in.Close()
		late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	}
	return &serverProcess{cmd.Process.Pid, kill, stop}
}
