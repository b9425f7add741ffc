package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// systemPorts is the first port that systems choose for callers without a wish, if the system does
// not tell: the first port of Linux. Other systems begin later.
const systemPorts = 32768

// Port returns a TCP port of 127.0.0.1 without a listener until the test listens: the system does
// not choose the port for connections or for callers that ask for any port, and other callers of
// Port do not get the port, since a UDP socket claims it until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	end, last := systemPorts, 0
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(data), &end, &last)
	}
	begin := max(1024, end-20000)
	if begin >= end { // the system chooses all ports
		begin, end = 1024, systemPorts
	}
	for range 1000 {
		port := begin + rand.IntN(end-begin)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp4", address)
		if err != nil {
			continue
		}
		// A listener would not be closed at once while the test starts a process, which shares the
		// listener until the process executes the program.
		if taken, err := net.DialTimeout("tcp4", address, Quiet(100*time.Millisecond)); err == nil {
			taken.Close()
			claim.Close()
			continue
		}
		t.Cleanup(func() { claim.Close() })
		return port
	}
	t.Fatalf("no port from %d to %d of 127.0.0.1 is free", begin, end-1)
	return 0
}
