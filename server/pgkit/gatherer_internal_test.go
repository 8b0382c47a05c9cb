package pgkit

import "time"

// NeverStall makes statements that a test holds count as under way for as long as
// it does.
func (g *Gatherer[Q, A]) NeverStall() { g.stalls.after = time.Hour }
