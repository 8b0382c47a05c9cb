package retry

// Accounts returns how many accounts the budget keeps.
func (b *Budget) Accounts() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.services)
}

// Pauses returns how many pauses the client keeps.
func (c *Client) Pauses() int { return int(c.pauses.active.Load()) }
