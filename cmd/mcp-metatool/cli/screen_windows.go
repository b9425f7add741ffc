package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// understandsEscapes makes a console understand escape sequences, and reports whether the console
// now does.
func understandsEscapes(file *os.File) bool {
	var mode uint32
	console := windows.Handle(file.Fd())
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
