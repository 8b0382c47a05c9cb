module github.com/fanonce/fanonce/retry/bench

go 1.25.0

replace github.com/fanonce/fanonce => ../..

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/fanonce/fanonce v0.0.0-00010101000000-000000000000
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
