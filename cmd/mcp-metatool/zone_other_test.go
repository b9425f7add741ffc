//go:build !unix

package main

import "time"

// setZone makes the local time that of India.
func setZone() { time.Local = time.FixedZone("", 5*60*60+30*60) }
