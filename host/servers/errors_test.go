package servers

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/mcp-metatool/mcp-metatool/host/mcp/wire"
)

func TestCallErrors(t *testing.T) {
	t.Parallel()
	e := CallErrors("x")
	var down *DownError
	if err := e.Down("gone", io.EOF); !errors.As(err, &down) || *down != (DownError{Upstream: "x", Reason: "gone", Err: io.EOF}) {
		t.Errorf("Down: %+v", err)
	}
	if IsUnsent(down) || !IsUnsent(e.Unsent(down)) || IsUnsent(down) {
		t.Error("Unsent must mark a copy of the error")
	}
	if err := e.Unsent(io.EOF); err != io.EOF {
		t.Errorf("Unsent: %v", err)
	}
	var answer *AnswerError
	if err := e.Unusable("m", io.EOF); !errors.As(err, &answer) || *answer != (AnswerError{Upstream: "x", Method: "m", Err: io.EOF}) || !errors.Is(err, wire.ErrUnusable) {
		t.Errorf("Unusable: %+v", err)
	}
	var timeout *TimeoutError
	want := TimeoutError{Upstream: "x", Method: "m", After: time.Second, Max: true}
	if err := e.Timeout("m", time.Second, true); !errors.As(err, &timeout) || *timeout != want {
		t.Errorf("Timeout: %+v", err)
	}
}
