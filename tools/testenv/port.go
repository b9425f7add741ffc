package testenv

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"time"
)

// systemPorts is the first port that systems choose for those who ask for any, where they do not
// say so: that of Linux. Others begin later.
const systemPorts = 32768

// Port returns a TCP port of 127.0.0.1 on which nobody listens until the test does: the system
// does not choose it for connections and for those who ask for any port, and others who call Port
// do not get it, since a UDP socket claims it until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	end, last := systemPorts, 0
	if data, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(data), &end, &last)
	}
	begin := max(1024, end-20000)
	if begin >= end { // it chooses all of them
		begin, end = 1024, systemPorts
	}
	for range 1000 {
		port := begin + rand.IntN(end-begin)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		claim, err := net.ListenPacket("udp4", address)
		if err != nil {
			continue
		}
		// A listener would not be closed at once if the test is starting a process meanwhile, which
		// has it too until it executes its program.
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
