package journal

import "time"

// Lines builds events in the format of the journal, readable by Decode, for callers with a storage
// of their own. Nothing is redacted. The zero value is ready to use.
type Lines struct{ line line }

// Begin adds the first event of a run. In contrast to the journal, the event has the permissions of
// the tool with the digests of the definitions at the time of saving: the run may continue.
func (l *Lines) Begin(id string, start time.Time, b *Begin) {
	l.line.whole = true
	l.line.begin(id, start, b, gaps{})
}

// Call adds the event of a starting call, and Answer the event of the answer.
func (l *Lines) Call(id string, c *CallRecord)   { l.line.call(id, c) }
func (l *Lines) Answer(id string, c *CallRecord) { l.line.answer(id, c) }

// Undo adds the event of a compensation registered by the script.
func (l *Lines) Undo(id string, u *UndoRecord) { l.line.undo(id, u) }

// Take returns the events and forgets them. They are valid until the next event is added.
func (l *Lines) Take() []byte {
	b := l.line.b
	l.line.b = l.line.b[:0]
	return b
}
