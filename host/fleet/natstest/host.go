package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
)

// Host returns a loopback address for one server, which can be stopped and started again there.
// Where all of 127.0.0.0/8 is this machine, nobody else uses that address, so nobody takes a port
// of the server while it does not run: the system chooses ports of connections, and of others who
// listen, on 127.0.0.1.
func Host() string {
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(256), 1+rand.IntN(250))
}

// FreePort returns a port of a host on which nobody listens.
func FreePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
