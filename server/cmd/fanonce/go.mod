module github.com/fanonce/fanonce/server/cmd/fanonce

go 1.25.0

replace (
	github.com/fanonce/fanonce => ../../..
	github.com/fanonce/fanonce/server/redisstore => ../../redisstore
)

require (
	github.com/fanonce/fanonce v0.0.0-00010101000000-000000000000
	github.com/fanonce/fanonce/server/redisstore v0.0.0-00010101000000-000000000000
	github.com/jackc/pgservicefile v0.0.0-20240606120523-5a60cdf6a761
	github.com/jackc/pgx/v5 v5.13.0
	github.com/redis/go-redis/v9 v9.22.0
	github.com/spf13/cobra v1.10.1
	github.com/stretchr/testify v1.12.1
	golang.org/x/term v0.40.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/hashicorp/go-retryablehttp v0.7.8 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jackc/pgpassfile v1.0.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/text v0.41.0 // indirect
)
