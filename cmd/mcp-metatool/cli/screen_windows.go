package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes has a console understand escape sequences, and reports whether it
// does.
func understandsEscapes(file *os.File) bool {
	var mode uint32
	console := windows.Handle(file.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
