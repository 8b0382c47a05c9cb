package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// The defaults of options that go-redis has others for.
const (
	defaultDialTimeout = 2 * time.Second
	defaultReadTimeout = 3 * time.Second
)

// Open connects to the servers of options, and checks that they keep what they acknowledge. Addrs has at least one
// address. If the first one belongs to a cluster, the store uses the cluster. MasterName means Sentinel. [ParseURL]
// makes options of a URL. Open copies the options; [Store.Close] closes the connections. [OpenClient] takes the client that
// a service has already.
//
// Open returns an error wrapping [ErrConfig] for options or a Config that cannot work, before it connects. It returns
// a [*SettingError] for a server that
//
//   - is older than Redis 6.2, is a replica, or is part of a cluster that lacks slots;
//   - may evict keys (maxmemory-policy is not noeviction): an evicted key is a second run;
//   - keeps its data in memory only (appendonly no), or leaves the time of writing to the kernel (appendfsync no);
//   - has replicas, or is in a cluster, and acknowledges writes that no replica has: min-replicas-to-write is 0, and
//     so is [Config].Replicas.
//
// [Config].AllowNonDurable accepts the last two. A server that hides its settings is an error wrapping
// [ErrUnreadableSetting], unless [Config].Unverified is set. Other errors mean that the servers could not be asked.
//
// The store uses MaxRetries -1, because a repeat of a move whose answer was lost would be told that it lost.
func Open(ctx context.Context, options *redis.UniversalOptions, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	o, err := filledOptions(options, cfg)
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, o)
	if err != nil {
		return nil, err
	}
	return openOver(ctx, client, cfg)
}

// OpenClient is [Open] for a service that has a client already: the store uses its options, such as addresses, credentials
// and TLS. client is a [*redis.Client], also one of Sentinel, or a [*redis.ClusterClient] for a cluster.
//
// The store makes connections of its own, because a client repeats calls after a lost answer unless it is told not to, and
// because a command of the service that blocks would hold up claims. So the client's hooks see no call of the store, and
// [Store.Close] does not close the client. Close the store before a client of Sentinel.
func OpenClient(ctx context.Context, client redis.UniversalClient, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	own, err := ownClient(client, cfg)
	if err != nil {
		return nil, err
	}
	if one, single := own.(*redis.Client); single {
		info, err := one.Info(ctx, "cluster").Result()
		if err == nil && infoField(info, "cluster_enabled") == "1" {
			err = fmt.Errorf("%w: %s is a node of a cluster: give a *redis.ClusterClient", ErrConfig, one.Options().Addr)
		}
		if err != nil {
			_ = own.Close()
			return nil, fmt.Errorf("redisstore: %s: %w", one.Options().Addr, err)
		}
	}
	return openOver(ctx, own, cfg)
}

// ownClient returns a client with the options of another one, and those that the store needs.
func ownClient(client redis.UniversalClient, cfg Config) (redis.UniversalClient, error) {
	switch c := client.(type) {
	case *redis.Client:
		if c == nil {
			break
		}
		o := *c.Options()
		o.MaxRetries, o.DialerRetries, o.Protocol = -1, 1, 2
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		if err := checkTimeouts(o.ReadTimeout, cfg); err != nil {
			return nil, err
		}
		return redis.NewClient(&o), nil
	case *redis.ClusterClient:
		if c == nil {
			break
		}
		o := *c.Options()
		o.MaxRetries, o.DialerRetries, o.Protocol = -1, 1, 2
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
		if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
			return nil, errRouted
		}
		if err := checkTimeouts(o.ReadTimeout, cfg); err != nil {
			return nil, err
		}
		return redis.NewClusterClient(&o), nil
	case nil:
	default:
		return nil, fmt.Errorf("%w: a client of type %T", ErrConfig, client)
	}
	return nil, fmt.Errorf("%w: no client", ErrConfig)
}

var errRouted = fmt.Errorf("%w: ReadOnly, RouteByLatency or RouteRandomly: only a primary decides", ErrConfig)

