package process

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(hostileEnv) != "" {
		hostile()
		os.Exit(0)
	}
	if os.Getenv(argumentsEnv) != "" {
		writeArguments()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
