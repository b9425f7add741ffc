package config

// Durable says how runs go on whose process has died (package durable).
type Durable struct {
	// Idempotent and NotIdempotent are patterns of SERVER.TOOL. They say whether a call can
	// be made again without harm, before the annotations of its tool do; NotIdempotent wins.
	Idempotent, NotIdempotent []string
}

// decodeDurable reads [durable].
func decodeDurable(t *table, c *Config) {
	if t == nil {
		return
	}
	c.Durable.Idempotent = t.strs("idempotent", t.pattern)
	c.Durable.NotIdempotent = t.strs("not_idempotent", t.pattern)
	t.close(map[string]string{"repeat": "idempotent", "repeatable": "idempotent", "notidempotent": "not_idempotent"})
}

// durable describes what can be called again, if that is configured.
func (d *description) durable(v Durable) {
	if v.Idempotent == nil && v.NotIdempotent == nil {
		return
	}
	d.title("durable")
	d.line("idempotent", d.list("durable.idempotent", v.Idempotent, "nothing"))
	d.line("not_idempotent", d.list("durable.not_idempotent", v.NotIdempotent, "nothing"))
}
