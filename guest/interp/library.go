package interp

import (
	"time"

	"github.com/mcp-metatool/mcp-metatool/abi"
	"github.com/mcp-metatool/mcp-metatool/guest/stdlib"
	"go.starlark.net/starlark"
)

// Env returns the run's services for the modules of package stdlib.
func (r *run) Env() *stdlib.Env {
	if r.env == nil {
		r.env = &stdlib.Env{
			Now:      r.now,
			Seed:     r.seedOf,
			Charge:   r.charge,
			NewDict:  func(size int) stdlib.Dict { return newObject(size) },
			DictAttr: dictAttr,
			Str:      text,
			Repr:     repr,
			State:    map[any]any{},
		}
	}
	return r.env
}

// now returns the time of the run, which the host gives with the request.
func (r *run) now() (time.Time, error) {
	return time.UnixMicro(r.clock).UTC(), nil
}

func (r *run) seedOf() (uint64, error) { return r.seed, nil }

// mostMemory limits a single allocation of a run if the request has no limit.
const mostMemory = 1 << 30

// charge ends the run if it may not allocate n bytes. The guest's memory has a separate limit;
// charge names the value that was too large.
func (r *run) charge(n int) error {
	limit := uint64(mostMemory)
	if r.memory > 0 {
		limit = r.memory
	}
	if n >= 0 && uint64(n) <= limit {
		return nil
	}
	fatal := &fatalError{message: "a value would take more than the memory of the run", limit: abi.LimitMemory}
	r.setFatal(fatal)
	return fatal
}

// dictAttr returns a method of dicts for a dict type of the library.
func dictAttr(receiver stdlib.DictLike, name string) (starlark.Value, error) {
	if !isDictMethod(name) && name != "copy" {
		return nil, nil
	}
	return Object{receiver.Underlying()}.Attr(name)
}

// withOwn adds members of ours to a module of the library.
func withOwn(m *stdlib.Module, own starlark.StringDict) starlark.StringDict {
	for name, v := range own {
		m.Members[name] = v
	}
	return m.Members
}
