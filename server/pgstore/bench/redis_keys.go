package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// redisVariant claims with SET NX, and writes the answer over the claim with SET. It does not fence
// a late owner.
func redisVariant(ctx context.Context, r *redisServer, name string, n, connections int) (*variant, error) {
	client := r.client(connections)
	if err := client.FlushDB(ctx).Err(); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	turn := callers(n, func(ctx context.Context) error {
		id := random()
		key := string(id[:])
		won, err := client.SetNX(ctx, key, "in progress", keep).Result()
		if err == nil && !won {
			err = errNotFirst
		}
		if err != nil {
			return err
		}
		return client.Set(ctx, key, answer, keep).Err()
	})
	return &variant{
		name: name, connections: connections, turn: turn,
		check: func(ctx context.Context, operations int) error { return checkRedis(ctx, client, operations) },
		close: func() error { return errors.Join(client.FlushDB(context.WithoutCancel(ctx)).Err(), client.Close()) },
	}, nil
}

func checkRedis(ctx context.Context, client *redis.Client, operations int) error {
	n, err := client.DBSize(ctx).Result()
	if err == nil && n != int64(operations) {
		err = fmt.Errorf("%d keys are there, %d operations were counted", n, operations)
	}
	return err
}