// checkTimeouts refuses a ReadTimeout that ends a call before its replicas have answered, or never.
func checkTimeouts(read time.Duration, cfg Config) error {
	switch {
	case read < 0:
		return fmt.Errorf("%w: ReadTimeout %v: a call must end", ErrConfig, read)
	case cfg.Replicas > 0 && cfg.WaitTimeout >= cmp.Or(read, defaultReadTimeout):
		return fmt.Errorf("%w: WaitTimeout %v is not shorter than ReadTimeout %v", ErrConfig, cfg.WaitTimeout, cmp.Or(read, defaultReadTimeout))
	}
	return nil
}

// openOver returns the store over a client that it owns from now on.
func openOver(ctx context.Context, client redis.UniversalClient, cfg Config) (*Store, error) {
	s, err := newStore(client, cfg)
	if err == nil {
		err = s.check(ctx)
	}
	if err == nil {
		err = s.nodes.each(ctx, func(client *redis.Client) error { return teachAll(ctx, client) })
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return s, nil
}

func filledOptions(options *redis.UniversalOptions, cfg Config) (redis.UniversalOptions, error) {
	if options == nil || len(options.Addrs) == 0 {
		return redis.UniversalOptions{}, fmt.Errorf("%w: no address", ErrConfig)
	}
	o := *options
	o.MaxRetries = -1
	o.DialerRetries = cmp.Or(o.DialerRetries, 1)
	o.DialTimeout = cmp.Or(o.DialTimeout, defaultDialTimeout)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, defaultReadTimeout)
	o.Protocol = cmp.Or(o.Protocol, 2)
	if o.MaintNotificationsConfig == nil {
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	if o.ReadOnly || o.RouteByLatency || o.RouteRandomly {
		return o, errRouted
	}
	return o, checkTimeouts(o.ReadTimeout, cfg)
}

// connect returns a client of one server, of a server that Sentinel names, or of a cluster.
func connect(ctx context.Context, o redis.UniversalOptions) (redis.UniversalClient, error) {
	if o.MasterName != "" {
		if o.IsClusterMode {
			return nil, fmt.Errorf("%w: MasterName and IsClusterMode", ErrConfig)
		}
		return redis.NewFailoverClient(o.Failover()), nil
	}
	one, err := reachable(ctx, o)
	if err != nil {
		return nil, err
	}
	info, err := one.Info(ctx, "cluster").Result()
	if err == nil && infoField(info, "cluster_enabled") == "1" {
		defer one.Close()
		if o.DB != 0 {
			return nil, fmt.Errorf("%w: DB %d of a cluster", ErrConfig, o.DB)
		}
		if err = checkCluster(ctx, one); err == nil {
			return redis.NewClusterClient(o.Cluster()), nil
		}
	}
	if err == nil && (o.IsClusterMode || len(o.Addrs) > 1) {
		err = fmt.Errorf("%w: several addresses, or IsClusterMode, and %s is no cluster", ErrConfig, one.Options().Addr)
	}
	if err != nil {
		_ = one.Close()
		return nil, fmt.Errorf("redisstore: %s: %w", one.Options().Addr, err)
	}
	return one, nil
}

// reachable returns a client of the first address that answers.
func reachable(ctx context.Context, o redis.UniversalOptions) (*redis.Client, error) {
	var errs []error
	for _, address := range o.Addrs {
		simple := o.Simple()
		simple.Addr = address
		client := redis.NewClient(simple)
		err := client.Ping(ctx).Err()
		if err == nil {
			return client, nil
		}
		errs = append(errs, fmt.Errorf("redisstore: %s: %w", address, err), client.Close())
	}
	return nil, errors.Join(errs...)
}

// teachAll gives the scripts to a server. One that learns later than this gets them with the first call.
func teachAll(ctx context.Context, client *redis.Client) error {
	pipe := client.Pipeline()
	for _, script := range scripts {
		pipe.ScriptLoad(ctx, script.text)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("redisstore: %s: scripts: %w", client.Options().Addr, err)
	}
	return nil
}
