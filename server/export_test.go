package server

import "github.com/fanonce/fanonce/childkey/wire"

// DetailOf returns what a problem with the code says to people.
func DetailOf(code wire.Code) string { return details[code] }
