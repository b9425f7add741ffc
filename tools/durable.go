package tools

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcp-metatool/mcp-metatool/tools/display"
)

// InDoubt says how a durable run continues if a call may or may not have been made: the process
// died after the call could have been sent, and no answer came. Calls of idempotent tools are
// repeated in any case.
type InDoubt string

// The values of InDoubt.
const (
	FailInDoubt InDoubt = "fail" // the run fails; nothing is undone
	UndoInDoubt InDoubt = "undo" // the run fails, and the compensations are made
	AskInDoubt  InDoubt = "ask"  // a person decides whether the call is repeated
)

// Durability says whether runs of a tool outlive their process. In JSON a Durability is the members
// "durable", a boolean, and "inDoubt", one of the values of InDoubt.
type Durability struct {
	// Durable says that a run goes on in another process if its own process dies.
	Durable bool
	// InDoubt is "" for FailInDoubt. Only durable tools have an InDoubt.
	InDoubt InDoubt
}

// Doubt returns InDoubt, or the default.
func (d Durability) Doubt() InDoubt {
	if d.InDoubt == "" {
		return FailInDoubt
	}
	return d.InDoubt
}

// CheckInDoubt returns the value of the member "inDoubt" with this text; "" is no value.
func CheckInDoubt(text string) (InDoubt, error) {
	switch v := InDoubt(text); v {
	case "", FailInDoubt, UndoInDoubt, AskInDoubt:
		return v, nil
	}
	return "", fmt.Errorf(`"inDoubt" is %q (want "fail", "undo" or "ask")`, display.Clip(text, 40))
}

// Check returns an error if the settings contradict each other.
func (d Durability) Check() error {
	if d.InDoubt != "" && !d.Durable {
		return errors.New(`"inDoubt" is only for tools with "durable": true`)
	}
	return nil
}

// text identifies the settings; "" if the tool is not durable.
func (d Durability) text() string {
	if !d.Durable {
		return ""
	}
	return string(d.Doubt())
}

// members writes the settings.
func (d Durability) members(w *fileWriter) {
	if d.Durable {
		w.raw("durable", []byte("true"))
	}
	if d.InDoubt != "" {
		w.text("inDoubt", string(d.InDoubt))
	}
}

// durability reads the settings.
func (r *fileReader) durability() (d Durability) {
	if v := r.raw("durable"); v != nil {
		on, err := strconv.ParseBool(string(v))
		if kind := jsontext.Value(v).Kind(); err != nil || kind != 't' && kind != 'f' {
			r.fail(`"durable" is %s (want true or false)`, display.Clip(string(v), 40))
		}
		d.Durable = on
	}
	var err error
	if d.InDoubt, err = CheckInDoubt(r.text("inDoubt", false)); err == nil {
		err = d.Check()
	}
	if err != nil {
		r.fail("%w", err)
	}
	return d
}
