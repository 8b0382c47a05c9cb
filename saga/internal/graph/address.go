package graph

import (
	"slices"
	"strconv"
	"strings"
)

// An Address is where a call goes, and what its key is derived from.
type Address struct {
	Service, Operation string
	Discriminators     []string
	Shape              string // "POST /path", function, or that of a sleep or await
}

// Function is the shape of a step or undo without an operation.
const Function = "function"

// Name returns the name of a step that calls this address.
func (a Address) Name() string {
	name := strings.TrimSuffix(a.Service+"."+a.Operation, ".") // a wrong name is shown as it was given
	if len(a.Discriminators) == 0 {
		return name
	}
	shown := make([]string, len(a.Discriminators))
	for i, d := range a.Discriminators {
		shown[i] = d
		if strings.ContainsAny(d, `",[]`) || strconv.Quote(d) != `"`+d+`"` {
			shown[i] = strconv.Quote(d)
		}
	}
	return name + "[" + strings.Join(shown, ",") + "]"
}

// Shown is the address as text, for two plans. A plan of a journal does not tell the service from the operation for sure.
func (a *Address) Shown(plans ...*Plan) string {
	if a == nil {
		return "none"
	}
	text := a.Name() + " " + a.Shape
	if slices.ContainsFunc(plans, func(p *Plan) bool { return !p.IsTyped() }) {
		return text
	}
	return text + " of service " + a.Service
}
