package console

import "github.com/fanonce/fanonce/server/store"

// Events is how many events of a key the recorder keeps.
func Events(r *Recorder, id store.ID) int { return len(r.events(id)) }

// KeysOf is of how many keys the recorder keeps events.
func KeysOf(r *Recorder) int { return len(r.byID) }
