package doctor

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// Instance is an mcp-metatool server that is running.
type Instance struct {
	PID    int
	Config string // absolute path of its configuration file; "" for none
	Same   bool   // it has the configuration that is examined
	Err    error  // why it does not answer; the other fields are unknown then
}

// instances looks at mcp-metatool servers that are running.
func (e *examination) instances() {
	for _, i := range e.Instances {
		config := i.Config
		if config == "" {
			config = "no configuration file"
		}
		switch {
		case i.Err != nil:
			e.find(idInstanceSilent, "", "end it if it hangs", "a running server does not answer: %v", i.Err)
		case !i.Same:
			e.find(idInstanceOther, fmt.Sprintf("process %d", i.PID), "if that is not meant, register the same file in every host (--config FILE), or give each its own store (MCP_METATOOL_DIR)",
				"another server runs with the same store and other settings: %s", config)
		}
	}
}

// wsaInUse is the error of Windows for an address that is in use; its value there differs
// from that in package syscall.
const wsaInUse = syscall.Errno(10048)

// ports looks whether the address of [http] is free, if it is configured. An mcp-metatool server
// with this configuration may have it.
func (e *examination) ports() {
	if !e.Config.HTTP.Configured() {
		return
	}
	for _, i := range e.Instances {
		if i.Same {
			return
		}
	}
	ln, err := net.Listen("tcp", e.Config.HTTP.Listen)
	if err == nil {
		ln.Close()
		return
	}
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, wsaInUse) {
		e.find(idPortUsed, "http.listen", "end the other program, or set another port: listen in [http], or serve --http", "another program listens on %s", e.Config.HTTP.Listen)
	}
}
