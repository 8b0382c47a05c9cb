package guardotel

import "go.opentelemetry.io/otel/attribute"

// The attributes of spans and metrics. error.type is of the semantic conventions; the conventions have no names for
// the others.
const (
	attrGuard   = attribute.Key("fanonce.guard")
	attrStore   = attribute.Key("fanonce.store")
	attrRoute   = attribute.Key("fanonce.route")
	attrEvent   = attribute.Key("fanonce.event")
	attrEffect  = attribute.Key("fanonce.effect")
	attrDigest  = attribute.Key("fanonce.key.digest")
	attrRecord  = attribute.Key("fanonce.record.id")
	attrParent  = attribute.Key("fanonce.record.parent")
	attrFence   = attribute.Key("fanonce.fence")
	attrOutcome = attribute.Key("fanonce.outcome")
	attrLink    = attribute.Key("fanonce.link")
	attrError   = attribute.Key("error.type")
)
