package natstest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/tools/testenv"
)

// TestReleaseOfLateRequest holds a request that the interceptor reads while Release waits for the
// answer to another one, which comes after both.
func TestReleaseOfLateRequest(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first := make(chan struct{})
	go func() { // a server
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewScanner(conn)
		for in.Scan() {
			switch words := strings.Fields(in.Text()); {
			case len(words) == 0:
			case words[1] == "first":
				close(first)
			case words[1] == "late":
				fmt.Fprint(conn, "MSG reply.late 1 0\r\n\r\nMSG reply.first 1 0\r\n\r\n")
			}
		}
	}()
	i := StartInterceptor(t, l.Addr().String(), func(subject string) Fate { return Fate{Times: 1, Late: subject == "late"} }, func(string, []byte) {})
	client, err := net.Dial("tcp", strings.TrimPrefix(i.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fmt.Fprint(client, "SUB reply.* 1\r\nPUB first reply.first 0\r\n\r\n")
	<-first
	released := make(chan struct{})
	go func() {
		defer close(released)
		i.Release()
	}()
	select {
	case <-released:
		t.Error("released without an answer")
	case <-time.After(testenv.Quiet(100 * time.Millisecond)): // until it waits, usually
	}
	fmt.Fprint(client, "PUB late reply.late 0\r\n\r\n")
	select {
	case <-released:
	case <-time.After(time.Minute):
		t.Fatal("it waits for what it holds itself")
	}
}
