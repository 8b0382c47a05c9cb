package redisstore

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ParseURL returns the options of a URL of Redis:
//
//	redis://user:password@host:6379/0
//	rediss://…                              with TLS
//	unix:///var/run/redis.sock?db=0
//	redis://host1:7000?addr=host2:7000      more nodes of a cluster, to find it by
//
// A query may have the options of [redis.ParseURL] that are listed in redis.UniversalOptions. An error wraps
// [ErrConfig], and does not show the password.
func ParseURL(text string) (*redis.UniversalOptions, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: not a URL", ErrConfig) // the cause would show the password
	}
	query := u.Query()
	more := query["addr"]
	query.Del("addr")
	u.RawQuery = query.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %s", ErrConfig, u.Redacted(), strings.TrimPrefix(withoutPassword(err, u), "redis: "))
	}
	return &redis.UniversalOptions{
		Addrs: append([]string{o.Addr}, more...), DB: o.DB, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
		Protocol: o.Protocol, ClientName: o.ClientName, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		PoolFIFO: o.PoolFIFO, PoolSize: o.PoolSize, PoolTimeout: o.PoolTimeout, MinIdleConns: o.MinIdleConns, MaxIdleConns: o.MaxIdleConns,
		MaxActiveConns: o.MaxActiveConns, ConnMaxIdleTime: o.ConnMaxIdleTime, ConnMaxLifetime: o.ConnMaxLifetime,
	}, nil
}

func withoutPassword(err error, u *url.URL) string {
	message := err.Error()
	if password, ok := u.User.Password(); ok && password != "" {
		message = strings.ReplaceAll(message, password, "xxxxx")
		message = strings.ReplaceAll(message, strconv.Quote(password), "xxxxx")
	}
	return message
}
