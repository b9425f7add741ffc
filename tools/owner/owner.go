// Package owner checks whether other users may change the content of a folder: add files, replace
// files, or put another folder in its place. Begin with [Check], which returns errors and doubts,
// and [CheckStrictly].
//
// Saved tools run with the user's rights, and tokens are sent to the address in their file: a
// person who can write there acts as the user. Access control lists and the members of groups are
// not checked.
package owner

import (
	"errors"
	"fmt"
)

// ErrUnsafe is matched by errors.Is if a folder must not be used; the error is a
// [*Problem].
var ErrUnsafe = errors.New("others may change it")

// Problem is a way in which other users may change the content of a folder.
type Problem struct {
	Dir string // the checked folder
	At  string // Dir, a folder above Dir, or a link in the path of Dir
	// Text describes the fault of At and the remedy.
	Text string
	// Certain means other users certainly may. Otherwise the answer depends on the members of a
	// group or, for root, on the intended owner of the folder.
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

// Check checks a folder, which need not exist yet, and all folders above it. The error says that
// other users may certainly change the content, or that the check failed. doubts are problems of
// common set-ups: a folder writable by a group, and another user's folder used by root.
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

// CheckStrictly is Check for executed files: doubts are errors.
func CheckStrictly(dir string) error {
	doubts, err := Check(dir)
	if err == nil && len(doubts) > 0 {
		err = doubts[0]
	}
	return err
}
