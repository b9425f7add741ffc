package health

// Unavailable is an unavailable server.
type Unavailable struct {
	Server string `json:"server"` // script name
	State  string `json:"state"`  // starting, failed, closed, disabled
	// Why is a sentence for models with the problem and the advice. Why contains no secrets.
	Why string `json:"why"`
}
