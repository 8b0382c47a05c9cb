package redisstore_test

import (
	"errors"

	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }
func isUnknown(err error) bool  { return errors.Is(err, store.ErrFateUnknown) }
func isFull(err error) bool {
	return errors.Is(err, redisstore.ErrQueueFull) && errors.As(err, new(*store.BusyError))
}
