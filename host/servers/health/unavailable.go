package health

// Unavailable is a server that is not available.
type Unavailable struct {
	Server string `json:"server"` // script name
	State  string `json:"state"`  // starting, failed, closed, disabled
	// Why is a sentence for models that says what is wrong and what to do about it.
	// It contains no secrets.
	Why string `json:"why"`
}
