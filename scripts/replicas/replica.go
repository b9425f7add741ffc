//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
