package sandbox

import (
	"context"

	"github.com/mcp-metatool/mcp-metatool/abi"
)

// A request to run a script is served in two halves, if the guest can: first the guest compiles the
// script (abi.OpPrepare), then the guest executes the program (abi.OpExecute). The state between
// them can be kept for later runs of the same script (prepared.go).

// splitRequest decides how the request is served, and encodes the part that is needed in any case.
func (i *instance) splitRequest(halves bool) (err error) {
	req := i.script
	i.halves = halves && req.Op == abi.OpRun
	if i.halves {
		req.Op, req.Code, req.Servers, req.AgentTools = abi.OpExecute, "", nil, nil
		if len(i.script.Code) > abi.MaxMessage {
			return requestTooLarge(i.name, len(i.script.Code))
		}
	}
	i.request, err = encodeRequest(req)
	return err
}

// serve lets the guest serve the request. The instance has been started, from the state after the
// first half if that state was kept.
func (i *instance) serve(ctx context.Context) error {
	if i.halves && !i.compiled {
		if err := i.compile(ctx); err != nil || i.responded {
			return err
		}
	}
	_, err := i.call(ctx, abi.ExportRun)
	return err
}

// compile lets the guest compile the script. On failure, the guest has responded with the error.
//
// The guest only gets the servers that the code mentions, so that others cost nothing. An error may
// suggest any server, so after an error the guest gets all of them.
func (i *instance) compile(ctx context.Context) error {
	execute := i.request
	servers := mentioned(i.script.Code, i.script.Servers)
	ok, err := i.prepare(ctx, servers)
	if err == nil && !ok && len(servers) < len(i.script.Servers) {
		i.responded, i.scriptErr = false, nil
		ok, err = i.prepare(ctx, i.script.Servers)
	}
	if err != nil || !ok {
		return err
	}
	if i.keep {
		if i.prepared = i.capture(); i.prepared != nil {
			i.from.prepared.put(keyOf(i.script), i.prepared)
		}
	}
	i.request, i.responded, i.result = execute, false, nil
	return nil
}

// prepare makes an abi.OpPrepare and reports whether the guest succeeded.
func (i *instance) prepare(ctx context.Context, servers []string) (ok bool, err error) {
	s := i.script
	i.request, err = encodeRequest(abi.Request{
		Op: abi.OpPrepare, Name: s.Name, Code: s.Code, Servers: servers, AgentTools: s.AgentTools, Memory: s.Memory,
	})
	if err != nil {
		i.fault = &hostError{abi.FuncRequestRead, err.Error()}
		return false, i.fault
	}
	i.preparing = true
	_, err = i.call(ctx, abi.ExportRun)
	i.preparing = false
	if err == nil && !i.responded {
		i.fault = i.trap("it returned without a response")
		return false, i.fault
	}
	return err == nil && i.scriptErr == nil, err
}
