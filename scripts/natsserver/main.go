// Command natsserver is the NATS server of tests, which host/fleet/natstest builds and starts. The
// first line of the input is the configuration, in the server's own format
// (docs.nats.io/running-a-nats-service/configuration), a superset of JSON. The command prints
// "ready" when clients can connect, and ends in good order at the end of the input, also if the
// test was killed.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// patience bounds the start.
const patience = time.Minute

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "natsserver:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	input := bufio.NewReader(in)
	config, err := input.ReadString('\n')
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	opts := &server.Options{NoLog: true, NoSigs: true}
	if err := opts.ProcessConfigString(config); err != nil {
		return err
	}
	running, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	running.Start()
	defer running.WaitForShutdown()
	defer running.Shutdown()
	if !running.ReadyForConnections(patience) {
		return errors.New("the server does not start")
	}
	fmt.Fprintln(out, "ready")
	_, err = io.Copy(io.Discard, input)
	return err
}
