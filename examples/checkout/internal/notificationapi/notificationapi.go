// Package notificationapi is the contract of the notification service: the one
// thing that it and its callers share.
package notificationapi

import "github.com/fanonce/fanonce/childkey/contract"

// Send sends a customer a message.
var Send = contract.Post[Message, Sent]("notification", "send", "/messages")

// A Message tells a customer that an order was paid.
type Message struct {
	Order   string `json:"order"`
	Receipt string `json:"receipt"` // of the charge
}

// Sent is a message that is on its way.
type Sent struct {
	ID string `json:"id"`
}
