// Package owner checks whether others may change what is in a folder: add files to it,
// replace them, or put another folder in its place.
//
//	owner.go        Check, CheckStrictly: errors and doubts
//	walk_unix.go    checking a folder and all folders above it
//	walk_other.go   systems without meaningful file modes
//
// Saved tools run with the user's rights, and tokens are sent where their file says:
// whoever can write there acts as the user. Access control lists and the members of groups
// are not checked.
package owner

import (
	"errors"
	"fmt"
)

// ErrUnsafe is matched by errors.Is if a folder must not be used; the error is a
// [*Problem].
var ErrUnsafe = errors.New("others may change it")

// Problem is a way in which others may change what is in a folder.
type Problem struct {
	Dir string // the folder that is checked
	At  string // Dir, a folder above it, or a link in its path
	// Text says what is wrong with At, and what to do.
	Text string
	// Certain says that others certainly may. Otherwise it depends on who is in a group or,
	// for root, on whose folder it is meant to be.
	Certain bool
}

func (p *Problem) Error() string {
	if p.At == p.Dir {
		return fmt.Sprintf("%s: %s", p.Dir, p.Text)
	}
	return fmt.Sprintf("%s: %s, above it, %s", p.Dir, p.At, p.Text)
}

// Is makes a Problem match ErrUnsafe.
func (p *Problem) Is(target error) bool { return target == ErrUnsafe }

// Check checks a folder, which need not exist yet, and all folders above it. The error says
// that others may certainly change what is in it, or that it cannot be checked. doubts are
// problems that common set-ups have: a folder that a group may write to, and another user's
// folder when root uses it.
func Check(dir string) (doubts []*Problem, err error) {
	problems, err := inspect(dir)
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

// CheckStrictly is Check for files that are executed: doubts are errors.
func CheckStrictly(dir string) error {
	doubts, err := Check(dir)
	if err == nil && len(doubts) > 0 {
		err = doubts[0]
	}
	return err
}
