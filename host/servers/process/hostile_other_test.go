//go:build !linux

package process

const hostileEnv = "PROCESS_TEST_HOSTILE"

func hostile() {}
