//go:build unix

package main

import (
	"log"
	"os"
	"syscall"
	"time"
	_ "time/tzdata"
)

// setZone makes the local time that of India. It begins the process again with TZ: time.Local
// cannot be set, since a goroutine that the package of the NATS server starts may read it.
func setZone() {
	const zone, mark = "Asia/Kolkata", "MCP_METATOOL_TEST_TZ"
	was, again := os.LookupEnv(mark)
	if !again {
		self, err := os.Executable()
		if err == nil {
			err = syscall.Exec(self, os.Args, append(os.Environ(), mark+"="+os.Getenv("TZ"), "TZ="+zone))
		}
		log.Fatal("the tests cannot be begun again with another time zone: ", err)
	}
	if _, offset := time.Now().Zone(); offset != 5*60*60+30*60 {
		log.Fatal("TZ=" + zone + " has no effect")
	}
	os.Unsetenv(mark)
	os.Unsetenv("TZ")
	if was != "" {
		os.Setenv("TZ", was)
	}
}
