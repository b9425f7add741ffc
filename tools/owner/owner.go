// Package owner tells whether others may change what is in a folder: add files to
// it, replace them, or put another folder in its place.
//
//	owner.go        Check, CheckStrictly: what is refused, and what only told
//	walk_unix.go    looking at a folder and at all those above it
//	walk_other.go   systems whose file modes say nothing
//
// Saved tools are run with the user's rights, and tokens are sent where their
// file says: whoever writes there acts as the user. Not checked are access
// control lists, and who is in a group.
package owner

import (
	"errors"
	"fmt"
)

// ErrUnsafe is what errors.Is finds when a folder is not to be used; the error
// is a [*Problem].
var ErrUnsafe = errors.New("others may change it")

// Problem is one way in which others may change what is in a folder.
type Problem struct {
	Dir string // the folder that is asked about
	At  string // Dir, one above it, or a link on the way
	// Text says what is wrong with At, and what to do.
	Text string
	// Certain tells that others certainly may. Otherwise it depends on who is in
	// a group or, for root, on whose folder it is meant to be.
	Certain bool
}

func (p *Problem) Error() string {
	if p.At == p.Dir {
		return fmt.Sprintf("%s: %s", p.Dir, p.Text)
	}
	return fmt.Sprintf("%s: %s, above it, %s", p.Dir, p.At, p.Text)
}

// Is tells that it is ErrUnsafe.
func (p *Problem) Is(target error) bool { return target == ErrUnsafe }

// Check looks at a folder and all those above it, also if it is still to be made.
// The error says that others may certainly change what is in it, or that it
// cannot be looked at. doubts are problems that common set-ups have: a folder
// that a group may write to, and another user's folder when root uses it.
func Check(dir string) (doubts []*Problem, err error) {
	problems, err := look(dir)
	if err != nil {
		return nil, err
	}
	for _, p := range problems {
		if p.Certain {
			return nil, p
		}
	}
	return problems, nil
}

// CheckStrictly is Check for what is executed as it is: doubts are errors.
func CheckStrictly(dir string) error {
	doubts, err := Check(dir)
	if err == nil && len(doubts) > 0 {
		err = doubts[0]
	}
	return err
}
