package bearer

import (
	"errors"
	"fmt"

	"github.com/mcp-metatool/mcp-metatool/tools"
)

// CheckName returns an error if a token cannot have the name. The rules are the rules for names of
// saved tools, because folders are named after tokens too. The error's text continues a sentence
// that begins with the quoted name.
func CheckName(name string) error {
	bad := new(tools.NameError)
	if errors.As(tools.CheckName(name), &bad) {
		return fmt.Errorf("cannot name a token: %s", bad.Reason)
	}
	return nil
}
