package doctor

import (
	"errors"
	"io/fs"
	"net"
	"syscall"
)

// The errors of Windows for addresses. The values of package syscall differ from Windows' own.
const (
	wsaDenied    = syscall.Errno(10013)
	wsaInUse     = syscall.Errno(10048)
	wsaNoAddress = syscall.Errno(10049)
)

// ports looks whether we can listen on the addresses of [http] and [telemetry], as far as
// they are configured. An mcp-metatool server with this configuration may have them.
func (e *examination) ports() {
	for _, i := range e.Instances {
		if i.Same {
			return
		}
	}
	if e.Config.HTTP.Configured() {
		e.port("http", e.Config.HTTP.Listen, "listen in [http], or serve --http")
	}
	if address := e.Config.Telemetry.Listen; address != "" {
		e.port("telemetry", address, "listen in [telemetry]")
	}
}

// port looks whether the proxy can listen on an address. settings names the setting of the address.
func (e *examination) port(table, address, settings string) {
	ln, err := net.Listen("tcp", address)
	if err == nil {
		ln.Close()
		return
	}
	object := table + ".listen"
	switch {
	case errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaInUse):
		e.find(idPortUsed, object, "end the other program, or set another port ("+settings+")", "another program listens on %s", address)
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, wsaDenied):
		e.find(idPortDenied, object, "set a port of 1024 or more ("+settings+")", "we may not listen on %s", address)
	default:
		var failed *net.OpError
		if errors.As(err, &failed) {
			err = failed.Err // the address is said already
		}
		reason := err.Error()
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, wsaNoAddress) {
			reason = "this machine does not have that address"
		}
		e.find(idPortAddress, object, "set 127.0.0.1, or an address of this machine ("+settings+")", "we cannot listen on %s: %s", address, reason)
	}
}
