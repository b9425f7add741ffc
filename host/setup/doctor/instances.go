package doctor

import "fmt"

// Instance is a running mcp-metatool server.
type Instance struct {
	PID    int
	Config string // absolute path of the configuration file; "" for none
	Same   bool   // has the configuration that is examined
	Err    error  // why the server does not answer; the other fields are unknown then
}

// instances looks at running mcp-metatool servers.
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
